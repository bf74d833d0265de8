#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;
use opship_record::TreePath;
use opship_record::node::Kind;
use opship_world::{Budget, MemoryContent, MemoryTree, SourceError, SourceNode};
use std::sync::atomic::{AtomicU8, Ordering};

/// Prints the first 8 bytes of the file `f`, then those of standard input.
const PRINTS: &str = r#"(module
    (import "wasi_snapshot_preview1" "path_open"
        (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "\40\00\00\00\08\00\00\00")
    (data (i32.const 32) "f")
    (func (export "_start")
        (drop (call $open (i32.const 3) (i32.const 1) (i32.const 32) (i32.const 1) (i32.const 0) (i64.const 2) (i64.const 0)
            (i32.const 0) (i32.const 48)))
        (drop (call $read (i32.load (i32.const 48)) (i32.const 0) (i32.const 1) (i32.const 56)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 56)))
        (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 56)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 56)))))"#;

fn request(text: &str, tree: Arc<dyn TreeSource>) -> ExamineRequest {
    let module = wat::parse_str(text).unwrap();
    ExamineRequest {
        step: StepRequest::new(Hash::of(&module), "m", ["m"]),
        module,
        tree,
        clock_start: 1_800_000_000_000_000_000,
        compiler: Compiler::InProcess,
        scratch: std::env::temp_dir(),
        deadline: Duration::from_secs(600),
        budget: Budget::default(),
        memory_bytes: 1 << 30,
        progress: None,
    }
}

/// A tree with one file, which has other bytes each time that it is opened and does not show it.
#[derive(Default)]
struct Unsteady(AtomicU8);

impl TreeSource for Unsteady {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        MemoryTree::new().file("f", b"12345678").stat(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        MemoryTree::new().file("f", b"").list(path)
    }

    fn open(&self, _path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        let mut bytes = *b"12345678";
        bytes[5] = self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(MemoryContent::new(bytes)))
    }
}

#[test]
fn results_that_differ_between_equal_worlds_are_contradictions_with_their_places() {
    let ran = examine(&request(PRINTS, Arc::new(Unsteady::default()))).unwrap().ran.unwrap();
    let equal: Vec<_> = Perturbation::ALL.into_iter().filter(|world| !world.is_recorded()).collect();
    assert_eq!(ran.contradictions(), equal);
    let again = ran.comparisons.iter().find(|comparison| comparison.world == Perturbation::Repeat).unwrap();
    let Found::Differs(differences) = &again.found else { panic!("{again:?}") };
    let observed = Difference::Path { path: "f".parse().unwrap(), aspect: Aspect::Observed };
    let bytes = Difference::Bytes { place: Place::Stdout, offset: 5, lengths: [16, 16] };
    assert_eq!(*differences, [bytes, observed]);
}

/// Prints the listing of the root as the world gives it.
const LISTS: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_readdir" (func $list (param i32 i32 i32 i64 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "\00\04\00\00")
    (func (export "_start")
        (drop (call $list (i32.const 3) (i32.const 1024) (i32.const 4096) (i64.const 0) (i32.const 4)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 56)))))"#;

#[test]
fn the_order_in_which_a_folder_gives_its_names_reaches_neither_module_nor_record() {
    let tree = MemoryTree::new().file("b", b"").file("a", b"").directory("c");
    let ran = examine(&request(LISTS, Arc::new(tree))).unwrap().ran.unwrap();
    assert_eq!((ran.contradictions(), ran.observed), (Vec::new(), 1));
    // Five entries of 24 bytes, with the names `.`, `..`, `a`, `b` and `c`.
    assert_eq!(ran.produced_bytes, 5 * 24 + 6);
}

#[test]
fn every_run_reads_the_same_standard_input() {
    let mut request = request(PRINTS, Arc::new(MemoryTree::new().file("f", b"file")));
    request.step.stdin = StdinRequest::Bytes(b"input".to_vec());
    let examination = examine(&request).unwrap();
    let ran = examination.ran.unwrap();
    assert_eq!((ran.contradictions(), ran.depends_on()), (Vec::new(), Vec::new()));
    assert_eq!((ran.produced_bytes, ran.observed, ran.exit), (16, 1, 0));
    let targets: Vec<Target> = examination.compiled.iter().map(|made| made.target).collect();
    assert_eq!(targets, Target::ALL);
}

#[test]
fn a_run_that_comes_to_no_end_is_told_and_a_module_that_is_refused_is_an_error() {
    let trap = request(r#"(module (func (export "_start") unreachable))"#, Arc::new(MemoryTree::new()));
    assert!(matches!(examine(&trap).unwrap().ran, Err(RunError::Trap { step: 0, .. })));
    let reactor = request(r#"(module (func (export "_initialize")))"#, Arc::new(MemoryTree::new()));
    assert!(matches!(examine(&reactor), Err(ClientError::Run(RunError::Module(ModuleError::NoStart)))));
}
