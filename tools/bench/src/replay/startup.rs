//! What it takes until a large module's first instruction, and what canonical NaN bits cost.

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::recorder::{Call, Module, Recorder};
use crate::report::{Cell, Goal, Report, Table};
use crate::stats::{Times, repeat, timed};
use opship_engine::LoadedFrom;
use opship_record::Hash;
use opship_world::MemoryTree;
use std::fmt::Write as _;
use std::sync::Arc;

/// Runs that a median is of.
const RUNS: usize = 200;
const DISK_RUNS: usize = 15;
const LOOP_RUNS: usize = 5;
/// At least so many bytes of module.
const BYTES: usize = 5_000_000;

/// Measures and adds the tables.
pub(super) fn measure(place: &Place, report: &mut Report) -> Result<()> {
    startup(place, report)?;
    nan(report)
}

fn startup(place: &Place, report: &mut Report) -> Result<()> {
    let module = large()?;
    let tree = Arc::new(MemoryTree::new());
    let call = Call { arguments: &["large"], stdout: None, number: 0 };
    let mut recorder = Recorder::new(place, place.path("cache-large"))?;
    let cold = timed(|| recorder.load(&module))?;
    let warm = repeat(RUNS, |_| Ok(()), |()| recorder.run(&module, call, &tree))?;
    let hash = repeat(DISK_RUNS, |_| Ok(()), |()| Ok(Hash::of(&module.bytes)))?;
    let disk = repeat(
        DISK_RUNS,
        |_| Recorder::new(place, place.path("cache-large")),
        |mut recorder| match recorder.load(&module)? {
            LoadedFrom::Disk => Ok(recorder),
            from => Err(BenchError::Failed(format!("the module came from {from:?}"))),
        },
    )?;
    let columns = ["", "median ms", "p95 ms"];
    let mut table = Table::new("Starting a module", &columns);
    let row = |times: &Times| [times.median(), times.percentile(95)].map(Cell::fine);
    table.row("a run that ends with its first call, module loaded", row(&warm));
    table.row("loading it from the cache on disk", row(&disk));
    table.row("hashing its bytes", row(&hash));
    table.row("compiling it, in the child process", row(&Times::new(vec![cold])));
    table.note(format!("The module has {} bytes, nearly all of them code, and 1 MiB of data.", module.bytes.len()));
    report.table(table);
    report.goal(Goal {
        what: "to the first instruction of a loaded 5 MB module and out again, p50 ms",
        figure: warm.median(),
        goal: 1.0,
        more_is_better: false,
    });
    Ok(())
}

/// A module of many functions that calls `proc_exit` at once.
fn large() -> Result<Module> {
    let mut text = String::from(
        r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 20) (func (export "_start") (call $exit (i32.const 0)))
        (table funcref (elem "#,
    );
    // A function takes some 230 bytes.
    let functions = BYTES / 230;
    for index in 0..functions {
        let _ = write!(text, " $f{index}");
    }
    text += "))";
    for index in 0..functions {
        let _ = write!(text, "(func $f{index} (param i32 i32) (result i32)");
        for step in 0..16 {
            let (place, number) = (64 * (index % 4096) + 4 * step, index * 31 + step * 7919);
            let _ = write!(
                text,
                "(i32.store offset={place} (local.get 0) (i32.add (i32.mul (local.get 1) (i32.const {number})) (i32.load offset={place} (local.get 0))))"
            );
        }
        text += "(local.get 1))";
    }
    let data: String = (0..1 << 20).map(|index: u32| char::from(b'a' + (index % 23) as u8)).collect();
    let _ = write!(text, "(data (i32.const 0) \"{data}\"))");
    let bytes = wat::parse_str(&text).map_err(|error| BenchError::Failed(format!("the module's text: {error}")))?;
    Ok(Module { hash: Hash::of(&bytes), bytes })
}

/// Loops that do nothing but add and multiply.
const LOOPS: [(&str, &str); 2] = [
    ("floating-point loop", "(local.set $x (f64.add (f64.mul (local.get $x) (f64.const 0.999)) (f64.const 1.5)))"),
    ("integer loop", "(local.set $n (i64.add (i64.mul (local.get $n) (i64.const 3)) (i64.const 7)))"),
];

fn nan(report: &mut Report) -> Result<()> {
    let columns = ["", "canonical ms", "as it comes ms", "canonical / as it comes"];
    let mut table = Table::new("Canonical NaN bits", &columns);
    for (name, body) in LOOPS {
        let text = format!(
            r#"(module (func (export "run") (local $x f64) (local $n i64) (local $i i32)
            (loop {body}{body}{body}{body} (br_if 0 (i32.ne (i32.const 50000000) (local.tee $i (i32.add (local.get $i) (i32.const 1))))))
            (if (f64.eq (local.get $x) (f64.const 1)) (then unreachable))
            (if (i64.eq (local.get $n) (i64.const 1)) (then unreachable))))"#
        );
        let (with, without) = (Bare::new(&text, true)?, Bare::new(&text, false)?);
        let (mut canonical, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..LOOP_RUNS {
            canonical.push(timed(|| with.run())?);
            plain.push(timed(|| without.run())?);
        }
        let [canonical, plain] = [canonical, plain].map(|times| Times::new(times).median());
        table.row(name, [canonical, plain, canonical / plain].map(Cell::fine));
    }
    table.note("200 million operations, with the engine's setting and without it; wasmtime alone, without a world.");
    report.table(table);
    Ok(())
}

/// A module in wasmtime alone.
struct Bare {
    engine: wasmtime::Engine,
    module: wasmtime::Module,
}

impl Bare {
    fn new(text: &str, canonical: bool) -> Result<Bare> {
        let failed = |error: wasmtime::Error| BenchError::Failed(format!("wasmtime: {error:#}"));
        let bytes = wat::parse_str(text).map_err(|error| BenchError::Failed(format!("the loop's text: {error}")))?;
        let mut config = wasmtime::Config::new();
        config.cranelift_nan_canonicalization(canonical);
        let engine = wasmtime::Engine::new(&config).map_err(failed)?;
        let module = wasmtime::Module::new(&engine, bytes).map_err(failed)?;
        Ok(Bare { engine, module })
    }

    fn run(&self) -> Result<()> {
        let mut store = wasmtime::Store::new(&self.engine, ());
        wasmtime::Instance::new(&mut store, &self.module, &[])
            .and_then(|instance| instance.get_typed_func::<(), ()>(&mut store, "run"))
            .and_then(|run| run.call(&mut store, ()))
            .map_err(|error| BenchError::Failed(format!("wasmtime: {error:#}")))
    }
}
