//! Content-defined chunks: FastCDC (Xia et al., "The Design of Fast Content-Defined Chunking for Data Deduplication Based
//! Storage Systems", IEEE TPDS 2020). An edit moves the cuts near it and no others, so both ends find the same chunks in
//! most of a content without talking. The constants are part of the format: other ones find nothing in common.

use fastcdc::v2020::FastCDC;
use std::io::{self, Read};

/// Shortest chunk in bytes, but for a content's last.
pub const LEAST: usize = 16 << 10;
/// Length in bytes that chunks have on average.
pub const AVERAGE: usize = 64 << 10;
/// Longest chunk in bytes.
pub const MOST: usize = 256 << 10;

/// Bytes that are gathered before cuts are looked for, so that little is moved about.
const WINDOW: usize = 4 * MOST;

/// Cuts a content that comes in pieces of any lengths. Holds at most 1 MiB and the piece that it was given.
///
/// ```
/// use opship_residual::chunks::Cutter;
/// let mut lengths = Vec::new();
/// let mut keep = |chunk: &[u8]| -> Result<(), std::io::Error> {
///     lengths.push(chunk.len());
///     Ok(())
/// };
/// let mut cutter = Cutter::new();
/// cutter.push(&[7; 300_000], &mut keep)?;
/// cutter.finish(&mut keep)?;
/// assert_eq!(lengths.iter().sum::<usize>(), 300_000);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Cutter {
    pending: Vec<u8>,
}

impl Cutter {
    /// A cutter at the beginning of a content.
    pub fn new() -> Cutter {
        Cutter::default()
    }

    /// Takes the next bytes and passes on the chunks that are complete by them.
    ///
    /// # Errors
    /// Whatever `found` returns; the cutter is of no use then.
    pub fn push<E>(&mut self, mut bytes: &[u8], found: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(WINDOW.saturating_sub(self.pending.len())));
            self.pending.extend_from_slice(now);
            bytes = later;
            if self.pending.len() >= WINDOW {
                // Where a chunk ends is certain only if the longest one would end within what is here.
                self.cut_while(MOST, found)?;
            }
        }
        Ok(())
    }

    /// Passes on the chunks of what is left. An empty content has none.
    ///
    /// # Errors
    /// Whatever `found` returns.
    pub fn finish<E>(mut self, found: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.cut_while(1, found)
    }

    fn cut_while<E>(&mut self, needed: usize, found: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut start = 0;
        while self.pending.len() - start >= needed {
            let rest = &self.pending[start..];
            let (_, end) = FastCDC::new(rest, LEAST, AVERAGE, MOST).cut(0, rest.len());
            found(&rest[..end])?;
            start += end;
        }
        self.pending.drain(..start);
        Ok(())
    }
}

/// Cuts all that a reader gives.
///
/// # Errors
/// The reader's, and whatever `found` returns.
pub fn cut(mut reader: impl Read, mut found: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut cutter = Cutter::new();
    let mut buffer = vec![0; MOST];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return cutter.finish(&mut found),
            Ok(count) => cutter.push(&buffer[..count], &mut found)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Bytes without a pattern (xorshift, Marsaglia 2003).
    fn sample(length: usize, mut state: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    fn chunks(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        cut(bytes, |chunk| {
            chunks.push(chunk.to_vec());
            Ok(())
        })
        .unwrap();
        chunks
    }

    /// The cuts are part of the format.
    #[test]
    fn cuts_stay_where_they_are() {
        let lengths: Vec<usize> = chunks(&sample(500_000, 1)).iter().map(Vec::len).collect();
        assert_eq!(lengths, [85966, 85358, 101582, 87648, 77767, 61679]);
    }

    #[test]
    fn an_insertion_changes_few_chunks() {
        let old = sample(5_000_000, 2);
        let mut new = old.clone();
        new.splice(2_000_000..2_000_000, *b"inserted");
        let known: HashSet<Vec<u8>> = chunks(&old).into_iter().collect();
        assert!(known.len() > 40);
        let fresh = chunks(&new).into_iter().filter(|chunk| !known.contains(chunk)).count();
        assert!((1..=3).contains(&fresh), "{fresh}");
    }

    #[test]
    fn what_the_reader_or_the_receiver_says_is_passed_on() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
        assert_eq!(cut(Broken, |_| Ok(())).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        let refused = cut(&[1; 100][..], |_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn chunks_are_the_content_however_it_comes(
            length in 0..3_000_000usize,
            same in any::<bool>(),
            pieces in prop::collection::vec(1..600_000usize, 0..12),
        ) {
            let bytes = if same { vec![9; length] } else { sample(length, length as u64 + 1) };
            let expected = chunks(&bytes);
            let mut found: Vec<Vec<u8>> = Vec::new();
            let mut keep = |chunk: &[u8]| -> Result<(), ()> {
                found.push(chunk.to_vec());
                Ok(())
            };
            let (mut cutter, mut rest) = (Cutter::new(), bytes.as_slice());
            for piece in pieces {
                let (now, later) = rest.split_at(piece.min(rest.len()));
                cutter.push(now, &mut keep).unwrap();
                rest = later;
            }
            cutter.push(rest, &mut keep).unwrap();
            cutter.finish(&mut keep).unwrap();
            prop_assert!(found.concat() == bytes);
            prop_assert!(found == expected);
            let (last, others) = found.split_last().map_or((None, &[][..]), |(last, others)| (Some(last), others));
            prop_assert!(others.iter().all(|chunk| (LEAST..=MOST).contains(&chunk.len())));
            prop_assert!(last.is_none_or(|chunk| (1..=MOST).contains(&chunk.len())));
        }
    }
}
