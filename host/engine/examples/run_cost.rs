//! What a run costs, and whether runs should live in threads or in worker processes: medians in microseconds.
//!
//! `cargo run -p opship-engine --example run_cost`

use opship_engine::{Compiler, Engine, EngineConfig, LoadedModule, RUN_STACK_BYTES, Run};
use opship_record::plan::{PROFILE, Plan, Step};
use opship_record::{FORMAT_VERSION, Hash};
use opship_world::{Budget, Fixtures, MemoryTree, Spill, SpillFile, WorldConfig};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

const RUNS: usize = 2_000;
/// About the size of a record and of an answer.
const MESSAGE_BYTES: usize = 400;

const HELLO: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\05\00\00\00") (data (i32.const 16) "hello")
    (func (export "_start") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

struct NoSpill;

impl Spill for NoSpill {
    fn create(&self) -> io::Result<SpillFile> {
        Err(io::Error::other("nothing is spilled here"))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("worker") {
        return worker();
    }
    let engine = Engine::new(EngineConfig::new(Compiler::InProcess))?;
    let (hash, modules) = load(&engine)?;
    report("run in this thread", || run(&engine, hash, &modules))?;
    report("run in a thread made for it", || {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(RUN_STACK_BYTES);
            let run = thread.spawn_scoped(scope, || run(&engine, hash, &modules).map_err(|error| error.to_string()))?;
            run.join().map_err(|_| "the run panicked")?.map_err(Into::into)
        })
    })?;
    in_worker()?;
    start_up()
}

fn report(what: &str, mut work: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let started = Instant::now();
        work()?;
        times.push(started.elapsed().as_nanos());
    }
    times.sort_unstable();
    let micros = |index: usize| times[index] as f64 / 1000.0;
    println!("{what:40} median {:8.1}  p99 {:8.1}", micros(RUNS / 2), micros(RUNS * 99 / 100));
    Ok(())
}

fn load(engine: &Engine) -> Result<(Hash, BTreeMap<Hash, LoadedModule>), Box<dyn Error>> {
    let bytes = wat::parse_str(HELLO)?;
    let hash = Hash::of(&bytes);
    let module = engine.load(&hash, &mut || Ok(bytes.clone()))?.0;
    Ok((hash, BTreeMap::from([(hash, module)])))
}

fn run(engine: &Engine, module: Hash, modules: &BTreeMap<Hash, LoadedModule>) -> Result<(), Box<dyn Error>> {
    let plan = Plan {
        format: FORMAT_VERSION,
        steps: vec![Step::new(module, ["module"])],
        clock_start: 0,
        seed: [0; 16].into(),
        limits: None,
        profile: PROFILE,
    };
    let world = WorldConfig {
        plan,
        source: Arc::new(MemoryTree::new()),
        spill: Arc::new(NoSpill),
        budget: Budget::default(),
        stdin_blobs: BTreeMap::new(),
        mounts: BTreeMap::new(),
        fixtures: Fixtures::default(),
    };
    engine.run(Run::new(world, modules))?;
    Ok(())
}

/// Answers each request with a run, until the requests end.
fn worker() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(EngineConfig::new(Compiler::InProcess))?;
    let (hash, modules) = load(&engine)?;
    let (mut requests, mut answers) = (io::stdin().lock(), io::stdout().lock());
    let mut message = [0; MESSAGE_BYTES];
    while requests.read_exact(&mut message).is_ok() {
        run(&engine, hash, &modules)?;
        answers.write_all(&message)?;
        answers.flush()?;
    }
    Ok(())
}

fn in_worker() -> Result<(), Box<dyn Error>> {
    let mut child =
        Command::new(std::env::current_exe()?).arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut requests, mut answers) = (child.stdin.take().ok_or("no pipe")?, child.stdout.take().ok_or("no pipe")?);
    let mut message = [0; MESSAGE_BYTES];
    report("run in a waiting worker process", || {
        requests.write_all(&message)?;
        answers.read_exact(&mut message)?;
        Ok(())
    })?;
    drop(requests);
    child.wait()?;
    Ok(())
}

/// From nothing to the first instruction of a module of about 1 MB, compiled, from disk and from memory.
fn start_up() -> Result<(), Box<dyn Error>> {
    let mut text = HELLO.strip_suffix(')').ok_or("no module")?.to_owned();
    for index in 0..20_000 {
        write!(text, "(func (param i32) (result i32) (i32.store (local.get 0) (i32.const {index})) ")?;
        text += "(i32.xor (i32.mul (local.get 0) (i32.const 77777)) (i32.load (local.get 0)))";
        text += "(drop (i32.add (i32.load offset=8 (local.get 0)) (i32.const 123456))) )";
    }
    let bytes = wat::parse_str(text + ")")?;
    let hash = Hash::of(&bytes);
    let folder = tempfile::tempdir()?;
    println!("a module of {} bytes:", bytes.len());
    for _ in 0..3 {
        let started = Instant::now();
        let config = EngineConfig { cache: Some(folder.path().to_owned()), ..EngineConfig::new(Compiler::InProcess) };
        let engine = Engine::new(config)?;
        let made = started.elapsed();
        let (module, from) = engine.load(&hash, &mut || Ok(bytes.clone()))?;
        let loaded = started.elapsed();
        run(&engine, hash, &BTreeMap::from([(hash, module)]))?;
        println!(
            "  engine {:6.2} ms, load {:8.2} ms ({from:?}), first run {:6.2} ms",
            made.as_secs_f64() * 1e3,
            (loaded - made).as_secs_f64() * 1e3,
            (started.elapsed() - loaded).as_secs_f64() * 1e3
        );
    }
    Ok(())
}
