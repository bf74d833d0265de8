//! Compiling in a child process: it works, it is locked down, and its limits hold.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opship_engine::{Compiler, Engine, EngineConfig, LoadedFrom, ModuleError, ModuleLimits};
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{NOTHING, load};

const CHILD: &str = env!("CARGO_BIN_EXE_opship-engine-child");

fn engine(program: &str, arguments: &[&str], limits: ModuleLimits) -> Engine {
    let arguments = arguments.iter().map(Into::into).collect();
    let compiler = Compiler::Child { program: program.into(), arguments };
    Engine::new(EngineConfig { limits, ..EngineConfig::new(compiler) }).unwrap()
}

fn failure(program: &str, arguments: &[&str], limits: ModuleLimits) -> ModuleError {
    load(&engine(program, arguments, limits), NOTHING).unwrap_err()
}

fn limit(error: &ModuleError) -> &str {
    match error {
        ModuleError::CompileLimit { what } => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_module_compiled_by_a_child_loads() {
    let engine = engine(CHILD, &[], ModuleLimits::default());
    assert_eq!(load(&engine, NOTHING).unwrap().1, LoadedFrom::Compiled);
}

#[test]
fn a_locked_down_process_computes_and_nothing_else() {
    let output = Command::new(CHILD).arg("probe").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = "thread works\nmemory works\nopen denied\ncreate denied\nlist denied\nconnect denied\nlisten denied\n\
                    exec denied\nsignal denied\n";
    assert_eq!(text, expected, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_the_compiler_says_is_passed_on() {
    let text = r#"(module (func (export "_start") i32.add))"#;
    match load(&engine(CHILD, &[], ModuleLimits::default()), text).unwrap_err() {
        ModuleError::CompileFailed { detail } => assert!(detail.contains("type mismatch"), "{detail}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn time_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let script = format!("echo $$ > '{}'; exec sleep 1000", pid_file.display());
    let limits = ModuleLimits { compile_wall_seconds: 1, ..Default::default() };
    let error = failure("/bin/sh", &["-c", &script], limits);
    assert!(limit(&error).contains("1 s of time"), "{error}");
    let pid = fs::read_to_string(pid_file).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the process is still there");
}

#[test]
fn processor_time_is_limited() {
    let error = failure(CHILD, &["spin"], ModuleLimits { compile_cpu_seconds: 1, ..Default::default() });
    assert!(limit(&error).contains("1 s of processor time"), "{error}");
}

#[test]
fn memory_is_limited() {
    let functions = "(func (param i32) (result i32) (i32.mul (local.get 0) (i32.const 3)))".repeat(60_000);
    let text = format!(r#"(module {functions} (func (export "_start")))"#);
    let limits = ModuleLimits { compile_memory_bytes: 192 << 20, ..Default::default() };
    let error = load(&engine(CHILD, &[], limits), &text).unwrap_err();
    assert!(limit(&error).contains("192 MiB of memory"), "{error}");
}

#[test]
fn the_compiled_form_is_limited() {
    let error = failure(CHILD, &[], ModuleLimits { artifact_bytes: 100, ..Default::default() });
    assert!(limit(&error).contains("100 bytes"), "{error}");
}

#[test]
fn a_compiler_that_fails_or_is_missing_is_told_apart() {
    let limits = ModuleLimits::default();
    assert!(matches!(failure("/bin/false", &[], limits), ModuleError::CompileFailed { .. }));
    assert!(matches!(failure("/bin/true", &[], limits), ModuleError::CompileFailed { .. }));
    assert!(matches!(failure("/nonexistent/compiler", &[], limits), ModuleError::Host { .. }));
}

#[test]
fn a_compiling_process_started_by_hand_says_so() {
    let output = Command::new(CHILD).env_remove("OPSHIP_COMPILE_LIMITS").output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("only opship starts this command"));
}
