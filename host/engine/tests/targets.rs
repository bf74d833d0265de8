//! One profile on every target: a module cannot tell what it was compiled to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
#[path = "support/run.rs"]
mod with_world;

use opship_engine::{Compiler, Engine, EngineConfig, LoadedFrom, ModuleError, RUN_STACK_BYTES, RunError, Target};
use std::collections::BTreeSet;
use std::fs;
use support::{NOTHING, load};
use with_world::{exit, module, run};

const MEMORY: &str = r#"(memory (export "memory") 1)"#;

fn engine(target: Target) -> Engine {
    Engine::new(EngineConfig { target, ..EngineConfig::new(Compiler::InProcess) }).unwrap()
}

/// The exit code of a body on each target; they must be one.
fn exit_everywhere(fields: &str, body: &str) -> u32 {
    let codes: BTreeSet<u32> =
        Target::ALL.into_iter().map(|target| exit(&engine(target), &module(fields, body))).collect();
    assert_eq!(codes.len(), 1, "{body}: {codes:?}");
    codes.into_iter().next().unwrap()
}

#[test]
fn bits_of_nans_are_the_same() {
    let nan = "(i32.reinterpret_f32 (f32.div (f32.const 0) (f32.const 0)))";
    assert_eq!(exit_everywhere(MEMORY, nan), 0x7fc0_0000);
    let payload = "(i32.reinterpret_f32 (f32.add (f32.reinterpret_i32 (i32.const 0xffa12345)) (f32.const 1)))";
    assert_eq!(exit_everywhere(MEMORY, payload), 0x7fc0_0000);
    let wide = "(i32.wrap_i64 (i64.shr_u (i64.reinterpret_f64 (f64.sqrt (f64.const -1))) (i64.const 32)))";
    assert_eq!(exit_everywhere(MEMORY, wide), 0x7ff8_0000);
    let signed = "(i32.reinterpret_f32 (f32.demote_f64 (f64.copysign (f64.const nan) (f64.const -1))))";
    assert_eq!(exit_everywhere(MEMORY, signed), 0x7fc0_0000);
    let demoted = "(i32.reinterpret_f32 (f32.demote_f64 (f64.const -nan:0x8000000000001)))";
    assert_eq!(exit_everywhere(MEMORY, demoted), 0x7fc0_0000);
}

#[test]
fn relaxed_instructions_have_one_meaning_wherever_they_are_not_refused() {
    let lanes = |value: &str| format!("(i32x4.extract_lane 1 {value})");
    let float = "(v128.const f32x4 nan 3000000000 -0 1)";
    let bodies = [
        lanes(&format!("(i32x4.relaxed_trunc_f32x4_s {float})")),
        lanes(&format!("(i32x4.relaxed_trunc_f32x4_u {float})")),
        lanes("(f32x4.relaxed_min (v128.const f32x4 0 -0 nan 1) (v128.const f32x4 -0 0 1 nan))"),
        lanes("(f32x4.relaxed_max (v128.const f32x4 0 -0 nan 1) (v128.const f32x4 -0 0 1 nan))"),
        lanes(
            "(f32x4.relaxed_madd (v128.const f32x4 1 1.0000001 1 1) (v128.const f32x4 1 1.0000001 1 1) (v128.const f32x4 -1 -1.0000002 1 1))",
        ),
        lanes(
            "(i8x16.relaxed_swizzle (v128.const i64x2 0x0102030405060708 0x1112131415161718) (v128.const i64x2 0x80ff107f00010203 0x90))",
        ),
        lanes(
            "(i16x8.relaxed_q15mulr_s (v128.const i16x8 0 0 -32768 -32768 0 0 0 0) (v128.const i16x8 0 0 -32768 32767 0 0 0 0))",
        ),
        lanes(
            "(i32x4.relaxed_dot_i8x16_i7x16_add_s (v128.const i64x2 -1 -1) (v128.const i64x2 -1 -1) (v128.const i64x2 5 5))",
        ),
        lanes(
            "(i32x4.relaxed_laneselect (v128.const i64x2 -1 1) (v128.const i64x2 7 8) (v128.const i64x2 0x5500000000 0))",
        ),
        lanes(
            "(f32x4.relaxed_madd (v128.const i32x4 0 0x1017ae12 0 0) (v128.const i32x4 0 0x1a68b98e 0 0) (v128.const i32x4 0 0x7fd49c9b 0 0))",
        ),
        lanes("(f64x2.relaxed_nmadd (v128.const f64x2 inf 1) (v128.const f64x2 0 1) (v128.const f64x2 1 1))"),
    ];
    let on = |target| {
        let engine = engine(target);
        let all: Result<Vec<u32>, ModuleError> = bodies
            .iter()
            .map(|body| {
                let text = module(MEMORY, body);
                load(&engine, &text).map(|_| exit(&engine, &text))
            })
            .collect();
        all
    };
    let meant = on(Target::Interpreter).unwrap();
    for target in [Target::Host, Target::Baseline] {
        match on(target) {
            Ok(codes) => assert_eq!(codes, meant, "{target:?}"),
            // On a processor that lacks what one meaning takes.
            Err(ModuleError::CompileFailed { detail }) => assert!(detail.contains("relaxed SIMD"), "{detail}"),
            Err(error) => panic!("{target:?}: {error}"),
        }
    }
}

#[test]
fn vectors_exceptions_tail_calls_and_growing_are_the_same() {
    let popcount = "(i8x16.extract_lane_u 3 (i8x16.popcnt (v128.const i64x2 0x00000000ff000000 0)))";
    assert_eq!(exit_everywhere(MEMORY, popcount), 8);
    let nearest = "(i32x4.extract_lane 0 (i32x4.trunc_sat_f32x4_s (f32x4.nearest (v128.const f32x4 2.5 0 0 0))))";
    assert_eq!(exit_everywhere(MEMORY, nearest), 2);
    let tag = format!("{MEMORY} (tag $e (param i32))");
    let thrown = "(block $h (result i32) (try_table (catch $e $h) (throw $e (i32.const 7))) (i32.const 0))";
    assert_eq!(exit_everywhere(&tag, thrown), 7);
    let count = format!(
        "{MEMORY} (func $count (param i32) (result i32) (if (result i32) (local.get 0)
            (then (return_call $count (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 3))))"
    );
    assert_eq!(exit_everywhere(&count, "(call $count (i32.const 5000000))"), 3);
    let bounded = r#"(memory (export "memory") 1 9)"#;
    assert_eq!(exit_everywhere(bounded, "(memory.grow (i32.const 9))"), u32::MAX);
    assert_eq!(exit_everywhere(bounded, "(memory.grow (i32.const 8))"), 1);
    assert_eq!(
        exit_everywhere(
            &format!("{MEMORY} (table $t 1 funcref)"),
            "(table.grow $t (ref.null func) (i32.const 2000000))"
        ),
        u32::MAX
    );
}

#[test]
fn faults_of_a_module_are_told_alike() {
    for target in Target::ALL {
        let engine = engine(target);
        let trap = run(&engine, r#"(module (func (export "_start") (drop (i32.div_u (i32.const 1) (i32.const 0)))))"#);
        match trap {
            Err(RunError::Trap { step: 0, message, .. }) => assert!(message.contains("divide by zero"), "{message}"),
            other => panic!("{target:?}: {other:?}"),
        }
        let outside = format!(r#"(module {MEMORY} (func (export "_start") (drop (i32.load (i32.const 65536)))))"#);
        assert!(matches!(run(&engine, &outside), Err(RunError::Trap { step: 0, .. })), "{target:?}");
        let deep = r#"(module (func $f (export "_start") (call $f) (call $f)))"#;
        let thread = std::thread::Builder::new().stack_size(RUN_STACK_BYTES);
        let overflow = thread.spawn(move || run(&engine, deep)).unwrap().join().unwrap();
        assert!(matches!(overflow, Err(RunError::StackOverflow { step: 0 })), "{target:?}: {overflow:?}");
    }
}

#[test]
fn the_compiling_process_compiles_for_the_engines_target_and_entries_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let from = |target: Target| {
        let compiler =
            Compiler::Child { program: env!("CARGO_BIN_EXE_opship-engine-child").into(), arguments: Vec::new() };
        let config = EngineConfig { target, cache: Some(folder.path().to_owned()), ..EngineConfig::new(compiler) };
        let engine = Engine::new(config).unwrap();
        let from = load(&engine, NOTHING).unwrap().1;
        assert_eq!(exit(&engine, NOTHING), 0);
        from
    };
    for expected in [LoadedFrom::Compiled, LoadedFrom::Disk] {
        for target in Target::ALL {
            assert_eq!(from(target), expected, "{target:?}");
        }
    }
    let entries = fs::read_dir(folder.path()).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "key");
    assert_eq!(entries.count(), Target::ALL.len());
}

#[test]
fn what_a_run_used_is_told() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (memory (export "memory") 2)
        (func (export "_start")
            (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 0)))
            (drop (call $clock (i32.const 1) (i64.const 0) (i32.const 0)))
            (drop (call $random (i32.const 0) (i32.const 8)))
            (drop (memory.grow (i32.const 3)))))"#;
    let usage = run(&support::engine(), text).unwrap().usage;
    assert_eq!((usage.memory_pages, usage.asked.clock, usage.asked.random, usage.asked.poll), (5, 2, 1, 0));
}
