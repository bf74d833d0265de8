//! Which polynomial has the places of the differences as its roots.

use super::field::Field;

/// The shortest linear recurrence that the syndromes follow (Massey, "Shift-register synthesis and BCH decoding", IEEE
/// Trans. Inf. Theory 1969): the locator, whose roots are the inverses of the places. `None` if it is longer than half of
/// them: then it says nothing.
pub(super) fn locator(field: Field, syndromes: &[u16]) -> Option<Vec<u16>> {
    let (mut locator, mut length) = (vec![1], 0);
    // The locator before the length last grew, what it lacked then, and by how many places it must be moved.
    let (mut before, mut lack_before, mut gap) = (vec![1], 1, 1);
    for at in 0..syndromes.len() {
        let lack = lack(field, &locator, syndromes, at);
        if lack == 0 {
            gap += 1;
            continue;
        }
        let longer = add_moved(field, &locator, &before, field.div(lack, lack_before), gap);
        let old = std::mem::replace(&mut locator, longer);
        if 2 * length <= at {
            length = at + 1 - length;
            (before, lack_before, gap) = (old, lack, 1);
        } else {
            gap += 1;
        }
    }
    while locator.last() == Some(&0) {
        locator.pop();
    }
    (2 * length <= syndromes.len() && locator.len() == length + 1).then_some(locator)
}

/// By how much the recurrence misses the syndrome `at`.
fn lack(field: Field, locator: &[u16], syndromes: &[u16], at: usize) -> u16 {
    let before = syndromes[..=at].iter().rev();
    locator.iter().zip(before).fold(0, |sum, (a, b)| sum ^ field.mul(*a, *b))
}

/// `locator + factor x^gap before`.
fn add_moved(field: Field, locator: &[u16], before: &[u16], factor: u16, gap: usize) -> Vec<u16> {
    let mut sum = locator.to_vec();
    sum.resize(locator.len().max(before.len() + gap), 0);
    sum.iter_mut().skip(gap).zip(before).for_each(|(to, from)| *to ^= field.mul(factor, *from));
    sum
}
