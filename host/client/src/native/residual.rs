//! What the module's contents lack to be the program's.

use super::compare::Done;
use super::record::NotRecorded;
use crate::ClientError;
use crate::fs::Root;
use opship_record::answer::Reason;
use opship_record::effect::Change;
use opship_record::{Hash, TreePath};
use opship_residual::Hint;
use opship_residual::parity::Code;
use opship_residual::residual::{Item, MAX_ITEMS, MAX_RESIDUAL, Repair, Residual};
use opship_world::Produced;
use std::collections::BTreeMap;
use std::io::Read;

/// Longest content of which a difference is made: both sides are held in memory. A longer one goes by value.
const MAX_CONTENT: u64 = 32 << 20;
/// Bytes that an operation takes besides its residual, with its answer.
const OPERATION: usize = 400;
/// The level at which contents are compressed to see what they would cost by value.
const LEVEL: i32 = 3;

/// What repairs the contents in which module and program differ; `None` if they do not. By value where that is cheaper.
pub(super) fn residual(
    root: &Root,
    done: &Done,
    produced: &BTreeMap<TreePath, Produced>,
    hint: Hint,
) -> Result<Option<Vec<u8>>, NotRecorded> {
    let Some(first) = done.differing.first() else { return Ok(None) };
    let other = format!("the module writes other bytes to '{first}' than the program");
    if hint == Hint::None || done.differing.len() > MAX_ITEMS {
        return Err(NotRecorded::because(Reason::Diverged, other));
    }
    let (mut items, mut by_value) = (Vec::new(), 0);
    for (index, change) in (0u32..).zip(&done.changes) {
        if done.differing.contains(&change.path) {
            let (repair, value) = repair(root, change, produced.get(&change.path), hint)?;
            items.push(Item { index, repair });
            by_value += value;
        }
    }
    let residual =
        Residual::new(items).map_err(|error| NotRecorded::because(Reason::Limit, error.to_string()))?.encode();
    if residual.len() > MAX_RESIDUAL || residual.len() + OPERATION >= by_value {
        let bytes = residual.len();
        let detail = format!("{other}, and the difference ({bytes} bytes) is no less than the value");
        return Err(NotRecorded::because(Reason::Diverged, detail));
    }
    Ok(Some(residual))
}

/// What repairs one content, and the bytes that it takes by value.
fn repair(
    root: &Root,
    change: &Change,
    produced: Option<&Produced>,
    hint: Hint,
) -> Result<(Repair, usize), NotRecorded> {
    let path = &change.path;
    let failed = || ClientError::io(format!("comparing '{path}'"));
    let length = change.after.blob().map_or(0, |(length, _)| length);
    let produced = produced.filter(|produced| produced.length.max(length) <= MAX_CONTENT).ok_or_else(|| {
        let detail =
            format!("the module writes other bytes to '{path}' than the program, which is too long to compare");
        NotRecorded::because(Reason::Diverged, detail)
    })?;
    let mut content = Vec::new();
    root.open_file(path.as_str()).and_then(|file| file.take(length).read_to_end(&mut content)).map_err(failed())?;
    let mut replayed = Vec::new();
    produced.copy_to(&mut replayed).map_err(failed())?;
    let value = zstd::encode_all(content.as_slice(), LEVEL).map_err(failed())?.len();
    if let Hint::Parity(symbols) = hint
        && let Some(parity) = parity(&content, (&produced.hash, &replayed), symbols)
    {
        return Ok((parity, value));
    }
    let delta = Repair::delta(&content, (&produced.hash, &replayed)).map_err(failed())?;
    Ok((delta, value))
}

/// Parity, where it restores the content.
fn parity(content: &[u8], replayed: (&Hash, &[u8]), symbols: u16) -> Option<Repair> {
    let repair = Repair::parity(content, Code::new(symbols, content.len() as u64).ok()?).ok()?;
    let mut restored = Vec::new();
    repair.apply((replayed.0, &replayed.1), content.len() as u64, &mut restored).ok()?;
    (restored == content).then_some(repair)
}
