//! Copies that opship makes take no room where the file system's files can share blocks.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, SharingDisk, assert_same_tree, noise};
use std::fs;

#[test]
fn a_copy_that_another_made_and_a_restored_file_share_their_blocks() {
    const LENGTH: u64 = 32 << 20;
    let place = Place::new();
    let Some(disk) = SharingDisk::mount(&place.folder("disk")) else { return };
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("film"), noise(1, LENGTH as usize)).unwrap();
    place.ok(&here, ["sync"]);
    let there = disk.path().join("there");
    place.ok(disk.path(), ["clone", &format!("{}/main", server.url()), "there"]);

    let before = disk.used();
    fs::copy(here.join("film"), here.join("copy")).unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    assert_same_tree(&here, &there);
    let taken = disk.used().saturating_sub(before);
    assert!(taken < LENGTH / 4, "a copy took {taken} bytes");

    let before = disk.used();
    let outside = disk.path().join("restored");
    place.ok(&there, ["restore", "film", "--version", "1", "--to", outside.to_str().unwrap()]);
    assert!(fs::read(outside.join("film")).unwrap() == fs::read(here.join("film")).unwrap());
    let taken = disk.used().saturating_sub(before);
    assert!(taken < LENGTH / 4, "a restored file took {taken} bytes");
}
