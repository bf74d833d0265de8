//! What the tests of the working copy share: folders, an engine, and guests that are made from a list of calls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, missing_docs)]

use opship_client::{RunReport, RunRequest, StepRequest, WorkingCopy};
use opship_engine::{Compiler, Engine, EngineConfig};
use opship_record::{Hash, TreePath};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub(crate) struct Folder {
    _temporary: tempfile::TempDir,
    pub path: PathBuf,
    pub copy: WorkingCopy,
}

pub(crate) fn folder() -> Folder {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("work");
    let copy = WorkingCopy::create(&path, "http://127.0.0.1:1", "test").unwrap();
    Folder { _temporary: temporary, path, copy }
}

impl Folder {
    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.path.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path.join(path).symlink_metadata().is_ok()
    }

    pub(crate) fn run(&self, calls: &[Call]) -> Result<RunReport, opship_client::ClientError> {
        run(&self.copy, calls)
    }

    /// Every path below the folder but `.opship`, with its content: `None` for a directory.
    pub(crate) fn tree(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        tree(&self.path)
    }
}

pub(crate) fn tree(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    fn add(root: &Path, folder: &Path, into: &mut BTreeMap<String, Option<Vec<u8>>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let kind = entry.file_type().unwrap();
            if name == ".opship" {
                continue;
            }
            if kind.is_dir() {
                into.insert(name, None);
                add(root, &entry.path(), into);
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path()).unwrap();
                into.insert(name, Some(format!("-> {}", target.display()).into_bytes()));
            } else {
                into.insert(name, Some(std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    let mut found = BTreeMap::new();
    add(root, root, &mut found);
    found
}

pub(crate) fn path(path: &str) -> TreePath {
    TreePath::new(path).unwrap()
}

pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(EngineConfig::new(Compiler::InProcess)).unwrap())
}

pub(crate) fn run(copy: &WorkingCopy, calls: &[Call]) -> Result<RunReport, opship_client::ClientError> {
    copy.run(engine(), request(calls))
}

pub(crate) fn request(calls: &[Call]) -> RunRequest {
    let bytes = wat::parse_str(module(calls)).unwrap();
    let hash = Hash::of(&bytes);
    let (loaded, _) = engine().load(&hash, &mut || Ok(bytes.clone())).unwrap();
    RunRequest {
        steps: vec![StepRequest::new(hash, "guest", ["guest"])],
        modules: BTreeMap::from([(hash, loaded)]),
        ..RunRequest::default()
    }
}

/// One thing that a guest does. A call that fails ends the guest with the errno as its exit code.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Copy(String, String),
    Write(String, Vec<u8>),
    Append(String, Vec<u8>),
    Print(String),
    Say(Vec<u8>),
    Stat(String),
    List(String),
    Remove(String),
    RemoveDirectory(String),
    MakeDirectory(String),
    Rename(String, String),
    Symlink(String, String),
    Trap,
}

pub(crate) fn copy(from: &str, to: &str) -> Call {
    Call::Copy(from.to_owned(), to.to_owned())
}

pub(crate) fn write(path: &str, bytes: &[u8]) -> Call {
    Call::Write(path.to_owned(), bytes.to_vec())
}

/// The text of a module that makes these calls, one after the other. Descriptor 3 is the tree.
fn module(calls: &[Call]) -> String {
    let mut data = Data::default();
    let mut body = String::new();
    for call in calls {
        data.call(call, &mut body);
    }
    let Data { bytes, .. } = data;
    let escaped: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
    format!(
        r#"(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_readdir" (func $readdir (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get" (func $stat (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $unlink (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_remove_directory" (func $rmdir (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_create_directory" (func $mkdir (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_rename" (func $rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink" (func $symlink (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 32)
  (data (i32.const 65536) "{escaped}")
  (func $check (param i32) (if (local.get 0) (then (call $exit (local.get 0)))))
  (func $pump (param $from i32) (param $to i32)
    (loop $again
      (i32.store (i32.const 0) (i32.const 1048576))
      (i32.store (i32.const 4) (i32.const 65536))
      (call $check (call $read (local.get $from) (i32.const 0) (i32.const 1) (i32.const 8)))
      (if (i32.load (i32.const 8)) (then
        (i32.store (i32.const 4) (i32.load (i32.const 8)))
        (call $check (call $write (local.get $to) (i32.const 0) (i32.const 1) (i32.const 12)))
        (br $again)))))
  (func $put (param $to i32) (param $at i32) (param $length i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $length))
    (call $check (call $write (local.get $to) (i32.const 0) (i32.const 1) (i32.const 12))))
  (func $path (param $at i32) (param $length i32) (param $oflags i32) (param $rights i64) (param $flags i32)
    (result i32)
    (call $check (call $open (i32.const 3) (i32.const 0) (local.get $at) (local.get $length) (local.get $oflags)
      (local.get $rights) (i64.const 0) (local.get $flags) (i32.const 16)))
    (i32.load (i32.const 16)))
  (func (export "_start") (local $a i32) (local $b i32)
{body}))"#
    )
}

#[derive(Default)]
struct Data {
    bytes: Vec<u8>,
}

/// Rights: read, seek, tell, filestat, readdir; and write for those that write.
const READ: u64 = (1 << 1) | (1 << 2) | (1 << 5) | (1 << 14) | (1 << 21);
const WRITE: u64 = 1 << 6;
const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const TRUNCATE: u32 = 8;
const APPEND: u32 = 1;

impl Data {
    /// Two operands: where the bytes are and how many.
    fn add(&mut self, bytes: &[u8]) -> String {
        let at = 65536 + self.bytes.len();
        self.bytes.extend(bytes);
        assert!(self.bytes.len() < 900_000);
        format!("(i32.const {at}) (i32.const {})", bytes.len())
    }

    fn open(&mut self, path: &str, oflags: u32, rights: u64, flags: u32) -> String {
        let path = self.add(path.as_bytes());
        format!("(call $path {path} (i32.const {oflags}) (i64.const {rights}) (i32.const {flags}))")
    }

    fn call(&mut self, call: &Call, body: &mut String) {
        let line = match call {
            Call::Copy(from, to) => {
                let from = self.open(from, 0, READ, 0);
                let to = self.open(to, CREATE | TRUNCATE, WRITE, 0);
                format!(
                    "(local.set $a {from}) (local.set $b {to}) (call $pump (local.get $a) (local.get $b)) \
                     (call $check (call $close (local.get $a))) (call $check (call $close (local.get $b)))"
                )
            }
            Call::Write(path, bytes) | Call::Append(path, bytes) => {
                let append = matches!(call, Call::Append(..));
                let oflags = if append { CREATE } else { CREATE | TRUNCATE };
                let to = self.open(path, oflags, WRITE, if append { APPEND } else { 0 });
                let bytes = self.add(bytes);
                format!(
                    "(local.set $b {to}) (call $put (local.get $b) {bytes}) \
                     (call $check (call $close (local.get $b)))"
                )
            }
            Call::Print(path) => {
                let from = self.open(path, 0, READ, 0);
                format!("(local.set $a {from}) (call $pump (local.get $a) (i32.const 1))")
            }
            Call::Say(bytes) => format!("(call $put (i32.const 1) {})", self.add(bytes)),
            Call::Stat(path) => {
                let path = self.add(path.as_bytes());
                format!("(drop (call $stat (i32.const 3) (i32.const 0) {path} (i32.const 64)))")
            }
            Call::List(path) => {
                let directory = self.open(path, DIRECTORY, READ, 0);
                format!(
                    "(local.set $a {directory}) (call $check (call $readdir (local.get $a) (i32.const 1048576) \
                     (i32.const 65536) (i64.const 0) (i32.const 12))) \
                     (call $put (i32.const 1) (i32.const 1048576) (i32.load (i32.const 12)))"
                )
            }
            Call::Remove(path) => self.one("$unlink", path),
            Call::RemoveDirectory(path) => self.one("$rmdir", path),
            Call::MakeDirectory(path) => self.one("$mkdir", path),
            Call::Rename(from, to) => {
                let (from, to) = (self.add(from.as_bytes()), self.add(to.as_bytes()));
                format!("(call $check (call $rename (i32.const 3) {from} (i32.const 3) {to}))")
            }
            Call::Symlink(target, path) => {
                let (target, path) = (self.add(target.as_bytes()), self.add(path.as_bytes()));
                format!("(call $check (call $symlink {target} (i32.const 3) {path}))")
            }
            Call::Trap => "(unreachable)".to_owned(),
        };
        writeln!(body, "    {line}").unwrap();
    }

    fn one(&mut self, function: &str, path: &str) -> String {
        let path = self.add(path.as_bytes());
        format!("(call $check (call {function} (i32.const 3) {path}))")
    }
}
