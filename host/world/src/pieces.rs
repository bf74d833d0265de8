//! Which pieces of a long file were ever written.

/// Bytes of a piece.
pub(crate) const PIECE: u64 = 1 << 20;

/// One bit a piece; what was never written reads as zeros, whatever the file system says of holes.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<u64>);

impl Pieces {
    /// Something was written from `offset` on.
    pub(crate) fn mark(&mut self, offset: u64, length: usize) {
        let Some(last) = (length as u64).checked_sub(1).and_then(|more| offset.checked_add(more)) else { return };
        for piece in offset / PIECE..=last / PIECE {
            let (word, bit) = place(piece);
            if self.0.len() <= word {
                self.0.resize(word + 1, 0);
            }
            self.0[word] |= bit;
        }
    }

    /// May there be other bytes than zeros in the piece with this offset?
    pub(crate) fn has(&self, offset: u64) -> bool {
        let (word, bit) = place(offset / PIECE);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Forgets what lies behind a new end.
    pub(crate) fn truncate(&mut self, length: u64) {
        let (word, bit) = place(length.div_ceil(PIECE));
        if let Some(bits) = self.0.get_mut(word) {
            *bits &= bit - 1;
            self.0.truncate(word + 1);
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn held(&self) -> usize {
        self.0.len() * size_of::<u64>()
    }
}

fn place(piece: u64) -> (usize, u64) {
    (usize::try_from(piece / 64).unwrap_or(usize::MAX), 1 << (piece % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_there_once_any_of_its_bytes_was_written_and_until_it_is_cut_off() {
        let mut pieces = Pieces::default();
        pieces.mark(5 * PIECE, 0);
        assert!(!pieces.has(5 * PIECE));
        pieces.mark(PIECE - 1, 2);
        pieces.mark(200 * PIECE + 7, 1);
        let written = |pieces: &Pieces| (0..300).filter(|piece| pieces.has(piece * PIECE + 9)).collect::<Vec<_>>();
        assert_eq!(written(&pieces), [0, 1, 200]);
        pieces.truncate(200 * PIECE + 1);
        assert_eq!(written(&pieces), [0, 1, 200]);
        pieces.truncate(200 * PIECE);
        assert_eq!(written(&pieces), [0, 1]);
        pieces.truncate(1);
        assert_eq!(written(&pieces), [0]);
        pieces.truncate(0);
        assert_eq!(written(&pieces), []);
    }
}
