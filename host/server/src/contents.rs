//! Comparing and reading contents, in pieces.

use opship_world::{FileContent, Produced, SourceError};

/// Bytes that are compared at one time.
const PIECE: usize = 128 << 10;

/// The first offset at which two contents differ, `None` if they are equal, the end of the shorter one if it is the
/// beginning of the other.
///
/// # Errors
/// [`SourceError`] if one of them cannot be read.
pub(crate) fn first_difference(a: &dyn FileContent, b: &dyn FileContent) -> Result<Option<u64>, SourceError> {
    let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
    let mut offset = 0;
    loop {
        let (l, r) = (a.read_at(offset, &mut left)?, b.read_at(offset, &mut right)?);
        let common = l.min(r);
        if let Some(at) = left[..common].iter().zip(&right[..common]).position(|(x, y)| x != y) {
            return Ok(Some(offset + at as u64));
        }
        if l != r {
            return Ok(Some(offset + common as u64));
        }
        if l == 0 {
            return Ok(None);
        }
        offset += l as u64;
    }
}

/// All bytes of a content whose length the caller has bounded.
///
/// # Errors
/// [`SourceError`] if it cannot be read.
pub(crate) fn read_all(content: &dyn FileContent) -> Result<Vec<u8>, SourceError> {
    let too_long = |_| SourceError {
        path: "blob".to_owned(),
        detail: "it is larger than memory can hold; ship it in pieces".to_owned(),
        changed: false,
    };
    let mut bytes = vec![0; usize::try_from(content.length()).map_err(too_long)?];
    let count = content.read_at(0, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// What a replay made, read as a source is.
pub(crate) struct Replayed<'a>(pub(crate) &'a Produced);

impl FileContent for Replayed<'_> {
    fn length(&self) -> u64 {
        self.0.length
    }

    fn hash(&self) -> Result<opship_record::Hash, SourceError> {
        Ok(self.0.hash)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        self.0.read_at(offset, buffer).map_err(|error| SourceError {
            path: "replayed output".to_owned(),
            detail: format!("{error}; send the entry again"),
            changed: false,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use opship_world::MemoryContent;

    #[test]
    fn the_first_difference_is_found_wherever_it_is() {
        let base: Vec<u8> = (0..3 * PIECE).map(|i| (i % 251) as u8).collect();
        let content = |bytes: &[u8]| MemoryContent::new(bytes);
        assert_eq!(first_difference(&content(&base), &content(&base)).unwrap(), None);
        for at in [0, 1, PIECE - 1, PIECE, 2 * PIECE + 7, base.len() - 1] {
            let mut other = base.clone();
            other[at] ^= 1;
            assert_eq!(first_difference(&content(&base), &content(&other)).unwrap(), Some(at as u64));
            assert_eq!(first_difference(&content(&base[..at]), &content(&base)).unwrap(), Some(at as u64));
        }
    }
}
