//! `residual`: what it takes to make a recorded content of a replayed one that differs here and there.

mod ours;
mod peers;
mod trial;

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::report::{Cell, Goal, Report, Table};
use crate::stats::repeat_computing;
use opship_residual::parity::{AUTO_SYMBOLS, Code, Encoder};

/// How many differences there are.
const COUNTS: [usize; 9] = [1, 2, 4, 8, 16, 24, 32, 48, 64];
/// The number of differences that the goals speak of.
const GOAL: usize = 16;
/// Trials for each number of differences, each with other places.
const TRIALS: usize = 200;
/// Of the trials those whose differences are made too.
const DIFFERENCES: usize = 25;
/// Lengths that rates are of, in MiB.
const LENGTHS: [usize; 3] = [1, 16, 256];

/// What one way takes.
struct Measured {
    bytes: usize,
    /// Median milliseconds.
    making: f64,
    repairing: f64,
    repaired: bool,
}

/// Measures everything.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    if let Some(unknown) = arguments.first() {
        return Err(BenchError::Failed(format!("'{unknown}' is no part of this benchmark; it has none")));
    }
    let place = Place::new()?;
    let mut report = Report::begin("residual");
    let first = repeat_computing(1, || (), |()| Ok(Encoder::new(Code::new(AUTO_SYMBOLS, 0)?)))?.median();
    let recorded = trial::content(trial::LENGTH);
    ways(&place, &recorded, first, &mut report)?;
    lengths(&mut report)?;
    scattered(&place, &recorded, &mut report)?;
    report.finish(&place.results())
}

/// All ways beside each other, for one number of differences.
fn ways(place: &Place, recorded: &[u8], first: f64, report: &mut Report) -> Result<()> {
    let replayed = trial::differing(recorded, GOAL, 0);
    let auto = ours::parity(AUTO_SYMBOLS, recorded, &replayed)?;
    let difference = ours::difference(recorded, &replayed)?;
    let rate = recorded.len() as f64 / auto.making / 1e6;
    let megabytes = recorded.len() as f64 / f64::from(1 << 20);
    for (what, figure, goal, more_is_better) in [
        ("bytes of parity a MiB, residual and all", auto.bytes as f64 / megabytes, 600.0, false),
        ("encoding that parity, GB/s", rate, 0.3, true),
        ("repairing 1 MiB with 16 differences by parity, ms", auto.repairing, 20.0, false),
        ("bytes of the exact difference, 16 places in 1 MiB, residual and all", difference.bytes as f64, 400.0, false),
    ] {
        report.goal(Goal { what, figure, goal, more_is_better });
    }
    let mut table = Table::new(
        "1 MiB with 16 differences of 8 bytes at random places",
        &["way", "bytes", "make ms", "repair ms", "repaired"],
    );
    let (_, erasure) = peers::erasure(place, GOAL, DIFFERENCES)?;
    let rows = [
        ("parity(16)", ours::parity(16, recorded, &replayed)?),
        ("parity(32), auto", auto),
        ("parity(128)", ours::parity(128, recorded, &replayed)?),
        ("delta", difference),
        ("by block signatures", ours::by_signature(recorded, &replayed)?),
        ("rdiff", peers::rdiff(place, recorded, &replayed)?),
        ("block hashes, reed-solomon-erasure", erasure),
    ];
    for (name, way) in rows {
        let repaired = Cell::from(if way.repaired { "yes" } else { "no" });
        table.row(name, [Cell::whole(way.bytes as f64), Cell::fine(way.making), Cell::fine(way.repairing), repaired]);
    }
    table.note("Medians; of what only computes, the time that a processor gave to it.");
    table.note(format!("The first use of parity in a process makes tables besides: {first:.1} ms here."));
    table.note("delta: both contents are at hand, since the client replays too; that replay is not in the time.");
    table.note("by block signatures: as values travel, with a signature that the sender keeps; of 1 KiB blocks.");
    table.note(format!("{}: bytes of signature and delta; times of processes.", peers::rdiff_version()?));
    table.note(
        "block hashes: 8 bytes of BLAKE3 for each of 224 blocks; 32 more blocks by reed-solomon-erasure 6, GF(2^8).",
    );
    report.table(table);
    Ok(())
}

/// Rates over the length.
fn lengths(report: &mut Report) -> Result<()> {
    let columns = ["MiB", "parity a MiB", "encode GB/s", "repair GB/s", "delta make GB/s", "delta apply GB/s"];
    let mut table = Table::new("Rates of parity(32) and delta, 16 differences", &columns);
    for length in LENGTHS {
        let recorded = trial::content(length << 20);
        let replayed = trial::differing(&recorded, GOAL, 0);
        let parity = ours::parity(AUTO_SYMBOLS, &recorded, &replayed)?;
        let delta = ours::difference(&recorded, &replayed)?;
        let rate = |time: f64| Cell::fine(recorded.len() as f64 / time / 1e6);
        let bytes = Cell::whole(parity.bytes as f64 / length as f64);
        let rates = [parity.making, parity.repairing, delta.making, delta.repairing].map(rate);
        table.row(&length.to_string(), std::iter::once(bytes).chain(rates));
    }
    table.note("repair: encoding the replayed content, finding what differs, and writing the recorded one.");
    report.table(table);
    Ok(())
}

/// What is repaired, and the bytes, over the number of differences.
fn scattered(place: &Place, recorded: &[u8], report: &mut Report) -> Result<()> {
    let columns = [
        "differences",
        "parity(16) %",
        "parity(32) %",
        "delta bytes",
        "at most",
        "erasure %",
        "signatures bytes",
        "rdiff bytes",
    ];
    let mut table = Table::new("Differences of 8 bytes at random places in 1 MiB: repaired, and bytes", &columns);
    let mut wrong = 0;
    for count in COUNTS {
        let paper = ours::repaired(recorded, 16, count, TRIALS)?;
        let auto = ours::repaired(recorded, AUTO_SYMBOLS, count, TRIALS)?;
        wrong += paper.wrong + auto.wrong;
        if count == GOAL {
            let what = "trials with 16 differences that 32 symbols repair, %";
            report.goal(Goal { what, figure: auto.share, goal: 100.0, more_is_better: true });
        }
        let mut bytes = (0..DIFFERENCES)
            .map(|trial| ours::difference_bytes(recorded, &trial::differing(recorded, count, trial)))
            .collect::<Result<Vec<_>>>()?;
        bytes.sort_unstable();
        let replayed = trial::differing(recorded, count, 0);
        let (erasure, _) = peers::erasure(place, count, TRIALS)?;
        let by_signature = ours::by_signature(recorded, &replayed)?;
        let cells = [
            Cell::Number(paper.share, 1),
            Cell::Number(auto.share, 1),
            Cell::whole(bytes[bytes.len() / 2] as f64),
            Cell::whole(bytes[bytes.len() - 1] as f64),
            Cell::Number(erasure, 1),
            Cell::whole(by_signature.bytes as f64),
            Cell::whole(peers::rdiff(place, recorded, &replayed)?.bytes as f64),
        ];
        table.row(&count.to_string(), cells);
    }
    table.note(format!("Parity ended in a wrong content {wrong} times; where it does not repair, it said so."));
    table.note(format!(
        "{TRIALS} trials each of what is repaired; of the bytes of deltas the middle one and the most of {DIFFERENCES}."
    ));
    table.note("Random bytes do not compress: 8 of each difference are the least that a delta can take, 512 of 64.");
    report.table(table);
    Ok(())
}
