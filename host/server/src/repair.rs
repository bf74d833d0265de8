//! Residuals: what a replay lacks to be what was recorded is added to its contents (DESIGN.md §5, Native runs).

use crate::lists::{Halt, Parts};
use crate::replay::Ran;
use crate::ship::Context;
use opship_record::entry::PartKind;
use opship_record::record::Lists;
use opship_record::{Hash, Hasher};
use opship_residual::Residual;
use opship_residual::apply::Base;
use opship_world::{Produced, ProducedBody, Spill, SpillFile};
use std::io::{self, Write};

/// A repaired content up to this many bytes is held in memory until it is kept; a larger one goes to disk at once.
const IN_MEMORY: usize = 1 << 20;

/// Makes recorded contents of what the replay made and the entry's residual, keeps those that have the recorded hashes, and
/// says how many there are. What does not come out as recorded is left: its value is asked for then.
pub(crate) fn repair(context: &Context, parts: &Parts, lists: &Lists, ran: &Ran) -> Result<usize, Halt> {
    let Some(bytes) = parts.list(&context.state, &context.scope, PartKind::Residual)? else { return Ok(0) };
    let residual = match Residual::decode(&bytes) {
        Ok(residual) => residual,
        Err(error) => {
            tracing::info!(%error, "a residual is of no use");
            return Ok(0);
        }
    };
    let (mut repaired, mut left) = (0, context.state.budget.produced_bytes);
    for item in residual.items() {
        let change = usize::try_from(item.index).ok().and_then(|index| lists.changes.get(index));
        let Some((change, (length, hash))) = change.and_then(|change| Some((change, change.after.blob()?))) else {
            continue;
        };
        let Some(rest) = left.checked_sub(length) else { break };
        left = rest;
        let replayed = ran.outcome.files.get(&change.path);
        let base_hash = replayed.map_or(Hash::of_empty(), |made| made.hash);
        let mut sink = Sink::new(context.state.spill.as_ref());
        match item.repair.apply((&base_hash, &Made(replayed)), length, &mut sink) {
            // Damaged compression is an error of reading too.
            Err(error) => tracing::info!(path = %change.path, %error, "a residual does not fit"),
            Ok(_) => {
                let made = sink.finish();
                if (made.length, made.hash) == (length, hash) {
                    context.state.store.put_produced(&context.scope, &made)?;
                    repaired += 1;
                }
            }
        }
    }
    Ok(repaired)
}

/// What a replay made of a path; nothing counts as empty.
struct Made<'a>(Option<&'a Produced>);

impl Base for Made<'_> {
    fn length(&self) -> u64 {
        self.0.map_or(0, |made| made.length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.map_or(Ok(0), |made| made.read_at(offset, buffer))
    }
}

/// Takes a content in, as a run would leave it.
struct Sink<'a> {
    spill: &'a dyn Spill,
    memory: Vec<u8>,
    file: Option<SpillFile>,
    hasher: Hasher,
    length: u64,
}

impl<'a> Sink<'a> {
    fn new(spill: &'a dyn Spill) -> Sink<'a> {
        Sink { spill, memory: Vec::new(), file: None, hasher: Hasher::new(), length: 0 }
    }

    fn finish(self) -> Produced {
        let body = match self.file {
            Some(file) => ProducedBody::Spilled(file),
            None => ProducedBody::Memory(self.memory),
        };
        Produced { body, length: self.length, hash: self.hasher.finish() }
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() && self.memory.len() + bytes.len() > IN_MEMORY {
            let mut file = self.spill.create()?;
            file.file.write_all(&std::mem::take(&mut self.memory))?;
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.file.write_all(bytes)?,
            None => self.memory.extend_from_slice(bytes),
        }
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
