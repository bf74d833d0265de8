//! Memory, tables, time: what the module sees of a limit, and what ends the run instead.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
#[path = "support/run.rs"]
mod with_world;

use opship_engine::{Compiler, Engine, EngineConfig, RunError, Slow, TABLE_ELEMENTS};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use support::engine;
use with_world::{Case, exit, exit_of, module, run};

/// Grows the memory page by page until that is refused, and exits with its size.
fn grow(memory: &str) -> String {
    let body = "(block (result i32)
        (loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
        (memory.size))";
    module(&format!(r#"(memory (export "memory") {memory})"#), body)
}

fn engine_with_memory(memory_bytes: u64) -> Engine {
    Engine::new(EngineConfig { memory_bytes, ..EngineConfig::new(Compiler::InProcess) }).unwrap()
}

#[test]
fn memory_grows_to_the_records_limit_or_the_modules_own() {
    let engine = engine();
    let size = |memory: &str| exit_of(engine.run(Case::new(&engine, &[&grow(memory)]).pages(10).run()));
    assert_eq!(size("1"), 10);
    assert_eq!(size("10"), 10);
    assert_eq!(size("1 5"), 5);
    assert_eq!(size("0 5000"), 10);
}

#[test]
fn growth_beyond_what_a_memory_can_address_is_refused_and_no_failure_of_the_host() {
    let engine = engine_with_memory(u64::MAX);
    let body = "(i32.add (memory.grow (i32.const 1)) (memory.grow (i32.const 65535)))";
    let text = module(r#"(memory (export "memory") 1)"#, body);
    // 1 from the first, which is granted, and -1 from the second.
    assert_eq!(exit_of(engine.run(Case::new(&engine, &[&text]).pages(65_536).run())), 0);
}

#[test]
fn a_module_that_starts_over_the_records_limit_does_not_run() {
    let engine = engine();
    let case = Case::new(&engine, &[&grow("11")]).pages(10);
    assert!(matches!(engine.run(case.run()), Err(RunError::Limit { limit: 10, .. })));
}

#[test]
fn the_operators_limit_ends_the_run_and_is_never_seen_by_the_module() {
    let engine = engine_with_memory(8 << 16);
    for memory in ["1", "9"] {
        let result = run(&engine, &grow(memory));
        assert!(matches!(result, Err(RunError::Limit { limit: 0x8_0000, .. })), "{memory}: {result:?}");
    }
    assert_eq!(exit(&engine, &grow("1 8")), 8);
}

#[test]
fn the_limit_holds_for_each_step_anew() {
    let engine = engine_with_memory(10 << 16);
    let text = grow("1 8");
    let finished = engine.run(Case::new(&engine, &[&text, &text, &text]).run()).unwrap();
    assert_eq!(finished.outcome.lists.exits, [8, 8, 8]);
}

/// Throws, catches, and gives the exception.
const ONE: &str = r#"
    (tag $e (param i64 i64 i64 i64 i64 i64 i64 i64))
    (func $one (result exnref)
        (block $h (result i64 i64 i64 i64 i64 i64 i64 i64 exnref)
            (try_table (catch_ref $e $h)
                (throw $e (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4)
                    (i64.const 5) (i64.const 6) (i64.const 7) (i64.const 8)))
            (unreachable))
        (return))"#;

/// Throws and catches a million times and keeps every exception.
fn exceptions() -> String {
    format!(
        r#"(module {ONE}
            (table $kept 1000000 exnref)
            (func (export "_start") (local $n i32)
                (loop $more
                    (table.set $kept (local.get $n) (call $one))
                    (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000000))))))"#
    )
}

#[test]
fn exceptions_that_fill_the_operators_memory_end_the_run_by_its_limit() {
    let result = run(&engine_with_memory(8 << 20), &exceptions());
    assert!(matches!(result, Err(RunError::Limit { limit: 0x80_0000, .. })), "{result:?}");
}

#[test]
fn exceptions_that_fill_the_records_memory_are_the_modules_fault() {
    let engine = engine();
    let result = engine.run(Case::new(&engine, &[&exceptions()]).pages(100).run());
    assert!(
        matches!(&result, Err(RunError::Trap { message, .. }) if message.contains("memory for exceptions")),
        "{result:?}"
    );
}

#[test]
fn exceptions_that_want_memory_which_other_runs_have_end_the_run_for_now() {
    let engine = engine();
    let case = Case::new(&engine, &[&exceptions()]);
    let mut run = case.run();
    let mut left = 8 << 20;
    run.room = Some(Box::new(move |bytes| {
        let is_there = bytes <= left;
        left -= bytes * u64::from(is_there);
        is_there
    }));
    let result = engine.run(run);
    assert!(matches!(result, Err(RunError::Crowded)), "{result:?}");
}

#[test]
fn memory_that_was_refused_is_not_counted_against_the_next_wish() {
    // So many exceptions are kept that their heap wants to double, again and again, which the limit forbids: the rest can be
    // dropped instead. Then a memory takes what is left below the limit.
    let text = format!(
        r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1)
        {ONE}
        (table $kept 6501 exnref)
        (func (export "_start") (local $n i32)
            (loop $more
                (table.set $kept
                    (select (local.get $n) (i32.const 6500) (i32.lt_u (local.get $n) (i32.const 6500)))
                    (call $one))
                (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 200000))))
            (call $exit (memory.grow (i32.const 10)))))"#
    );
    assert_eq!(exit(&engine_with_memory(30 << 16), &text), 1);
}

#[test]
fn tables_grow_to_the_profiles_limit() {
    let fields = r#"(memory (export "memory") 1) (table $a 1 funcref) (table $b 1 funcref)"#;
    let granted = TABLE_ELEMENTS - 2;
    let body = format!(
        "(i32.add (table.grow $a (ref.null func) (i32.const {granted})) (table.grow $b (ref.null func) (i32.const 1)))"
    );
    // 1 from the first, which is granted, and -1 from the second.
    assert_eq!(exit(&engine(), &module(fields, &body)), 0);
}

const ENDLESS: &str = r#"(module (func (export "_start") (loop $l (br $l))))"#;

#[test]
fn an_endless_loop_ends_at_its_deadline() {
    let engine = engine();
    let case = Case::new(&engine, &[ENDLESS]);
    let mut run = case.run();
    run.deadline = Some(Duration::from_millis(20));
    assert!(matches!(engine.run(run), Err(RunError::Deadline)));
}

#[test]
fn an_endless_recursion_through_calls_ends_at_its_deadline() {
    let text = r#"(module (func $a (return_call $b)) (func $b (return_call $a)) (func (export "_start") (call $a)))"#;
    let engine = engine();
    let case = Case::new(&engine, &[text]);
    let mut run = case.run();
    run.deadline = Some(Duration::from_millis(20));
    assert!(matches!(engine.run(run), Err(RunError::Deadline)));
}

#[test]
fn a_run_can_be_cancelled_before_and_while_it_runs() {
    let engine = engine();
    let case = Case::new(&engine, &[ENDLESS]);
    let mut run = case.run();
    run.cancel = vec![Arc::new(AtomicBool::new(true))];
    assert!(matches!(engine.run(run), Err(RunError::Cancelled)));

    let cancel = Arc::new(AtomicBool::new(false));
    let mut run = case.run();
    run.cancel = vec![Arc::clone(&cancel)];
    let call = Box::new(move || {
        cancel.store(true, Ordering::Relaxed);
        true
    });
    run.slow = Some(Slow { after: Duration::from_millis(10), call });
    assert!(matches!(engine.run(run), Err(RunError::Cancelled)));

    let mut run = case.run();
    run.slow = Some(Slow { after: Duration::from_millis(10), call: Box::new(|| false) });
    assert!(matches!(engine.run(run), Err(RunError::Cancelled)));
}

/// Tells its progress without end.
const PROGRESS: &str = r#"(module
    (import "opship_1" "progress" (func $progress (param i64 i64) (result i32)))
    (memory (export "memory") 1)
    (func (export "_start") (local $n i64)
        (loop $l
            (local.set $n (i64.add (local.get $n) (i64.const 1)))
            (drop (call $progress (local.get $n) (i64.const -1)))
            (br $l))))"#;

#[test]
fn a_long_run_is_called_slow_once_in_its_thread_and_tells_its_progress() {
    let engine = engine();
    let case = Case::new(&engine, &[PROGRESS]);
    let (slow, told, cancel) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut run = case.run();
    run.cancel = vec![Arc::clone(&cancel)];
    let (calls, thread) = (Arc::clone(&slow), std::thread::current().id());
    let call = Box::new(move || {
        assert_eq!(std::thread::current().id(), thread);
        calls.fetch_add(1, Ordering::Relaxed);
        true
    });
    run.slow = Some(Slow { after: Duration::ZERO, call });
    run.progress = Some(Arc::new(move |done, total| {
        assert!(done > 0 && total == u64::MAX);
        if told.fetch_add(1, Ordering::Relaxed) >= 3 {
            cancel.store(true, Ordering::Relaxed);
        }
    }));
    assert!(matches!(engine.run(run), Err(RunError::Cancelled)));
    assert_eq!(slow.load(Ordering::Relaxed), 1);
}

#[test]
fn runs_beside_each_other_end_on_their_own() {
    let engine = engine();
    let (long, short) = (
        Case::new(&engine, &[ENDLESS]),
        Case::new(&engine, &[&module(r#"(memory (export "memory") 1)"#, "(i32.const 4)")]),
    );
    let cancel = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut run = long.run();
        run.cancel = vec![Arc::clone(&cancel)];
        let endless = scope.spawn(|| engine.run(run).map(|_| ()));
        for _ in 0..50 {
            assert_eq!(exit_of(engine.run(short.run())), 4);
        }
        cancel.store(true, Ordering::Relaxed);
        assert!(matches!(endless.join().unwrap(), Err(RunError::Cancelled)));
    });
}

#[test]
fn memory_that_runs_share_is_asked_for_and_its_lack_ends_the_run() {
    let engine = engine();
    let text = grow("1 100");
    let case = Case::new(&engine, &[&text, &text]);
    let left = Arc::new(AtomicUsize::new(16 << 20));
    let run_with = |room: usize| {
        left.store(room, Ordering::Relaxed);
        let left = Arc::clone(&left);
        let mut run = case.run();
        run.room = Some(Box::new(move |bytes| {
            let bytes = usize::try_from(bytes).unwrap();
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
        }));
        engine.run(run)
    };
    // Both steps need 6.25 MiB, one after the other.
    assert_eq!(run_with(16 << 20).unwrap().outcome.lists.exits, [100, 100]);
    assert_eq!(left.load(Ordering::Relaxed), 9 << 20);
    assert!(matches!(run_with(6 << 20), Err(RunError::Crowded)));
}
