//! Writing a content as a document where both it and its base are at hand: byte for byte, which a signature cannot say.
//!
//! Both are gone through side by side. Where they begin to differ, they are brought together again by the nearest bytes
//! that agree (a few were overwritten, inserted or left out), and else by an index of the base (something was moved, or
//! much is new).

mod index;

use crate::document::Writer;
use index::Index;
use opship_record::Hash;
use std::io::{self, Write};

/// Fewest bytes that are copied: a copy and the literal behind it cost about five.
const LEAST: usize = 8;
/// So many bytes in common are no accident, and nothing better is looked for.
const ENOUGH: usize = 32;
/// How far the nearest common bytes may lie, counted in both contents together.
const NEAR: usize = 64;
/// Most bytes compared to tell which of several matches is the best.
const COMPARED: usize = 4 << 10;

/// Writes the document of `content` with copies of `base`. Beside both, memory for a quarter to half of the base is needed
/// where they do not run side by side.
///
/// # Errors
/// What writing answers.
pub fn make<W: Write>(content: &[u8], base: (&Hash, &[u8]), out: W) -> io::Result<W> {
    let (hash, base) = base;
    let writer = Writer::new(out, content.len() as u64, &[*hash])?;
    let mut search = Search { base, content, writer, index: None, next: Some(0), hit: None };
    search.run()?;
    search.writer.finish()
}

/// Where bytes of the base and of the content agree.
#[derive(Debug, Clone, Copy)]
struct Match {
    base: usize,
    content: usize,
}

struct Search<'a, W> {
    base: &'a [u8],
    content: &'a [u8],
    writer: Writer<W>,
    /// Made when first needed.
    index: Option<Index<'a>>,
    /// Where in the content the index was not asked yet; `None`: nowhere.
    next: Option<usize>,
    /// What it found last.
    hit: Option<Match>,
}

impl<W: Write> Search<'_, W> {
    fn run(&mut self) -> io::Result<()> {
        let mut at = Match { base: 0, content: 0 };
        loop {
            let length = common(&self.base[at.base..], &self.content[at.content..], usize::MAX);
            if length > 0 {
                self.writer.copy(0, at.base as u64, length as u64)?;
            }
            at = at.moved(length);
            let end = self.resume(at);
            self.writer.literal(&self.content[at.content..end.map_or(self.content.len(), |end| end.content)])?;
            match end {
                Some(end) => at = end,
                None => return Ok(()),
            }
        }
    }

    /// Where to go on behind bytes that differ; `None` if all that is left is new.
    fn resume(&mut self, at: Match) -> Option<Match> {
        if at.content == self.content.len() {
            return None;
        }
        let mut best: Option<(usize, Match)> = None;
        for way in [Self::overwritten, Self::near, Self::anywhere] {
            let Some(found) = way(self, at) else { continue };
            let length = self.length(found);
            if length >= ENOUGH {
                return Some(found);
            }
            // Of short ones the one that leaves fewer bytes to be sent.
            let gain = (length + at.content).saturating_sub(found.content);
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, found));
            }
        }
        best.map(|(_, found)| found)
    }

    fn length(&self, at: Match) -> usize {
        common(&self.base[at.base..], &self.content[at.content..], COMPARED)
    }

    /// As many bytes of both are left out.
    fn overwritten(&mut self, at: Match) -> Option<Match> {
        (1..=NEAR).map(|count| at.moved(count)).find(|at| self.agree(*at))
    }

    /// The nearest bytes that agree, however many are left out of each.
    fn near(&mut self, at: Match) -> Option<Match> {
        let ways = (1..=NEAR).flat_map(|count| (0..=count).map(move |of_base| (of_base, count - of_base)));
        let mut places = ways.map(|(base, content)| Match { base: at.base + base, content: at.content + content });
        places.find(|at| self.agree(*at))
    }

    /// The next bytes of the content that are somewhere in the base.
    fn anywhere(&mut self, at: Match) -> Option<Match> {
        if self.hit.is_none_or(|hit| hit.content < at.content) {
            let index = self.index.get_or_insert_with(|| Index::new(self.base));
            let found = index.find(self.content, self.next?.max(at.content));
            self.next = found.map(|hit| hit.content + 1);
            self.hit = found;
        }
        // They may begin to agree earlier than at a whole block.
        let mut hit = self.hit?;
        while hit.content > at.content && hit.base > 0 && self.base[hit.base - 1] == self.content[hit.content - 1] {
            hit = Match { base: hit.base - 1, content: hit.content - 1 };
        }
        Some(hit)
    }

    fn agree(&self, at: Match) -> bool {
        let bytes = |of: &[u8], at: usize| of.get(at..).and_then(|rest| rest.first_chunk::<LEAST>().copied());
        bytes(self.base, at.base).is_some_and(|here| bytes(self.content, at.content) == Some(here))
    }
}

impl Match {
    fn moved(self, count: usize) -> Match {
        Match { base: self.base + count, content: self.content + count }
    }
}

/// How many bytes two contents begin with in common; beyond `enough` it is not counted exactly.
fn common(a: &[u8], b: &[u8], enough: usize) -> usize {
    const STEP: usize = 64;
    let pieces = a.as_chunks::<STEP>().0.iter().zip(b.as_chunks::<STEP>().0);
    let equal = STEP * pieces.take(enough.div_ceil(STEP)).take_while(|(a, b)| a == b).count();
    if equal >= enough {
        return equal;
    }
    equal + a[equal..].iter().zip(&b[equal..]).take_while(|(a, b)| a == b).count()
}
