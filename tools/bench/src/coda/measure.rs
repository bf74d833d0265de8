//! One test at one size, measured on loopback.

use super::cases::Case;
use super::copy::{Copy, Ship, Way};
use super::inputs::Writer;
use super::trace::Trace;
use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::stats::Times;
use crate::value::content;
use crate::value::peers::Rsync;
use opship_tap::Link;
use std::time::{Duration, Instant};

/// Half a round trip of every link here.
pub(super) const DELAY: Duration = Duration::from_millis(50);
/// The links' rates, in bits a second.
pub(super) const RATES: [u64; 4] = [9_600, 28_800, 64_000, 1_000_000];
/// How often what is small is measured; the run with the middle time counts.
const RUNS: u64 = 3;
/// Up to this size.
const SMALL: usize = 64 << 10;

/// A link of a rate in bits a second.
pub(super) fn link(rate: u64) -> Link {
    Link { rate: rate / 8, delay: DELAY }
}

/// What a test came to at a size.
pub(super) struct Cell {
    pub(super) name: &'static str,
    /// The size that was wanted.
    pub(super) size: usize,
    /// Bytes of the updated files, as they are and each compressed by itself.
    pub(super) plain: u64,
    pub(super) compressed: u64,
    /// Bytes of the first operation ever, which takes inputs and modules along, and of one with new inputs.
    pub(super) first: u64,
    pub(super) new_inputs: u64,
    /// The operation alone.
    pub(super) operation: Trace,
    /// The results by value, and by rsync.
    pub(super) value: Trace,
    pub(super) rsync: Trace,
    /// The choice at each of the rates.
    pub(super) ways: [Way; RATES.len()],
    /// How long the client thinks about it.
    pub(super) choosing: Duration,
}

/// A test with its servers.
pub(super) struct Bench<'a> {
    case: &'a Case,
    by_operation: Copy<'a>,
    by_value: Copy<'a>,
    rsync: Rsync,
    seed: u64,
    /// Bytes that the first sync of all took beyond a later one of its kind.
    first_more: Option<u64>,
}

impl Bench<'_> {
    /// Starts servers.
    pub(super) fn start<'a>(place: &'a Place, case: &'a Case) -> Result<Bench<'a>> {
        let by_operation = Copy::start(place, case, "operation")?;
        let by_value = Copy::start(place, case, "value")?;
        let rsync = Rsync::start(&place.path(case.name))?;
        Ok(Bench { case, by_operation, by_value, rsync, seed: 0, first_more: None })
    }

    /// What making the workspace took.
    pub(super) fn set_up(&self) -> &Trace {
        &self.by_operation.set_up
    }

    /// Measures all of a size.
    pub(super) fn measure(&mut self, size: usize) -> Result<Cell> {
        let first = if self.first_more.is_none() { Some(self.unknown(size)?.bytes()) } else { None };
        let new_inputs = self.unknown(size)?.bytes();
        let more = self.first_more.unwrap_or(first.unwrap_or_default().saturating_sub(new_inputs));
        self.first_more = Some(more);
        let first = new_inputs + more + self.by_operation.module_bytes;
        let runs = if size <= SMALL { RUNS } else { 1 };
        let mut all = (0..runs).map(|_| self.known(size)).collect::<Result<Vec<_>>>()?;
        let mut operations: Vec<Trace> = all.iter().map(|known| known.operation.clone()).collect();
        let mut values: Vec<Trace> = all.iter().map(|known| known.value.clone()).collect();
        operations.sort_by_key(|trace| trace.computing);
        values.sort_by_key(|trace| trace.computing);
        let middle = all.len() / 2;
        let (operation, value) = (operations.swap_remove(middle), values.swap_remove(middle));
        let Known { plain, compressed, rsync, ways, choosing, .. } = all.swap_remove(middle);
        let name = self.case.name;
        Ok(Cell { name, size, plain, compressed, first, new_inputs, operation, value, rsync, ways, choosing })
    }

    /// The operation with inputs that the server does not know.
    fn unknown(&mut self, size: usize) -> Result<Trace> {
        let below = self.lay(size)?;
        self.by_operation.run(self.case, &below)?;
        self.by_operation.sync(Ship::Operation, self.case.runs.len())
    }

    /// Everything with inputs that both servers know.
    fn known(&mut self, size: usize) -> Result<Known> {
        let operations = self.case.runs.len();
        let below = self.lay(size)?;
        let folder = self.by_value.folder().join(&below);
        let inputs = content::snapshot(&folder)?;
        self.rsync.push(self.by_value.folder())?;
        for copy in [&self.by_operation, &self.by_value] {
            // The inputs, and what of the other copy's was left from before.
            copy.sync(Ship::Value, 0)?;
            copy.run(self.case, &below)?;
        }
        let mut outputs = content::snapshot(&folder)?;
        outputs.retain(|path, _| !inputs.contains_key(path));
        let mut choices = RATES.map(|_| (Way::Operation, Duration::ZERO));
        for (choice, rate) in choices.iter_mut().zip(RATES) {
            *choice = self.by_operation.choice(link(rate))?;
        }
        let operation = self.by_operation.sync(Ship::Operation, operations)?;
        // With nothing left to choose, the rest of the same command.
        let idle = self.by_operation.choice(link(RATES[0]))?.1;
        let choosing = choices.iter().map(|(_, time)| *time).min().unwrap_or_default().saturating_sub(idle);
        let value = self.by_value.sync(Ship::Value, operations)?;
        Ok(Known {
            plain: outputs.values().map(|(.., bytes)| bytes.len() as u64).sum(),
            compressed: outputs.values().map(|(.., bytes)| compressed(bytes)).sum::<Result<u64>>()?,
            operation,
            value,
            rsync: self.rsync()?,
            ways: choices.map(|(way, _)| way),
            choosing,
        })
    }

    fn rsync(&self) -> Result<Trace> {
        self.rsync.tap().take_events();
        let start = Instant::now();
        self.rsync.push(self.by_value.folder())?;
        Ok(Trace::new(&self.rsync.tap().take_events(), start.elapsed()))
    }

    /// By operation or by value: in virtual time and in real time over the link, from the start of a sync to its end, the
    /// connection's opening included; the middle ones of as many as of a small cell, by turns.
    pub(super) fn in_both_times(&mut self, size: usize, link: Link, ship: Ship) -> Result<[Duration; 2]> {
        let operations = self.case.runs.len();
        let (mut expected, mut real) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            for is_real in [false, true] {
                let below = self.lay(size)?;
                let copy = if ship == Ship::Operation { &self.by_operation } else { &self.by_value };
                copy.sync(Ship::Value, 0)?;
                copy.run(self.case, &below)?;
                if is_real {
                    real.push(copy.sync_over(link, ship, operations)?);
                } else {
                    let trace = copy.sync(ship, operations)?;
                    expected.push(trace.time(link) + trace.opening(link));
                }
            }
        }
        Ok([expected, real].map(|times| Duration::from_secs_f64(Times::new(times).median() / 1e3)))
    }

    /// New inputs in a folder of their own, in both copies.
    fn lay(&mut self, size: usize) -> Result<String> {
        self.seed += 1;
        let files = (self.case.inputs)(&mut Writer::new(self.seed), size);
        let below = format!("{:03}", self.seed);
        self.by_operation.lay(&below, &files)?;
        self.by_value.lay(&below, &files)?;
        Ok(below)
    }
}

/// One measurement with all known.
struct Known {
    plain: u64,
    compressed: u64,
    operation: Trace,
    value: Trace,
    rsync: Trace,
    ways: [Way; RATES.len()],
    choosing: Duration,
}

fn compressed(bytes: &[u8]) -> Result<u64> {
    let packed = zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL);
    packed.map(|packed| packed.len() as u64).map_err(BenchError::io("compress"))
}
