//! Which modules are refused, and what the refusal says; loading.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opship_engine::{Compiler, Engine, EngineConfig, LoadedFrom, ModuleError, ModuleLimits};
use opship_record::Hash;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{NOTHING, bytes, engine, load};

fn refusal(text: &str) -> ModuleError {
    engine().inspect(&bytes(text)).unwrap_err()
}

#[test]
fn every_import_that_no_world_offers_is_listed() {
    let error = refusal(
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
            (import "env" "system" (func (param i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_close" (func (param i64) (result i32)))
            (import "wasi_snapshot_preview1" "sched_yield" (func))
            (import "env" "memory" (memory 1))
            (func (export "_start")))"#,
    );
    let wanted = |module: &str, name: &str| (module.to_owned(), name.to_owned());
    let expected = vec![
        wanted("env", "system"),
        wanted("wasi_snapshot_preview1", "fd_close (with another type)"),
        wanted("wasi_snapshot_preview1", "sched_yield (with another type)"),
        wanted("env", "memory"),
    ];
    assert_eq!(error, ModuleError::Imports { count: expected.len(), wanted: expected });
    assert!(
        error.to_string().contains("'env.system', 'wasi_snapshot_preview1.fd_close (with another type)'"),
        "{error}"
    );
}

#[test]
fn a_list_of_imports_stays_readable() {
    let long = "n".repeat(5_000);
    let imports: String = (0..100).map(|n| format!(r#"(import "env\1b[2J" "{n}{long}" (func))"#)).collect();
    let error = refusal(&format!(r#"(module {imports} (func (export "_start")))"#)).to_string();
    let many: String = (0..3_000).map(|n| format!(r#"(import "env" "{n}" (func))"#)).collect();
    let counted = refusal(&format!(r#"(module {many} (func (export "_start")))"#)).to_string();
    assert!(counted.contains("and 2980 more"), "{counted}");
    assert!(error.contains("and 80 more") && !error.contains('\u{1b}') && error.len() < 4_000, "{error:?}");
}

#[test]
fn what_is_no_command_is_refused() {
    assert_eq!(refusal("(component)"), ModuleError::Component);
    assert_eq!(refusal(r#"(module (func (export "_initialize")))"#), ModuleError::NoStart);
    assert_eq!(refusal(r#"(module (func (export "_start") (param i32)))"#), ModuleError::NoStart);
    assert_eq!(refusal(r#"(module (global (export "_start") i32 (i32.const 0)))"#), ModuleError::NoStart);
    let no_memory = r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
        (func (export "_start")))"#;
    assert_eq!(refusal(no_memory), ModuleError::NoMemory);
}

#[test]
fn garbage_is_refused_and_never_panics() {
    let engine = engine();
    let whole = bytes(r#"(module (memory (export "memory") 1) (func (export "_start") (local i32) nop))"#);
    for garbage in [&b""[..], b"\0asm", b"#!/bin/sh\nexit 0\n", &[0xff; 300]] {
        assert!(matches!(engine.inspect(garbage), Err(ModuleError::Malformed { .. })), "{garbage:?}");
    }
    for length in 0..whole.len() {
        assert!(engine.inspect(&whole[..length]).is_err(), "cut at {length}");
    }
    for index in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[index] ^= 1 << bit;
            let _ = engine.inspect(&damaged);
        }
    }
}

#[test]
fn limits_hold_and_name_what_is_over_them() {
    let limits =
        ModuleLimits { module_bytes: 200, functions: 2, function_body_bytes: 20, locals: 3, ..Default::default() };
    let engine = Engine::new(EngineConfig { limits, ..EngineConfig::new(Compiler::InProcess) }).unwrap();
    let what = |text: &str| match engine.inspect(&bytes(text)) {
        Err(ModuleError::TooLarge { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let nops = "nop ".repeat(40);
    assert_eq!(what(&format!(r#"(module (func (export "_start") {nops}))"#)), "largest function in bytes");
    assert_eq!(what(&format!(r#"(module (func (export "_start") {}))"#, nops.repeat(8))), "size in bytes");
    assert_eq!(what(r#"(module (func (export "_start")) (func) (func))"#), "number of functions");
    let locals = r#"(module (func (export "_start") (local i32 i32 i64 i64)))"#;
    assert_eq!(what(locals), "number of local variables in one function");
    let tables = r#"(module (table 1000000 funcref) (table 1000000 funcref) (func (export "_start")))"#;
    assert_eq!(what(tables), "number of table elements");
    assert!(engine.inspect(&bytes(r#"(module (func (export "_start") (local i32 i32 i64)) (func))"#)).is_ok());
}

#[test]
fn an_accepted_module_is_described() {
    let text = r#"(module
        (import "opship_1" "progress" (func (param i64 i64) (result i32)))
        (memory (export "memory") 3)
        (func (export "_start")) (func))"#;
    let info = engine().inspect(&bytes(text)).unwrap();
    assert_eq!((info.functions, info.memory_pages, info.bytes), (2, 3, bytes(text).len() as u64));
    assert_eq!(info.imports, [("opship_1".to_owned(), "progress".to_owned())]);
}

#[test]
fn proposals_that_compilers_use_are_on_and_the_others_off() {
    let engine = engine();
    let body = |text: &str| format!(r#"(module (memory (export "memory") 1) {text} (func (export "_start")))"#);
    let on = [
        "(tag $e (param i32)) (func (result i32) (block $h (result i32) (try_table (catch $e $h) (throw $e (i32.const 1))) (i32.const 0)))",
        "(func $f (return_call $f))",
        "(func (result v128) (i8x16.swizzle (v128.const i64x2 0 0) (v128.const i64x2 1 1)))",
        "(func (result v128) (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 1 1)))",
        "(func (memory.fill (i32.const 0) (i32.const 1) (i32.const 2)))",
        "(func (result i32 i32) (i32.const 1) (i32.extend8_s (i32.const 2)))",
        "(table 1 externref) (func (result i32) (ref.is_null (ref.null extern)))",
    ];
    for text in on {
        let loaded = load(&engine, &body(text)).map(|loaded| loaded.1);
        assert_eq!(loaded, Ok(LoadedFrom::Compiled), "{text}");
    }
    let off = [
        "(func (drop (struct.new $s))) (type $s (struct))",
        "(func (param $f (ref $t)) (call_ref $t (local.get $f))) (type $t (func))",
        "(func (i32.atomic.load (i32.const 0)) (drop))",
    ];
    let memories = ["i64 1", "1 1 shared"];
    let memories =
        memories.map(|kind| format!(r#"(module (memory (export "memory") {kind}) (func (export "_start")))"#));
    for text in off.map(body).into_iter().chain(memories) {
        let loaded = load(&engine, &text).map(|loaded| loaded.1);
        let refused = matches!(loaded, Err(ModuleError::CompileFailed { .. } | ModuleError::Malformed { .. }));
        assert!(refused, "{text}: {loaded:?}");
    }
}

#[test]
fn counts_are_limited_before_anything_is_compiled() {
    let many = |text: &str, count: usize| text.repeat(count);
    let deep = format!("(func {} {})", many("block ", 11), many("end ", 11));
    let wide = format!("(func (block (br_table {} (i32.const 0))))", many("0 ", 12));
    let cases = [
        ("types", many("(type (func (param i32)))", 11)),
        ("tables", many("(table 1 funcref)", 3)),
        ("globals", many("(global i32 (i32.const 0))", 6)),
        ("tags", many("(tag)", 5)),
        (
            "exports",
            format!("(func $f) {}", (0..12).map(|n| format!("(export \"{n}\" (func $f))")).collect::<String>()),
        ),
        ("data segments", many("(data \"x\")", 7)),
        ("element segments", format!("(func $f) {}", many("(elem func $f)", 7))),
        ("number of elements", format!("(func $f) (elem func {})", many("$f ", 9))),
        ("imports", many("(import \"wasi_snapshot_preview1\" \"sched_yield\" (func (result i32)))", 5)),
        ("number of local variables", many("(func (local i64 i64 i64))", 7)),
        ("memories", "(memory 1)".to_owned()),
        ("depth of blocks", deep),
        ("branch targets", wide),
    ];
    let limits = ModuleLimits {
        types: 10,
        imports: 4,
        tables: 2,
        globals: 5,
        tags: 4,
        exports: 10,
        segments: 6,
        elements: 8,
        all_locals: 20,
        nesting: 10,
        branch_targets: 10,
        ..Default::default()
    };
    for (what, text) in cases {
        let text = format!(r#"(module {text} (memory (export "memory") 1) (func (export "_start")))"#);
        match engine().inspect_within(&limits, &bytes(&text)) {
            Err(ModuleError::TooLarge { what: told, .. }) => assert!(told.contains(what), "{what}: {told}"),
            other => panic!("{what}: {other:?}"),
        }
        let compiled = engine().inspect(&bytes(&text)).is_ok();
        assert_eq!(compiled, what != "memories", "{what}");
    }
}

#[test]
fn a_refusal_is_remembered_for_its_limits_and_lower_ones() {
    let engine = engine();
    let (bytes, mut asked) = (bytes(NOTHING), 0);
    let hash = Hash::of(&bytes);
    let [low, lower, high] = [20, 10, 10_000].map(|module_bytes| ModuleLimits { module_bytes, ..Default::default() });
    let mut load = |limits: &ModuleLimits| {
        let mut bytes = || {
            asked += 1;
            Ok(bytes.clone())
        };
        let loaded = engine.load_within(limits, &hash, 0, &mut bytes).map(|loaded| loaded.1);
        (loaded, asked)
    };
    assert!(matches!(load(&low), (Err(ModuleError::TooLarge { limit: 20, .. }), 1)));
    assert!(matches!(load(&low), (Err(ModuleError::TooLarge { limit: 20, .. }), 1)));
    assert!(matches!(load(&lower), (Err(ModuleError::TooLarge { limit: 20, .. }), 1)));
    assert!(engine.refusal(&lower, &hash).is_some() && engine.refusal(&high, &hash).is_none());
    assert_eq!(load(&high), (Ok(LoadedFrom::Compiled), 2));
    // What is compiled already runs whatever the limits are: they are the compiler's.
    assert_eq!(load(&lower), (Ok(LoadedFrom::Memory), 2));
}

#[test]
fn a_module_that_is_too_long_is_not_even_read() {
    let limits = ModuleLimits { module_bytes: 20, ..Default::default() };
    let refused = engine().load_within(&limits, &Hash::of(b"long"), 21, &mut support::no_bytes);
    assert!(matches!(refused, Err(ModuleError::TooLarge { actual: 21, limit: 20, .. })), "{refused:?}");
}

#[test]
fn other_bytes_than_those_asked_for_are_refused() {
    let (expected, other) = (Hash::of(b"another module"), bytes(NOTHING));
    let error = engine().load(&expected, &mut || Ok(other.clone())).unwrap_err();
    assert_eq!(error, ModuleError::HashMismatch { expected, actual: Hash::of(&other) });
}

#[test]
fn a_loaded_module_stays_in_memory() {
    let engine = engine();
    assert_eq!(load(&engine, NOTHING).unwrap().1, LoadedFrom::Compiled);
    let hash = Hash::of(&bytes(NOTHING));
    let (module, from) = engine.load(&hash, &mut support::no_bytes).unwrap();
    assert_eq!((module.hash(), from), (hash, LoadedFrom::Memory));
}

#[test]
fn loads_of_one_module_at_the_same_time_compile_it_once() {
    const THREADS: usize = 8;
    let (engine, module) = (engine(), bytes(NOTHING));
    let hash = Hash::of(&module);
    let (asked, compiled, barrier) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                let loaded = engine.load(&hash, &mut || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    Ok(module.clone())
                });
                if loaded.unwrap().1 == LoadedFrom::Compiled {
                    compiled.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!((asked.into_inner(), compiled.into_inner()), (1, 1));
}

#[test]
fn a_load_that_failed_can_be_tried_again() {
    let (engine, module) = (engine(), bytes(NOTHING));
    let hash = Hash::of(&module);
    let error = engine.load(&hash, &mut support::no_bytes).unwrap_err();
    assert!(error.to_string().contains("the bytes were asked for"), "{error}");
    assert_eq!(engine.load(&hash, &mut || Ok(module.clone())).unwrap().1, LoadedFrom::Compiled);
}
