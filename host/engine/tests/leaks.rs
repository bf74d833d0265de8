//! Compiling and running leave no descriptor, no process and no thread behind. Alone in its file, as it counts those of the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
#[path = "support/run.rs"]
mod with_world;

use opship_engine::{Compiler, Engine, EngineConfig};
use std::fs;
use std::time::{Duration, Instant};
use support::{NOTHING, load};

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("children")).ok()).collect()
}

#[test]
fn nothing_is_left_behind() {
    let programs = [env!("CARGO_BIN_EXE_opship-engine-child"), "/bin/true", "/nonexistent/compiler"];
    let compile = |program: &str| {
        let compiler = Compiler::Child { program: program.into(), arguments: Vec::new() };
        load(&Engine::new(EngineConfig::new(compiler)).unwrap(), NOTHING).is_ok()
    };
    let before = descriptors();
    let results: Vec<bool> = programs.iter().map(|program| compile(program)).collect();
    assert_eq!(results, [true, false, false]);
    assert_eq!(descriptors(), before);
    assert_eq!(children(), "");

    let engine = support::engine();
    assert!(with_world::run(&engine, NOTHING).is_ok());
    wait_for("the engine's thread to start", || threads().contains("opship-epoch"));
    drop(engine);
    wait_for("the engine's thread to end", || !threads().contains("opship-epoch"));
}

/// Waits for something that happens within milliseconds, or within a minute on a busy machine.
fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < patience, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

fn threads() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok()).collect()
}
