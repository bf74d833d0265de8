//! Random operations on a world and on a real directory: same errors, same tree, and the recorded changes lead there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::trees::{check_outcome, differing, seen, source_nodes};
use common::*;
use opship_record::TreePath;
use opship_record::node::Node;
use opship_world::{Errno, MemoryTree, SourceNode};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::Path;

#[derive(Debug, Clone)]
enum Op {
    Write { path: String, oflags: u32, append: bool, offset: u64, data: Vec<u8> },
    SetSize { path: String, size: u64 },
    Mkdir(String),
    Rmdir(String),
    Unlink(String),
    Rename(String, String),
    Link(String, String),
    Symlink(String, String),
    Readlink(String),
    Stat(String, u32),
    Read(String),
    List(String),
    SetMode(String, u16),
    SetMtime(String, u32),
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("a"), 3 => Just("b"), 2 => Just("c"), 1 => Just("l")]
}

fn any_path() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec(
        prop_oneof![12 => name().prop_map(|n| n.to_owned()), 1 => name().prop_map(|n| format!("{n}/..")), 1 => Just(".".to_owned())],
        1..4,
    );
    (parts, prop::bool::weighted(0.05)).prop_map(|(parts, slash)| parts.join("/") + if slash { "/" } else { "" })
}

fn plain_path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|parts| parts.join("/"))
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..20), (any::<u8>(), 0usize..3000).prop_map(|(b, n)| vec![b; n])]
}

fn op() -> impl Strategy<Value = Op> {
    let oflags = prop_oneof![Just(0), Just(CREAT), Just(CREAT | TRUNC), Just(CREAT | EXCL), Just(TRUNC)];
    prop_oneof![
        4 => (any_path(), oflags, any::<bool>(), 0u64..5000, data())
            .prop_map(|(path, oflags, append, offset, data)| Op::Write { path, oflags, append, offset, data }),
        1 => (any_path(), 0u64..4000).prop_map(|(path, size)| Op::SetSize { path, size }),
        4 => any_path().prop_map(Op::Mkdir),
        2 => any_path().prop_map(Op::Rmdir),
        2 => any_path().prop_map(Op::Unlink),
        6 => (any_path(), any_path()).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => (any_path(), any_path()).prop_map(|(a, b)| Op::Link(a, b)),
        1 => (plain_path(), any_path()).prop_map(|(a, b)| Op::Symlink(a, b)),
        1 => any_path().prop_map(Op::Readlink),
        1 => (any_path(), 0u32..2).prop_map(|(p, f)| Op::Stat(p, f)),
        1 => any_path().prop_map(Op::Read),
        1 => any_path().prop_map(Op::List),
        1 => (any_path(), 0u16..0o1000).prop_map(|(p, m)| Op::SetMode(p, m)),
        1 => (any_path(), any::<u32>()).prop_map(|(p, t)| Op::SetMtime(p, t)),
    ]
}

/// What an operation gave, as far as both sides can be compared.
type Given = Result<Vec<u8>, Errno>;

fn on_guest(guest: &mut Guest, op: &Op) -> Given {
    let done = |()| Vec::new();
    match op {
        Op::Write { path, oflags, append, offset, data } => {
            let fd = guest.open_at(ROOT, path, *oflags, WRITE, u32::from(*append), 1)?;
            let written = if *append {
                guest.write(fd, data).map(|_| ())
            } else {
                guest.seek(fd, i64::try_from(*offset).unwrap(), 0).and_then(|_| guest.write(fd, data)).map(|_| ())
            };
            guest.close(fd)?;
            written.map(done)
        }
        Op::SetSize { path, size } => {
            let fd = guest.open(path, 0, WRITE)?;
            let result = guest.set_size(fd, *size);
            guest.close(fd)?;
            result.map(done)
        }
        Op::Mkdir(path) => guest.mkdir(path).map(done),
        Op::Rmdir(path) => guest.rmdir(path).map(done),
        Op::Unlink(path) => guest.unlink(path).map(done),
        Op::Rename(a, b) => guest.rename(a, b).map(done),
        Op::Link(a, b) => guest.link(a, b).map(done),
        Op::Symlink(target, path) => guest.symlink(target, path).map(done),
        Op::Readlink(path) => guest.readlink(path),
        Op::Stat(path, follow) => guest.stat(path, *follow).map(|stat| vec![stat.file_type]),
        Op::Read(path) => guest.open(path, 0, READ).and_then(|fd| {
            let bytes = guest.read(fd, 8192);
            guest.close(fd)?;
            bytes.map_err(|_| Errno::Isdir)
        }),
        Op::List(path) => guest.list(path).map(|names| names.join("/").into_bytes()),
        // Not compared: the real directory's modes and times are not looked at.
        Op::SetMode(path, mode) => {
            let _ = guest.set_mode(path, u32::from(*mode));
            Ok(Vec::new())
        }
        Op::SetMtime(path, mtime) => {
            let _ = guest.set_mtime(path, u64::from(*mtime));
            Ok(Vec::new())
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    match error.raw_os_error() {
        Some(2) => Errno::Noent,
        Some(17) => Errno::Exist,
        Some(20) => Errno::Notdir,
        Some(21) => Errno::Isdir,
        Some(39) => Errno::Notempty,
        Some(40) => Errno::Loop,
        Some(22) => Errno::Inval,
        Some(1) => Errno::Perm,
        Some(16) => Errno::Busy,
        other => panic!("{other:?} {error}"),
    }
}

fn on_disk(root: &Path, op: &Op) -> io::Result<Vec<u8>> {
    let at = |path: &str| format!("{}/{path}", root.display());
    match op {
        Op::Write { path, oflags, append, offset, data } => {
            let mut options = fs::OpenOptions::new();
            let has = |flag| oflags & flag != 0;
            options.write(true).append(*append);
            // `std` refuses to append and truncate together, which the system does not.
            let truncates = has(TRUNC) && !(has(CREAT) && has(EXCL));
            options.create(has(CREAT) && !has(EXCL)).create_new(has(CREAT) && has(EXCL));
            if truncates && !*append {
                options.truncate(true);
            }
            let mut file = options.open(at(path))?;
            if truncates {
                file.set_len(0)?;
            }
            if !*append {
                file.seek(SeekFrom::Start(*offset))?;
            }
            file.write_all(data)?;
        }
        Op::SetSize { path, size } => fs::OpenOptions::new().write(true).open(at(path))?.set_len(*size)?,
        Op::Mkdir(path) => fs::create_dir(at(path))?,
        Op::Rmdir(path) => fs::remove_dir(at(path))?,
        Op::Unlink(path) => fs::remove_file(at(path))?,
        Op::Rename(a, b) => fs::rename(at(a), at(b))?,
        Op::Link(a, b) => fs::hard_link(at(a), at(b))?,
        Op::Symlink(target, path) => symlink(target, at(path))?,
        Op::Readlink(path) => return Ok(fs::read_link(at(path))?.into_os_string().into_encoded_bytes()),
        Op::Stat(path, follow) => {
            let meta = if *follow == 1 { fs::metadata(at(path))? } else { fs::symlink_metadata(at(path))? };
            return Ok(vec![if meta.is_dir() {
                3
            } else if meta.is_file() {
                4
            } else {
                7
            }]);
        }
        Op::Read(path) => {
            let mut bytes = Vec::new();
            fs::File::open(at(path))?.take(8192).read_to_end(&mut bytes)?;
            return Ok(bytes);
        }
        Op::List(path) => {
            let mut names: Vec<String> = fs::read_dir(at(path))?
                .map(|entry| entry.map(|e| e.file_name().into_string().unwrap()))
                .collect::<io::Result<_>>()?;
            names.sort();
            return Ok(names.join("/").into_bytes());
        }
        Op::SetMode(..) | Op::SetMtime(..) => {}
    }
    Ok(Vec::new())
}

/// A real directory as a tree, with modes and times that the world can tell apart from defaults.
fn snapshot(root: &Path) -> MemoryTree {
    fn walk(dir: &Path, at: &TreePath, mut tree: MemoryTree) -> MemoryTree {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = at.join(entry.file_name().to_str().unwrap()).unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                tree = walk(&entry.path(), &path, tree.directory(path.as_str()));
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes();
                tree = tree.symlink(path.as_str(), target);
            } else {
                let mode = if path.as_str().len().is_multiple_of(2) { 0o755 } else { 0o600 };
                tree = tree.file_with(path.as_str(), fs::read(entry.path()).unwrap(), mode, path.as_str().len() as i64);
            }
        }
        tree
    }
    walk(root, &TreePath::root(), MemoryTree::new())
}

/// Makes a directory that holds a tree; what were two names of one file are two files now.
fn write_out(tree: &MemoryTree, root: &Path) {
    for (path, node, content) in tree.nodes().skip(1) {
        let at = root.join(path.as_str());
        match node {
            SourceNode::File { .. } => fs::write(at, content).unwrap(),
            SourceNode::Directory { .. } => fs::create_dir(at).unwrap(),
            SourceNode::Symlink { target, .. } => symlink(std::str::from_utf8(target).unwrap(), at).unwrap(),
        }
    }
}

fn run(source: MemoryTree, ops: &[Op]) -> (Guest, Vec<Given>) {
    let mut guest = Guest::new(source);
    let given = ops.iter().map(|op| on_guest(&mut guest, op)).collect();
    (guest, given)
}

fn check(source: &MemoryTree, root: &Path, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut guest = Guest::new(source.clone());
    for op in ops {
        let real = on_disk(root, op).map_err(|error| errno(&error));
        prop_assert_eq!(on_guest(&mut guest, op), real, "{:?}", op);
    }
    let after = seen(&mut guest);
    let content = |nodes: &BTreeMap<TreePath, Node>| -> Vec<_> {
        nodes.iter().map(|(path, node)| (path.clone(), node.content())).collect()
    };
    prop_assert_eq!(content(&after), content(&source_nodes(&snapshot(root))));

    let outcome = guest.finish();
    check_outcome(source, &outcome);
    let changes = &outcome.lists.changes;
    let differing = differing(source, changes, &after);
    prop_assert!(differing.is_empty(), "{:#?}\n{:#?}", differing, changes);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_world_behaves_like_a_directory(first in prop::collection::vec(op(), 0..25), second in prop::collection::vec(op(), 0..25)) {
        let dir = tempfile::tempdir().unwrap();
        check(&MemoryTree::new(), dir.path(), &first)?;
        let source = snapshot(dir.path());
        let fresh = tempfile::tempdir().unwrap();
        write_out(&source, fresh.path());
        check(&source, fresh.path(), &second)?;
    }

    #[test]
    fn a_second_run_gives_the_same_lists(first in prop::collection::vec(op(), 0..25), second in prop::collection::vec(op(), 0..25)) {
        let dir = tempfile::tempdir().unwrap();
        for op in &first {
            let _ = on_disk(dir.path(), op);
        }
        let source = snapshot(dir.path());
        let (one, given) = run(source.clone(), &second);
        let (two, again) = run(source, &second);
        prop_assert_eq!(given, again);
        prop_assert_eq!(one.finish().lists, two.finish().lists);
    }
}
