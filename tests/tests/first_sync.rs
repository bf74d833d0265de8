//! What new files and new metadata cost beyond their bytes, and a first sync that another was quicker than.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{Place, Server, assert_same_tree, noise, requests, run_through, snapshot};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Syncs through a relay; gives the bytes that passed, both ways, and the address of each request.
fn sync(place: &Place, server: &Server, directory: &Path) -> (u64, Vec<String>) {
    let tap = Tap::start_keeping(server.authority().parse().unwrap()).unwrap();
    run_through(place, &tap, server, directory, &["sync"]);
    (tap.count().total(), requests(&tap))
}

#[test]
fn a_file_that_does_not_compress_costs_two_requests_and_a_kilobyte_each_way() {
    const LENGTH: u64 = 700_000;
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("first"), noise(1, LENGTH as usize)).unwrap();
    let (total, requests) = sync(&place, &server, &here);
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(total < LENGTH + 650, "{total}");

    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    fs::write(here.join("second"), noise(2, LENGTH as usize)).unwrap();
    let (total, requests) = sync(&place, &server, &here);
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(total < LENGTH + 950, "{total}");
    let there = place.path("there");
    let (total, requests) = sync(&place, &server, &there);
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(total < LENGTH + 950, "{total}");
    assert_same_tree(&here, &there);
}

#[test]
fn a_mode_or_a_time_of_a_large_file_costs_no_content() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("large"), noise(1, 4 << 20)).unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    let there = place.path("there");
    let file = here.join("large");
    let changes: [&dyn Fn(); 2] = [&|| fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap(), &|| {
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    }];
    for change in changes {
        change();
        for directory in [&here, &there] {
            let (total, requests) = sync(&place, &server, directory);
            assert_eq!(requests.len(), 1, "{requests:?}");
            assert!(total < 600, "{total}");
        }
        assert_same_tree(&here, &there);
    }
}

#[test]
fn where_another_fills_a_new_workspace_first_nothing_is_lost_and_equal_files_stay_one() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let quicker = place.init(&server, "quicker", "main");
    for (directory, own) in [(&here, "mine"), (&quicker, "theirs")] {
        fs::write(directory.join("same"), "of both").unwrap();
        fs::write(directory.join("other"), own).unwrap();
    }
    place.ok(&quicker, ["sync"]);
    for directory in [&here, &quicker, &here] {
        place.run(directory, ["sync"]);
    }
    assert_same_tree(&here, &quicker);
    assert_eq!(fs::read(here.join("other")).unwrap(), b"theirs");
    let names: Vec<String> = snapshot(&here).into_keys().collect();
    assert_eq!(names.iter().filter(|name| name.contains("same")).count(), 1, "{names:?}");
    let copy = names.iter().find(|name| name.contains("conflict")).unwrap();
    assert_eq!(fs::read(here.join(copy)).unwrap(), b"mine");
}
