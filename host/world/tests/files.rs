//! Files as a guest sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use opship_record::Hash;
use opship_record::effect::{After, Before, Change};
use opship_record::node::Kind;
use opship_world::{Errno, MemoryTree};

#[test]
fn what_is_written_can_be_read_and_is_a_change() {
    let mut guest = Guest::new(MemoryTree::new().directory("d"));
    guest.write_file("d/f", b"hello").unwrap();
    assert_eq!(guest.read_file("d/f").unwrap(), b"hello");
    let outcome = guest.finish();
    let file = &outcome.files[&path("d/f")];
    assert_eq!((file.length, file.hash), (5, Hash::of(b"hello")));
    let expected = Change {
        path: path("d/f"),
        before: Before::Absent { missing: path("d/f"), above: Kind::Directory },
        after: After::File { length: 5, hash: Hash::of(b"hello"), mode: None, mtime: START as i64 },
    };
    assert_eq!(outcome.lists.changes, [expected]);
}

#[test]
fn a_size_is_set_where_a_file_is_open_for_writing_only() {
    let mut guest = Guest::new(MemoryTree::new().file("f", "text"));
    let reading = guest.open("f", 0, READ).unwrap();
    assert_eq!(guest.set_size(reading, 0), Err(Errno::Inval));
    for no_file in [0, 1, ROOT] {
        assert_eq!(guest.set_size(no_file, 0), Err(Errno::Badf));
    }
}

#[test]
fn no_path_starts_at_a_file_or_a_stream() {
    let mut guest = Guest::new(MemoryTree::new().file("f", "text"));
    let file = guest.open("f", 0, READ).unwrap();
    assert_eq!(guest.open_at(file, "f", 0, READ, 0, 0), Err(Errno::Notdir));
    assert_eq!(guest.open_at(1, "f", 0, READ, 0, 0), Err(Errno::Badf));
}

#[test]
fn positions_appending_and_gaps_work_as_posix_says() {
    let mut guest = Guest::new(MemoryTree::new().file("f", "0123456789"));
    let fd = guest.open("f", 0, READ | WRITE).unwrap();
    assert_eq!(guest.read(fd, 4).unwrap(), b"0123");
    guest.write(fd, b"ab").unwrap();
    assert_eq!(guest.seek(fd, 0, 1), Ok(6));
    assert_eq!(guest.read(fd, 100).unwrap(), b"6789");
    assert_eq!(guest.read(fd, 100).unwrap(), b"");
    assert_eq!(guest.seek(fd, -1, 2), Ok(9));
    assert_eq!(guest.seek(fd, -11, 2), Err(Errno::Inval));
    guest.pwrite(fd, b"Z", 12).unwrap();
    assert_eq!(guest.pread(fd, 100, 0).unwrap(), b"0123ab6789\0\0Z");
    let append = guest.open_at(ROOT, "f", 0, WRITE, APPEND, 1).unwrap();
    guest.write(append, b"!").unwrap();
    assert_eq!(guest.seek(append, 0, 1), Ok(14));
    assert_eq!(guest.read(append, 1), Err(Errno::Badf));
    guest.set_size(fd, 3).unwrap();
    guest.set_size(fd, 5).unwrap();
    assert_eq!(guest.read_file("f").unwrap(), b"012\0\0");
    assert_eq!(guest.set_size(fd, u64::MAX), Err(Errno::Fbig));
    assert_eq!(guest.pwrite(fd, b"x", u64::MAX), Err(Errno::Fbig));
    let outcome = guest.finish();
    assert_eq!(outcome.files[&path("f")].hash, Hash::of(b"012\0\0"));
}
