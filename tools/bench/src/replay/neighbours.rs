//! Neighbours: small operations alone, and beside four hostile ones that the same server replays.

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

/// Rounds, each of operations alone and then beside the others: one round's p99 is too much the machine's mood.
const ROUNDS: usize = 5;
/// Operations of a round that are measured, alone and beside the others each.
const MEASURED: usize = 500;
/// Operations that go before, each time.
const WARM: usize = 50;
const HALF: usize = WARM + MEASURED;
const ALL: usize = 2 * ROUNDS * HALF;
/// What the hostile ones do; each is sent again when a limit has ended it.
const HOSTILE: [&str; 4] = ["loop", "grow", "files", "output"];
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
    for (number, round) in records.chunks_exact(2 * HALF).enumerate() {
        let (first, second) = round.split_at(HALF);
        let alone = singles(&mut shipper, first)?;
        let beside = beside(&server, number, &hostile, || singles(&mut shipper, second))?;
        rounds.push((alone, beside));
    }
    add(report, &rounds);
    Ok(())
}

/// Does `work` while the server replays hostile runs.
fn beside<T>(server: &Server, round: usize, hostile: &Module, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for command in HOSTILE {
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
fn harm(server: &Server, command: &str, round: usize, module: &Module, stop: &AtomicBool) -> Result<()> {
    let mut shipper = Shipper::new(server, server.address, &format!("{command}-{round}"))?;
    shipper.upload(module)?;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let plan = plan(module, Call { arguments: &["hostile", command], stdout: None, number })?;
        let lists = Lists { streams: vec![StepStreams::default()], exits: vec![0], ..Lists::default() };
        let request = shipper.claim(Record::new(plan, &lists));
        shipper.send(request)?;
    }
    Ok(())
}

fn add(report: &mut Report, rounds: &[(Times, Times)]) {
    let columns = ["1 KiB, sort writes a file", "p50 ms", "p95 ms", "p99 ms"];
    let mut table = Table::new("Neighbours: one small operation after the other, beside hostile ones", &columns);
    let row = |of: fn(&(Times, Times)) -> &Times| {
        [50, 95, 99].map(|percent| Cell::fine(median(rounds.iter().map(|round| of(round).percentile(percent)))))
    };
    table.row("alone", row(|(alone, _)| alone));
    table.row("beside four hostile ones", row(|(_, beside)| beside));
    let ratios: Vec<f64> = rounds.iter().map(|(alone, beside)| beside.percentile(99) / alone.percentile(99)).collect();
    let shown: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    table.note(format!("Medians of {ROUNDS} rounds; p99 beside by p99 alone was {} times.", shown.join(", ")));
    table.note(format!("Hostile: {}; each is sent again when it ends.", HOSTILE.join(", ")));
    table.note(format!("{cores} workers, one a core; after 20 ms a replay leaves its place and runs on at nice 19."));
    report.table(table);
    let what = "p99 of a small operation beside four hostile ones, times that alone";
    report.goal(Goal { what, figure: median(ratios), goal: 3.0, more_is_better: false });
}

/// The middle one.
fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
