//! What a run gives: streams, exit codes, faults of the module, and the same again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
#[path = "support/run.rs"]
mod with_world;

use opship_engine::{MAX_WASM_STACK, RUN_STACK_BYTES, RunError};
use opship_world::ProducedBody;
use support::{engine, load};
use with_world::{Case, exit, module, run};

/// Memory that holds an iovec for the text at 16.
const HELLO: &str =
    r#"(memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\05\00\00\00") (data (i32.const 16) "hello")"#;
const WRITE_HELLO: &str = "(call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))";

fn stdout(finished: &opship_engine::Finished, step: usize) -> &[u8] {
    match &finished.outcome.streams[step].0.body {
        ProducedBody::Memory(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn standard_output_and_exit_code_are_results() {
    let engine = engine();
    let finished = run(&engine, &module(HELLO, WRITE_HELLO)).unwrap();
    assert_eq!(stdout(&finished, 0), b"hello");
    assert_eq!(finished.outcome.lists.exits, [0]);
    assert_eq!(exit(&engine, &module(HELLO, "(i32.const 42)")), 42);
    assert_eq!(exit(&engine, r#"(module (func (export "_start")))"#), 0);
}

#[test]
fn a_start_function_may_call_imports() {
    let fields = format!("{HELLO} (func $s (drop {WRITE_HELLO})) (start $s)");
    let finished = run(&engine(), &module(&fields, "(i32.const 0)")).unwrap();
    assert_eq!(stdout(&finished, 0), b"hello");
}

#[test]
fn steps_follow_each_other_in_one_world() {
    let copy = r#"(module
        (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\00\10\00\00")
        (func (export "_start")
            (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 4)))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    let engine = engine();
    let hello = module(HELLO, WRITE_HELLO);
    let finished = engine.run(Case::new(&engine, &[&hello, copy, copy]).run()).unwrap();
    assert_eq!(finished.outcome.lists.exits, [0, 0, 0]);
    assert_eq!((stdout(&finished, 1), stdout(&finished, 2)), (&b"hello"[..], &b"hello"[..]));
}

#[test]
fn a_fault_in_the_module_is_reported_with_step_and_names() {
    let engine = engine();
    let faulty = r#"(module (memory (export "memory") 1)
        (func $inner (drop (i32.load (i32.const -1)))) (func $outer (call $inner)) (func (export "_start") (call $outer)))"#;
    match engine.run(Case::new(&engine, &[support::NOTHING, faulty]).run()) {
        Err(RunError::Trap { step, message, said }) => {
            assert_eq!((step, said.as_str()), (1, ""));
            assert!(message.contains("out of bounds") && message.contains("inner < outer"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let words = r#"(data (i32.const 0) "\08\00\00\00\0a\00\00\00no \1b room\0a")"#;
    let panics = "(block (result i32) (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 100))) unreachable)";
    let error =
        run(&engine, &module(&format!(r#"(memory (export "memory") 1){words}"#), panics)).unwrap_err().to_string();
    assert!(error.contains("ended with \"no \u{fffd} room\""), "what the module said itself is shown: {error}");
    let without_names = r#"(module (func (export "_start") (drop (i32.div_u (i32.const 1) (i32.const 0)))))"#;
    let error = run(&engine, without_names).unwrap_err().to_string();
    assert!(error.contains("divide by zero") && error.contains("function 0"), "{error}");
}

#[test]
fn names_that_a_module_made_up_cannot_steer_a_terminal() {
    let long = "n".repeat(50_000);
    let text = format!(r#"(module (func (@name "\1b[2Jx{long}") (unreachable)) (func (export "_start") (call 0)))"#);
    let error = run(&engine(), &text).unwrap_err().to_string();
    assert!(error.contains("[2Jx") && !error.contains('\u{1b}') && error.len() < 1000, "{error:?}");
}

#[test]
fn a_stack_overflow_is_reported_and_the_process_lives() {
    let locals = "(local i64 i64 i64 i64)".repeat(8);
    for text in [
        r#"(module (func $f (export "_start") (call $f)))"#.to_owned(),
        format!(
            r#"(module (func $f (param i32) {locals} (call $f (local.get 0)) (drop (i32.const 1)))
            (func (export "_start") (call $f (i32.const 0))))"#
        ),
    ] {
        let thread = std::thread::Builder::new().stack_size(RUN_STACK_BYTES);
        let error = thread.spawn(move || run(&engine(), &text).unwrap_err()).unwrap().join().unwrap();
        assert!(matches!(error, RunError::StackOverflow { step: 0 }), "{error:?}");
        assert!(error.to_string().contains(&format!("{} KiB", MAX_WASM_STACK >> 10)), "{error}");
    }
}

#[test]
fn exceptions_are_caught_by_the_module_or_end_the_run() {
    let engine = engine();
    let fields = "(tag $e (param i32)) (func $throw (throw $e (i32.const 9)))";
    let caught = "(block $h (result i32) (try_table (catch $e $h) (call $throw)) (i32.const 0))";
    assert_eq!(exit(&engine, &module(&format!("{HELLO} {fields}"), caught)), 9);
    let many = "(block $h (result i32) (try_table (catch $e $h) (throw $e (i32.const 9))) (i32.const 0))";
    let body = format!(
        "(block (result i32) (loop $l {many} (drop) (global.set $n (i32.add (global.get $n) (i32.const 1)))
        (br_if $l (i32.lt_u (global.get $n) (i32.const 300000)))) (i32.const 6))"
    );
    let many = Case::new(&engine, &[&module(&format!("{HELLO} {fields} (global $n (mut i32) (i32.const 0))"), &body)]);
    assert_eq!(with_world::exit_of(engine.run(many.pages(1).run())), 6);
    let uncaught = r#"(module (tag $e) (func (export "_start") (throw $e)))"#;
    match run(&engine, uncaught) {
        Err(RunError::Trap { message, .. }) => assert!(message.contains("exception"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nan_bits_are_canonical() {
    let engine = engine();
    let single = "(func $f (param f32) (result i32)
        (i32.ne (i32.reinterpret_f32 (f32.add (local.get 0) (f32.const 1))) (i32.const 0x7fc00000)))";
    assert_eq!(exit(&engine, &module(&format!("{HELLO} {single}"), "(call $f (f32.const -nan:0x212345))")), 0);
    let double = "(func $f (param f64) (result i32)
        (i64.ne (i64.reinterpret_f64 (f64.mul (local.get 0) (f64.const 2))) (i64.const 0x7ff8000000000000)))";
    assert_eq!(exit(&engine, &module(&format!("{HELLO} {double}"), "(call $f (f64.const -nan:0x8123456789abc))")), 0);
    let lanes = "(func $f (param v128) (result i32)
        (i32.ne (i32x4.extract_lane 2 (f32x4.sqrt (local.get 0))) (i32.const 0x7fc00000)))";
    assert_eq!(exit(&engine, &module(&format!("{HELLO} {lanes}"), "(call $f (v128.const f32x4 -1 -1 -1 -1))")), 0);
}

/// Writes 32 random bytes and the time.
const RANDOM: &str = r#"(module
    (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "clock_time_get" (func $time (param i32 i64 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\28\00\00\00")
    (func (export "_start")
        (drop (call $random (i32.const 16) (i32.const 32)))
        (drop (call $time (i32.const 0) (i64.const 0) (i32.const 48)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

#[test]
fn the_same_world_gives_the_same_lists_in_every_engine() {
    let first = engine();
    let case = Case::new(&first, &[RANDOM]);
    let lists = first.run(case.run()).unwrap().outcome.lists;
    assert_eq!(first.run(case.run()).unwrap().outcome.lists, lists);
    assert_eq!(run(&engine(), RANDOM).unwrap().outcome.lists, lists);
    let mut other = Case::new(&first, &[RANDOM]);
    other.plan.seed = [8; 16].into();
    assert_ne!(first.run(other.run()).unwrap().outcome.lists, lists);
}

#[test]
fn a_run_whose_module_or_profile_is_missing_is_refused() {
    let engine = engine();
    let mut case = Case::new(&engine, &[support::NOTHING]);
    case.plan.profile += 1;
    assert!(matches!(engine.run(case.run()), Err(RunError::Refused { .. })));
    case.plan.profile -= 1;
    assert!(engine.run(case.run()).is_ok());
    case.modules.clear();
    assert!(matches!(engine.run(case.run()), Err(RunError::Refused { .. })));
}

macro_rules! calls {
    ($(($module:literal, $name:literal, $method:ident, ($($argument:ident: $type:ty),*));)*) => {
        [$(($module, $name, &[$(stringify!($type)),*][..])),*]
    };
}

/// A module that calls every import once with `value` for every argument, `proc_exit` last.
fn every_import(value: &str) -> String {
    let table: [(&str, &str, &[&str]); 51] = opship_world::for_each_import!(calls);
    let (mut imports, mut body) = (String::new(), String::new());
    for (module, name, arguments) in table {
        let types: Vec<&str> = arguments.iter().map(|ty| if *ty == "u64" { "i64" } else { "i32" }).collect();
        let result = if name == "proc_exit" { "" } else { "(result i32)" };
        imports += &format!("(import \"{module}\" \"{name}\" (func ${name} (param {}) {result}))", types.join(" "));
        if name != "proc_exit" {
            let values: String = types.iter().map(|ty| format!("({ty}.const {value})")).collect();
            body += &format!("(drop (call ${name} {values}))");
        }
    }
    format!(
        r#"(module {imports} (memory (export "memory") 1) (func (export "_start") {body} (call $proc_exit (i32.const 3))))"#
    )
}

#[test]
fn every_import_is_there_and_survives_hostile_arguments() {
    let engine = engine();
    for value in ["-1", "0", "1", "3", "65528", "0x7fffffff"] {
        let case = Case::new(&engine, &[&every_import(value)]);
        assert_eq!(with_world::exit_of(engine.run(case.run())), 3, "{value}");
    }
}

#[test]
fn a_module_without_memory_may_exit() {
    let text = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $e (param i32)))
        (func (export "_start") (call $e (i32.const 5))))"#;
    let engine = engine();
    assert!(load(&engine, text).is_ok());
    assert_eq!(exit(&engine, text), 5);
}
