//! Paths that a pull leaves alone, because something stands there that is not synced.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, assert_same_tree};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Two working copies, and a socket at `q` of the first, where the second has made a file.
fn with_a_socket_in_the_way(place: &Place, server: &Server) -> (PathBuf, PathBuf) {
    let here = place.init(server, "here", "main");
    fs::write(here.join("file"), "text").unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    let there = place.path("there");
    drop(UnixListener::bind(here.join("q")).unwrap());
    fs::write(there.join("q"), "of another").unwrap();
    place.ok(&there, ["sync"]);
    let report = place.json(&here, ["sync"]);
    assert_eq!(report["pulled"]["deferred"][0][0], "q", "{report:#}");
    (here, there)
}

#[test]
fn what_was_in_the_way_goes_and_the_file_comes() {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = with_a_socket_in_the_way(&place, &server);
    fs::write(there.join("q"), "of another, and again").unwrap();
    place.ok(&there, ["sync"]);
    fs::remove_file(here.join("q")).unwrap();
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &there);
}

#[test]
fn a_file_that_another_has_removed_meanwhile_does_not_come_back() {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = with_a_socket_in_the_way(&place, &server);
    fs::remove_file(there.join("q")).unwrap();
    place.ok(&there, ["sync"]);
    fs::remove_file(here.join("q")).unwrap();
    place.ok(&here, ["sync"]);
    assert!(!here.join("q").exists());
    assert_same_tree(&here, &there);
    // And nobody ships it as new.
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    assert_same_tree(&here, &there);
}
