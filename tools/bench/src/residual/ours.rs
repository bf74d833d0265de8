//! Our parity and difference on the same contents as the peers.

use super::{Measured, trial};
use crate::error::{BenchError, Result};
use crate::stats::repeat_computing;
use opship_record::Hash;
use opship_residual::parity::{Code, Parity};
use opship_residual::residual::{Delta, Item, Repair, Residual};
use opship_residual::{Signature, delta, packed};

/// Runs that a median is of.
const RUNS: usize = 25;

/// The bytes that travel, and the times of making and of applying them.
pub(super) fn parity(symbols: u16, recorded: &[u8], replayed: &[u8]) -> Result<Measured> {
    let code = Code::new(symbols, recorded.len() as u64)?;
    measure(recorded, replayed, |_| Ok(Repair::parity(recorded, code)?))
}

/// The same of the difference.
pub(super) fn difference(recorded: &[u8], replayed: &[u8]) -> Result<Measured> {
    let failed = || BenchError::io("make a difference");
    measure(recorded, replayed, |hash| Repair::delta(recorded, (hash, replayed)).map_err(failed()))
}

fn measure(recorded: &[u8], replayed: &[u8], make: impl Fn(&Hash) -> Result<Repair>) -> Result<Measured> {
    // Both sides know the hash of what they replayed.
    let hash = Hash::of(replayed);
    let making = repeat_computing(RUNS, || (), |()| make(&hash))?;
    let repair = make(&hash)?;
    let bytes = Residual::new(vec![Item { index: 0, repair: repair.clone() }])?.encode().len();
    applied(&repair, bytes, making.median(), recorded, replayed)
}

fn applied(repair: &Repair, bytes: usize, making: f64, recorded: &[u8], replayed: &[u8]) -> Result<Measured> {
    let hash = Hash::of(replayed);
    let apply = |mut made: Vec<u8>| {
        // One that is refused takes its time too.
        let refused = repair.apply((&hash, &replayed), u64::MAX, &mut made).is_err();
        Ok(if refused { Vec::new() } else { made })
    };
    let repairing = repeat_computing(RUNS, || Vec::with_capacity(recorded.len()), apply)?.median();
    let repaired = apply(Vec::new())? == recorded;
    Ok(Measured { bytes, making, repairing, repaired })
}

/// What became of trials with parity.
pub(super) struct Repaired {
    /// In percent of all.
    pub(super) share: f64,
    /// Those that ended in another content than the recorded one.
    pub(super) wrong: usize,
}

/// Repairs so many trials by parity.
pub(super) fn repaired(recorded: &[u8], symbols: u16, count: usize, trials: usize) -> Result<Repaired> {
    let code = Code::new(symbols, recorded.len() as u64)?;
    let parity = Parity::of(recorded, code)?;
    let (mut right, mut wrong) = (0usize, 0);
    for trial in 0..trials {
        let replayed = trial::differing(recorded, count, trial);
        let Ok(difference) = parity.difference(&Parity::of(replayed.as_slice(), code)?) else { continue };
        let mut made = Vec::with_capacity(recorded.len());
        difference.apply(replayed.as_slice(), &mut made)?;
        *if made == recorded { &mut right } else { &mut wrong } += 1;
    }
    Ok(Repaired { share: right as f64 * 100.0 / trials as f64, wrong })
}

/// The bytes of the residual that holds the difference.
pub(super) fn difference_bytes(recorded: &[u8], replayed: &[u8]) -> Result<usize> {
    let made = Repair::delta(recorded, (&Hash::of(replayed), replayed));
    let repair = made.map_err(BenchError::io("make a difference"))?;
    Ok(Residual::new(vec![Item { index: 0, repair }])?.encode().len())
}

/// rsync's algorithm as values travel by it, where the sender has the signature already: the compressed document.
pub(super) fn by_signature(recorded: &[u8], replayed: &[u8]) -> Result<Measured> {
    let (hash, signature) = (Hash::of(replayed), Signature::of(replayed));
    let make = || {
        let encoder = packed::Encoder::new(Vec::new(), recorded.len() as u64)?;
        delta::make(recorded, recorded.len() as u64, Some((&hash, &signature)), encoder)?.finish()
    };
    let failed = || BenchError::io("make a document");
    let making = repeat_computing(RUNS, || (), |()| make().map_err(failed()))?;
    let document = Delta::from_bytes(make().map_err(failed())?);
    let bytes = document.as_bytes().len();
    applied(&Repair::Delta(document), bytes, making.median(), recorded, replayed)
}
