//! Neighbours: small operations alone, beside four hostile ones that the same server replays, and beside four that leave the
//! work to the world and return.

use super::small;
use crate::error::Result;
use crate::place::{Place, Server};
use crate::recorder::{Call, Module, Recorder, plan};
use crate::report::{Cell, Goal, Report, Table};
use crate::shipper::Shipper;
use crate::stats::Times;
use crate::text;
use opship_record::record::{Lists, Record, StepStreams};
use opship_world::MemoryTree;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rounds, each of operations alone and then beside either kind: one round's p99 is too much the machine's mood.
const ROUNDS: usize = 5;
/// Operations of a round that are measured, alone and beside either kind each.
const MEASURED: usize = 500;
/// Operations that go before, each time.
const WARM: usize = 50;
const PART: usize = WARM + MEASURED;
const ALL: usize = 3 * ROUNDS * PART;
/// Commands of the guest that does harm; each is sent again when it has ended.
type Hostile = [&'static [&'static str]; 4];
/// What never ends by itself.
const ENDLESS: Hostile = [&["loop"], &["grow"], &["files"], &["output"]];
/// What the world works for: hashing, long and short, copies for further names, the copy that a first write makes.
const WORLDS: Hostile = [&["hole", "1000"], &["hole", "10"], &["copies", "60"], &["first-write", LARGE]];
/// A file in the tree, and its MiB.
const LARGE: &str = "large";
const LARGE_MIB: usize = 512;
/// Limits of this server: each hostile run ends within the time that its request waits, and the disk is not filled.
const LIMITS: [&str; 6] = ["--replay-limit", "10", "--replay-output", "1024", "--replay-files-memory", "512"];

/// Measures and adds table and goal.
pub(super) fn measure(place: &Place, files: &[(String, Vec<u8>)], report: &mut Report) -> Result<()> {
    let server = place.serve_with("neighbours", &LIMITS)?;
    let inputs = text::pieces(files, ALL);
    let mut recorder = Recorder::new(place, place.path("cache-neighbours"))?;
    let (sort, hostile) = (Module::guest(place, "sort")?, Module::guest(place, "hostile")?);
    recorder.load(&sort)?;
    let empty = MemoryTree::new().directory("out");
    let tree = inputs.iter().enumerate().fold(empty, |tree, (i, bytes)| tree.file(&small::input(i), bytes));
    let tree = Arc::new(tree);
    let record = |number| Ok(small::write_sorted(&recorder, &sort, number, &tree)?.0);
    let records = (0..ALL).map(record).collect::<Result<Vec<_>>>()?;
    let mut shipper = small::workspace(&server, "small", &sort, &inputs)?;

    let mut rounds = Vec::with_capacity(ROUNDS);
    let mut parts = records.chunks_exact(PART);
    while let (Some(first), Some(second), Some(third)) = (parts.next(), parts.next(), parts.next()) {
        let alone = singles(&mut shipper, first)?;
        let mut among = |kind, part| beside(&server, rounds.len(), &hostile, kind, || singles(&mut shipper, part));
        let (endless, worlds) = (among(&ENDLESS, second)?, among(&WORLDS, third)?);
        rounds.push(Round { alone, endless, worlds });
    }
    add(report, &rounds);
    Ok(())
}

/// Times of the same operations.
struct Round {
    alone: Times,
    endless: Times,
    worlds: Times,
}

/// Does `work` while the server replays hostile runs.
fn beside<T>(
    server: &Server,
    round: usize,
    hostile: &Module,
    kind: &Hostile,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for command in kind {
            let stop = &stop;
            scope.spawn(move || harm(server, command, round, hostile, stop));
        }
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// Ships operations one after the other, and measures all but the first.
fn singles(shipper: &mut Shipper, records: &[Record]) -> Result<Times> {
    let mut times = Vec::with_capacity(records.len());
    for record in records {
        let request = shipper.operations(std::slice::from_ref(record));
        times.push(shipper.send(request)?.0);
    }
    Ok(Times::new(times.split_off(WARM)))
}

/// Has the server replay a hostile run again and again.
fn harm(server: &Server, command: &[&str], round: usize, module: &Module, stop: &AtomicBool) -> Result<()> {
    let mut shipper = Shipper::new(server, server.address, &format!("{}-{round}", command.join("-")))?;
    shipper.upload(module)?;
    if command.contains(&LARGE) {
        shipper.give(LARGE, vec![0; LARGE_MIB << 20])?;
    }
    let arguments: Vec<&str> = std::iter::once("hostile").chain(command.iter().copied()).collect();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let plan = plan(module, Call { arguments: &arguments, stdout: None, number })?;
        let lists = Lists { streams: vec![StepStreams::default()], exits: vec![0], ..Lists::default() };
        let request = shipper.claim(Record::new(plan, &lists));
        shipper.send(request)?;
    }
    Ok(())
}

fn add(report: &mut Report, rounds: &[Round]) {
    let columns = ["1 KiB, sort writes a file", "p50 ms", "p95 ms", "p99 ms"];
    let mut table = Table::new("Neighbours: one small operation after the other, beside hostile ones", &columns);
    let row = |of: fn(&Round) -> &Times| {
        [50, 95, 99].map(|percent| Cell::fine(median(rounds.iter().map(|round| of(round).percentile(percent)))))
    };
    table.row("alone", row(|round| &round.alone));
    table.row("beside four hostile ones", row(|round| &round.endless));
    table.row("beside four that the world works for", row(|round| &round.worlds));
    let ratios = |of: fn(&Round) -> &Times| -> Vec<f64> {
        rounds.iter().map(|round| of(round).percentile(99) / round.alone.percentile(99)).collect()
    };
    for (of, kind, what) in [
        (
            (|round| &round.endless) as fn(&Round) -> &Times,
            ENDLESS,
            "p99 of a small operation beside four hostile ones, times that alone",
        ),
        (
            |round| &round.worlds,
            WORLDS,
            "p99 of a small operation beside four that the world works for, times that alone",
        ),
    ] {
        let ratios = ratios(of);
        let shown: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let kind = kind.map(|command| command.join(" ")).join(", ");
        table.note(format!(
            "Beside {kind}, each sent again when it ends, p99 was {} times that alone.",
            shown.join(", ")
        ));
        report.goal(Goal { what, figure: median(ratios), goal: 3.0, more_is_better: false });
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    table.note(format!("Medians of {ROUNDS} rounds."));
    table.note(format!("{cores} workers, one a core; after 20 ms a replay leaves its place and runs on at nice 19."));
    report.table(table);
}

/// The middle one.
fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
