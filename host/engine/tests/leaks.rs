//! Compiling leaves no descriptor and no process behind. Alone in its file, as it counts those of the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opship_engine::{Compiler, Engine, EngineConfig};
use std::fs;
use support::{NOTHING, load};

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("children")).ok()).collect()
}

#[test]
fn compiling_leaves_nothing_behind() {
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
}
