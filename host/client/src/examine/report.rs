//! What an examination found.

use super::{Difference, Perturbation};
use opship_engine::{Finished, ModuleInfo, RunError, Target, Usage};
use opship_world::Produced;
use std::io;

/// Most bytes of standard error that are kept.
const SAID: usize = 1000;

/// All that was found about a module and one way to call it.
#[derive(Debug)]
pub struct Examination {
    /// What it is.
    pub info: ModuleInfo,
    /// What compiling it took, this processor first.
    pub compiled: Vec<Compiled>,
    /// What its runs did; an error if it came to no end in the first world.
    pub ran: Result<Ran, RunError>,
}

/// What compiling for a target took.
#[derive(Debug, Clone, Copy)]
pub struct Compiled {
    /// The target.
    pub target: Target,
    /// Microseconds.
    pub micros: u64,
    /// Bytes of the compiled form.
    pub bytes: u64,
}

/// What the runs did.
#[derive(Debug, Default)]
pub struct Ran {
    /// The exit code.
    pub exit: u32,
    /// The end of what it wrote to standard error.
    pub said: String,
    /// How long a run takes, in microseconds: the median of those in the first world and in others that are as fast.
    pub micros: u64,
    /// What the first run used.
    pub usage: Usage,
    /// How many paths it looked at.
    pub observed: usize,
    /// How many paths it changed.
    pub changed: usize,
    /// Bytes of the files and streams that it wrote.
    pub produced_bytes: u64,
    /// Bytes of its record.
    pub record_bytes: usize,
    /// Each other world, compared with the first.
    pub comparisons: Vec<Comparison>,
}

/// How another world compares with the first.
#[derive(Debug)]
pub struct Comparison {
    /// Which world.
    pub world: Perturbation,
    /// What was found.
    pub found: Found,
}

/// What a comparison found.
#[derive(Debug)]
pub enum Found {
    /// The run did the same to the byte.
    Same,
    /// It did something else.
    Differs(Vec<Difference>),
    /// It came to no end there, and why.
    Ended(String),
    /// It was not run there, and why.
    Skipped(String),
}

/// The end of a stream as text.
fn end_of(stream: &Produced) -> io::Result<String> {
    let mut bytes = vec![0; usize::try_from(stream.length).unwrap_or(usize::MAX).min(SAID)];
    let count = stream.read_at(stream.length - bytes.len() as u64, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).trim().to_owned())
}

impl Ran {
    pub(super) fn new(
        first: &Finished,
        micros: u64,
        record_bytes: usize,
        comparisons: Vec<Comparison>,
    ) -> io::Result<Ran> {
        let outcome = &first.outcome;
        let streams = outcome.streams.iter().map(|(stdout, stderr)| stdout.length + stderr.length);
        let produced = outcome.files.values().map(|file| file.length).chain(streams).sum();
        Ok(Ran {
            exit: outcome.lists.exits.first().copied().unwrap_or(0),
            said: outcome.streams.first().map_or(Ok(String::new()), |(_, stderr)| end_of(stderr))?,
            micros,
            usage: first.usage,
            observed: outcome.lists.observations.len(),
            changed: outcome.lists.changes.len(),
            produced_bytes: produced,
            record_bytes,
            comparisons,
        })
    }

    /// The recorded things that what it does depends on.
    pub fn depends_on(&self) -> Vec<Perturbation> {
        self.other(true)
    }

    /// The worlds in which it did something else although they are equal to the first: none, or its results cannot be
    /// replayed.
    pub fn contradictions(&self) -> Vec<Perturbation> {
        self.other(false)
    }

    fn other(&self, recorded: bool) -> Vec<Perturbation> {
        let differs = |found: &Found| matches!(found, Found::Differs(_) | Found::Ended(_));
        let all = self.comparisons.iter().filter(|comparison| comparison.world.is_recorded() == recorded);
        all.filter(|comparison| differs(&comparison.found)).map(|comparison| comparison.world).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_record_tells_apart_is_a_dependence_and_anything_else_a_contradiction() {
        let comparison = |world, found| Comparison { world, found };
        let ran = Ran {
            comparisons: vec![
                comparison(Perturbation::Clock, Found::Same),
                comparison(Perturbation::Seed, Found::Differs(vec![Difference::Exit(0, 1)])),
                comparison(Perturbation::Cached, Found::Skipped(String::new())),
                comparison(Perturbation::Load, Found::Ended(String::new())),
                comparison(Perturbation::Baseline, Found::Differs(vec![Difference::Exit(0, 1)])),
            ],
            ..Ran::default()
        };
        assert_eq!(ran.depends_on(), [Perturbation::Seed]);
        assert_eq!(ran.contradictions(), [Perturbation::Load, Perturbation::Baseline]);
    }
}
