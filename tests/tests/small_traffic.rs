//! What little work costs on the wire: bytes counted at the socket, requests and responses with their headers.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::{Count, Tap};
use opship_tests::{Place, Server, assert_same_tree, requests, run_through, verdicts};
use std::fs;
use std::path::Path;

/// Syncs through a relay; gives what passed, and the address of each request.
fn sync(place: &Place, server: &Server, directory: &Path) -> (Count, Vec<String>) {
    let tap = Tap::start_keeping(server.authority().parse().unwrap()).unwrap();
    run_through(place, &tap, server, directory, &["sync"]);
    (tap.count(), requests(&tap))
}

#[test]
fn a_sync_with_nothing_to_do_is_one_small_request() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "a-workspace-with-a-name-of-some-length");
    for round in 0..3 {
        fs::write(here.join("file"), round.to_string()).unwrap();
        sync(&place, &server, &here);
        let (count, requests) = sync(&place, &server, &here);
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert!(count.total() < 400, "{count:?}");
    }
    // What others did is got by the same request.
    place.ok(&place.path(""), ["clone", &format!("{}/a-workspace-with-a-name-of-some-length", server.url()), "there"]);
    let there = place.path("there");
    fs::write(there.join("other"), "of another").unwrap();
    place.ok(&there, ["sync"]);
    sync(&place, &server, &here);
    assert_same_tree(&here, &there);
    let (count, requests) = sync(&place, &server, &here);
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(count.total() < 400, "{count:?}");
}

#[test]
fn a_sync_without_files_and_versions_asks_once_too() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let (count, requests) = sync(&place, &server, &here);
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(count.total() < 400, "{count:?}");
}

#[test]
fn a_small_value_and_an_operation_are_one_request_each() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("data"), "some text\n".repeat(100)).unwrap();
    place.ok(&here, ["sync"]);

    fs::write(here.join("small"), "a line of text\n").unwrap();
    let (value, requests) = sync(&place, &server, &here);
    println!("a value of 15 bytes: {value:?}");
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(value.total() < 550, "{value:?}");

    place.ok(&here, ["run", "gzip", "--", "-k", "data"]);
    let (operation, requests) = sync(&place, &server, &here);
    println!("an operation: {operation:?}");
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(operation.total() < 620, "{operation:?}");
    assert_eq!(verdicts(&place, &here), ["shipped", "shipped", "matched"]);
}
