//! Small operations on loopback: how long one takes, how many a second go in batches; beside it the same results by value.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server};
use crate::recorder::{Call, Module, Recorder};
use crate::report::{Cell, Goal, Report, Table};
use crate::shipper::{Request, Shipper, created};
use crate::stats::{Times, repeat};
use crate::text;
use opship_record::TreePath;
use opship_record::record::Record;
use opship_world::MemoryTree;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Operations that go alone.
const SINGLES: usize = 300;
/// Operations of a batch.
const BATCH: usize = 250;
const BATCHES: usize = 8;
/// Operations that go before anything is measured.
const WARM: usize = 20;
const ALL: usize = WARM + SINGLES + BATCH * BATCHES;

/// What came of one way of shipping.
struct Measured {
    singles: Times,
    /// Time of the server's replays, in milliseconds.
    replay: f64,
    batches: Times,
}

impl Measured {
    fn a_second(&self) -> f64 {
        BATCH as f64 * 1e3 / self.batches.median()
    }
}

/// Measures all and adds table and goals.
pub(super) fn measure(place: &Place, server: &Server, files: &[(String, Vec<u8>)], report: &mut Report) -> Result<()> {
    let inputs = text::pieces(files, ALL);
    let mut recorder = Recorder::new(place, place.path("cache-sort-0"))?;
    let sort = Module::guest(place, "sort")?;
    recorder.load(&sort)?;
    let tree = inputs
        .iter()
        .enumerate()
        .fold(MemoryTree::new().directory("out"), |tree, (i, bytes)| tree.file(&input(i), bytes));
    let tree = Arc::new(tree);

    let (mut writing, mut outputs) = (Vec::new(), Vec::new());
    for number in 0..ALL {
        let (record, bytes) = write_sorted(&recorder, &sort, number, &tree)?;
        writing.push(record);
        outputs.push(bytes);
    }
    let mut shipper = workspace(server, "writing", &sort, &inputs)?;
    let wrote = run(&mut shipper, |shipper, from, to| Ok(shipper.operations(&writing[from..to])))?;

    let print = |number: usize| print_sorted(&recorder, &sort, number, &tree);
    let printing = (0..ALL).map(print).collect::<Result<Vec<_>>>()?;
    let mut shipper = workspace(server, "printing", &sort, &inputs)?;
    let printed = run(&mut shipper, |shipper, from, to| Ok(shipper.operations(&printing[from..to])))?;

    let mut shipper = workspace(server, "values", &sort, &inputs)?;
    let by_value = run(&mut shipper, |shipper, from, to| values(shipper, &outputs, from, to))?;
    add(place, report, &[("sort writes a file", &wrote), ("sort prints", &printed), ("the file by value", &by_value)])
}

fn add(place: &Place, report: &mut Report, measured: &[(&str, &Measured)]) -> Result<()> {
    let columns = ["1 KiB", "one: p50 ms", "p95 ms", "of it replay ms", "batch: a second"];
    let mut table = Table::new("Small operations on loopback, over one kept connection", &columns);
    for (name, m) in measured {
        let (p50, p95) = (m.singles.median(), m.singles.percentile(95));
        table.row(name, [Cell::fine(p50), Cell::fine(p95), Cell::fine(m.replay), Cell::whole(m.a_second())]);
    }
    table.note(format!(
        "{SINGLES} requests of one, {BATCHES} requests of {BATCH}, one after the other; every input and output differs."
    ));
    let [in_place, growing] = durable_write(place)?;
    table.note(format!(
        "A durable write of 4 KiB on this disk: {in_place:.2} ms in place, {growing:.2} ms at the end of a file."
    ));
    table.note("Client and server share the cores.");
    report.table(table);
    let names = [
        ["one small operation that writes a file, p50 ms", "small operations that write a file, in batches, a second"],
        ["one small operation that prints, p50 ms", "small operations that print, in batches, a second"],
    ];
    for ((_, m), [one, batch]) in measured.iter().zip(names) {
        report.goal(Goal { what: one, figure: m.singles.median(), goal: 3.0, more_is_better: false });
        report.goal(Goal { what: batch, figure: m.a_second(), goal: 1000.0, more_is_better: true });
    }
    Ok(())
}

/// Ships everything; `request` makes a request of the entries of a range.
fn run(shipper: &mut Shipper, request: impl Fn(&mut Shipper, usize, usize) -> Result<Request>) -> Result<Measured> {
    let warm = request(shipper, 0, WARM)?;
    shipper.send(warm)?;
    let (mut singles, mut replays, mut batches) = (Vec::new(), Vec::new(), Vec::new());
    for number in WARM..WARM + SINGLES {
        let one = request(shipper, number, number + 1)?;
        let (time, answers) = shipper.send(one)?;
        singles.push(time);
        replays.extend(answers.iter().filter_map(|answer| answer.replay_micros).map(std::time::Duration::from_micros));
    }
    for batch in 0..BATCHES {
        let from = WARM + SINGLES + batch * BATCH;
        let batch = request(shipper, from, from + BATCH)?;
        batches.push(shipper.send(batch)?.0);
    }
    Ok(Measured { singles: Times::new(singles), replay: Times::new(replays).median(), batches: Times::new(batches) })
}

/// A workspace that holds module and inputs.
pub(super) fn workspace(server: &Server, name: &str, module: &Module, inputs: &[Vec<u8>]) -> Result<Shipper> {
    let mut shipper = Shipper::new(server, server.address, name)?;
    shipper.upload(module)?;
    let names: Vec<String> = (0..inputs.len()).map(input).collect();
    shipper.lay("in", names.iter().map(String::as_str).zip(inputs.iter().map(Vec::as_slice)))?;
    shipper.lay("out", std::iter::empty())?;
    Ok(shipper)
}

pub(super) fn input(number: usize) -> String {
    format!("in/{number:06}")
}

fn output(number: usize) -> String {
    format!("out/{number:06}")
}

pub(super) fn write_sorted(
    recorder: &Recorder,
    sort: &Module,
    number: usize,
    tree: &Arc<MemoryTree>,
) -> Result<(Record, Vec<u8>)> {
    let (from, to) = (input(number), output(number));
    let call = Call { arguments: &["sort", "-o", &to, &from], stdout: None, number: number as u64 };
    let (record, outcome) = recorder.record(sort, call, tree)?;
    let mut bytes = Vec::new();
    if let Some(file) = outcome.files.get(&TreePath::new(&to)?) {
        file.copy_to(&mut bytes).map_err(BenchError::io("read what a module wrote"))?;
    }
    Ok((record, bytes))
}

fn print_sorted(recorder: &Recorder, sort: &Module, number: usize, tree: &Arc<MemoryTree>) -> Result<Record> {
    let call = Call { arguments: &["sort", &input(number)], stdout: None, number: number as u64 };
    Ok(recorder.record(sort, call, tree)?.0)
}

fn values(shipper: &mut Shipper, outputs: &[Vec<u8>], from: usize, to: usize) -> Result<Request> {
    let one = |number: usize| Ok((vec![created(&output(number), &outputs[number])?], vec![outputs[number].clone()]));
    Ok(shipper.values((from..to).map(one).collect::<Result<_>>()?))
}

/// Median milliseconds of a durable write of 4 KiB: what any commit costs at least. In place, as a log that is used
/// again is written, and at the end of a file, which then grows.
fn durable_write(place: &Place) -> Result<[f64; 2]> {
    const WRITES: usize = 100;
    const PAGE: [u8; 4096] = [7; 4096];
    let failed = || BenchError::io("measure the disk");
    let file = File::create(place.path("durable")).map_err(failed())?;
    file.write_all_at(&[0; PAGE.len() * WRITES], 0).and_then(|()| file.sync_all()).map_err(failed())?;
    let write = |page: usize| {
        let at = (page * PAGE.len()) as u64;
        file.write_all_at(&PAGE, at).and_then(|()| file.sync_data()).map_err(failed())
    };
    let in_place = repeat(WRITES, Ok, write)?;
    let growing = repeat(WRITES, |run| Ok(WRITES + run), write)?;
    Ok([in_place.median(), growing.median()])
}
