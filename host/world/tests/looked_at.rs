//! Whoever runs a world looks in while it works for long by itself, and ends it there; what it makes is the same whether
//! bytes were written, or never were.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use opship_record::{Hash, TreePath};
use opship_world::{Fault, FileContent, MemoryTree, SourceError, SourceNode, Trap, TreeSource, World, limits};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Lets the world go on so many times; how often it was asked.
fn stop_after(world: &mut World, times: usize) -> Arc<AtomicUsize> {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    world.watched_by(Box::new(move || match counted.fetch_add(1, Ordering::Relaxed) {
        before if before < times => Ok(()),
        _ => Err("enough".into()),
    }));
    asked
}

fn finish(mut guest: Guest) -> Result<opship_world::Outcome, Fault> {
    guest.world.end_step(0).unwrap();
    guest.world.finish()
}

fn assert_stopped(fault: &Fault) {
    assert!(matches!(fault, Fault::Stopped(why) if why.to_string() == "enough"), "{fault:?}");
}

fn whole_file(guest: &mut Guest, name: &str, length: u64) {
    let fd = guest.open(name, CREAT, WRITE).unwrap();
    guest.set_size(fd, length).unwrap();
    guest.close(fd).unwrap();
}

/// A budget that a file of the greatest length does not meet.
fn wide() -> opship_world::WorldConfig {
    let budget = Budget { produced_bytes: u64::MAX, ..Budget::default() };
    opship_world::WorldConfig { budget, ..config(MemoryTree::new(), vec![step()]) }
}

#[test]
fn hashing_a_long_file_at_the_end_can_be_ended() {
    // Hashing the longest file there may be takes minutes.
    let mut guest = Guest::begin(wide());
    whole_file(&mut guest, "sparse", limits::FILE_SIZE);
    let asked = stop_after(&mut guest.world, 5);
    assert_stopped(&finish(guest).unwrap_err());
    assert_eq!(asked.load(Ordering::Relaxed), 6, "not asked again");
}

#[test]
fn copying_for_further_names_can_be_ended() {
    let mut guest = Guest::empty();
    let fd = guest.open("one", CREAT, WRITE).unwrap();
    for _ in 0..3 {
        guest.write(fd, &[7; 1 << 20]).unwrap();
    }
    (0..50).for_each(|number| guest.link("one", &format!("l{number}")).unwrap());
    let asked = stop_after(&mut guest.world, 20);
    assert_stopped(&finish(guest).unwrap_err());
    assert_eq!(asked.load(Ordering::Relaxed), 21);
}

#[test]
fn many_lookups_at_the_end_can_be_ended() {
    let names: Vec<String> = (0..2000).map(|number| format!("d/f{number}")).collect();
    let tree = names.iter().fold(MemoryTree::new(), |tree, name| tree.file(name, "x"));
    let mut guest = Guest::new(tree);
    names.iter().for_each(|name| guest.unlink(name).unwrap());
    stop_after(&mut guest.world, 1);
    assert_stopped(&finish(guest).unwrap_err());
}

/// A tree with one file, as long as one may be.
struct Long;

impl TreeSource for Long {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        let file = SourceNode::File { mode: 0o644, mtime: 0, length: limits::FILE_SIZE };
        Ok(match path.as_str() {
            "" => Some(SourceNode::Directory { mode: 0o755 }),
            "long" => Some(file),
            _ => None,
        })
    }

    fn list(&self, _path: &TreePath) -> Result<Vec<(String, opship_record::node::Kind)>, SourceError> {
        Ok(vec![("long".to_owned(), opship_record::node::Kind::File)])
    }

    fn open(&self, _path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        Ok(Arc::new(Long))
    }
}

impl FileContent for Long {
    fn length(&self) -> u64 {
        limits::FILE_SIZE
    }

    fn hash(&self) -> Result<Hash, SourceError> {
        Ok(Hash::of(b"said to be this"))
    }

    fn read_at(&self, _offset: u64, buffer: &mut [u8]) -> Result<usize, SourceError> {
        buffer.fill(1);
        Ok(buffer.len())
    }
}

#[test]
fn the_copy_that_a_first_write_makes_can_be_ended() {
    let budget = Budget { produced_bytes: u64::MAX, ..Budget::default() };
    let mut guest = Guest::begin(opship_world::WorldConfig { budget, ..config(Long, vec![step()]) });
    let fd = guest.open("long", 0, WRITE).unwrap();
    let asked = stop_after(&mut guest.world, 9);
    let (iovs, _) = guest.put(IOVS, &[0, 0, 1, 0, 1, 0, 0, 0]);
    let Guest { world, memory } = &mut guest;
    match world.fd_write(memory, fd, iovs, 1, 0) {
        Err(Trap::Fault(fault)) => assert_stopped(&fault),
        other => panic!("{other:?}"),
    }
    assert_eq!(asked.load(Ordering::Relaxed), 10);
}

#[derive(Debug, Clone)]
enum Act {
    Write(u64, usize),
    Append(usize),
    Resize(u64),
}

fn act() -> impl Strategy<Value = Act> {
    const MOST: u64 = 5 << 20;
    prop_oneof![
        (0..MOST, 1..300_000_usize).prop_map(|(offset, length)| Act::Write(offset, length)),
        (1..300_000_usize).prop_map(Act::Append),
        (0..MOST).prop_map(Act::Resize),
        (0..5_u64).prop_map(|mib| Act::Resize(mib << 20)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn hashes_and_copies_are_those_of_the_bytes_however_they_came_about(acts in prop::collection::vec(act(), 1..12)) {
        let mut guest = Guest::empty();
        let fd = guest.open("one", CREAT, WRITE).unwrap();
        let mut expected = Vec::new();
        for (number, act) in acts.iter().enumerate() {
            let (at, length) = match *act {
                Act::Write(offset, length) => (usize::try_from(offset).unwrap(), length),
                Act::Append(length) => (expected.len(), length),
                Act::Resize(length) => {
                    guest.set_size(fd, length).unwrap();
                    expected.resize(usize::try_from(length).unwrap(), 0);
                    continue;
                }
            };
            let data = vec![number as u8 + 1; length];
            guest.pwrite(fd, &data, at as u64).unwrap();
            expected.resize(expected.len().max(at + length), 0);
            expected[at..at + length].copy_from_slice(&data);
        }
        guest.link("one", "two").unwrap();
        guest.link("one", "three").unwrap();
        let outcome = guest.finish();
        for name in ["one", "two", "three"] {
            let made = &outcome.files[&path(name)];
            prop_assert_eq!((made.length, made.hash), (expected.len() as u64, Hash::of(&expected)));
            let mut bytes = Vec::new();
            made.copy_to(&mut bytes).unwrap();
            prop_assert!(bytes == expected, "{}", name);
        }
    }
}
