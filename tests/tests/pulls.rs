//! What a pull downloads: nothing that cannot be placed, nothing that is here, and nothing twice that has come.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::{Count, Tap};
use opship_tests::{Place, Server, assert_same_tree, noise, point, run_through, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

fn sync_through(place: &Place, server: &Server, directory: &Path) -> Count {
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    run_through(place, &tap, server, directory, &["sync"]);
    tap.count()
}

fn clone(place: &Place, server: &Server, name: &str) -> PathBuf {
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), name]);
    place.path(name)
}

/// A server with a working copy `here`, and what `fill` made there synced to `there`.
fn two_copies(fill: impl FnOnce(&Path)) -> (Place, Server, PathBuf, PathBuf) {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fill(&here);
    place.ok(&here, ["sync"]);
    let there = clone(&place, &server, "there");
    (place, server, here, there)
}

#[test]
fn what_cannot_be_placed_is_not_downloaded_and_costs_nothing_from_then_on() {
    let (place, server, here, there) = two_copies(|here| fs::write(here.join("f"), "text").unwrap());
    fs::write(there.join("cache.bin"), noise(1, 2 << 20)).unwrap();
    place.ok(&there, ["sync"]);
    fs::write(here.join("cache.bin"), "of here alone").unwrap();
    fs::write(here.join(".opshipignore"), "cache.bin\n").unwrap();
    assert!(sync_through(&place, &server, &here).received < 20_000);
    let report = place.json(&here, ["sync"]);
    assert_eq!(report["pulled"]["deferred"][0][0], "cache.bin", "{report:#}");
    let idle = sync_through(&place, &server, &here).total();
    assert!(idle < 1_000, "{idle} bytes for a sync with nothing to do");
    assert_eq!(fs::read(here.join("cache.bin")).unwrap(), b"of here alone");

    // Another state of it is noticed, and it comes once nothing stands against it.
    fs::write(there.join("cache.bin"), noise(2, 1 << 20)).unwrap();
    place.ok(&there, ["sync"]);
    assert!(sync_through(&place, &server, &here).received < 20_000);
    fs::remove_file(here.join("cache.bin")).unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    assert_same_tree(&here, &there);
}

#[test]
fn a_large_folder_that_was_renamed_costs_no_contents() {
    const FILES: u64 = 2_200;
    let (place, server, here, there) = two_copies(|here| {
        for n in 0..FILES {
            let folder = here.join(format!("d/{}", n % 3));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(n.to_string()), noise(n, 2_000)).unwrap();
        }
    });
    fs::rename(here.join("d"), here.join("e")).unwrap();
    place.ok(&here, ["sync"]);
    let received = sync_through(&place, &server, &there).received;
    assert!(received < FILES * 2_000 / 4, "{received} bytes for a folder that was renamed");
    assert_same_tree(&here, &there);
}

#[test]
fn contents_that_change_places_are_not_downloaded() {
    let name = |n: u64| format!("app.log.{n}");
    let (place, server, here, there) = two_copies(|here| {
        (0..4).for_each(|n| fs::write(here.join(name(n)), noise(n, 900_000)).unwrap());
        fs::create_dir_all(here.join("folder/below")).unwrap();
        fs::write(here.join("folder/below/file"), noise(8, 5_000)).unwrap();
        fs::write(here.join("file"), noise(9, 5_000)).unwrap();
    });
    // As logs are rotated; a file takes a folder's place, and a folder a file's.
    (0..4).rev().for_each(|n| fs::rename(here.join(name(n)), here.join(name(n + 1))).unwrap());
    fs::write(here.join(name(0)), "a new log").unwrap();
    fs::rename(here.join("folder"), here.join("aside")).unwrap();
    fs::rename(here.join("file"), here.join("folder")).unwrap();
    fs::rename(here.join("aside"), here.join("file")).unwrap();
    place.ok(&here, ["sync"]);
    let received = sync_through(&place, &server, &there).received;
    assert!(received < 20_000, "{received} bytes, though all is there under other names");
    assert_same_tree(&here, &there);
}

#[test]
fn a_folder_that_is_adopted_is_a_source_of_what_the_server_has_elsewhere() {
    let (place, server, here, _) = two_copies(|here| {
        fs::write(here.join("moved"), noise(1, 3 << 20)).unwrap();
        fs::write(here.join("edited"), noise(2, 6 << 20)).unwrap();
    });
    let third = place.folder("third");
    fs::create_dir(third.join("below")).unwrap();
    fs::write(third.join("below/another name"), noise(1, 3 << 20)).unwrap();
    let mut edited = noise(2, 6 << 20);
    edited[3_000_000..3_000_005].copy_from_slice(b"other");
    fs::write(third.join("edited"), &edited).unwrap();
    place.ok(&third, ["init", "--server", &server.url(), "--workspace", "main"]);
    let total = sync_through(&place, &server, &third).total();
    assert!(total < 2 << 20, "{total} bytes for five that differ");
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &third);
    assert!(fs::read(here.join("below/another name")).unwrap() == noise(1, 3 << 20));
}

fn start_sync(place: &Place, directory: &Path, server: &Server) -> Child {
    let mut command = place.command(directory);
    command.arg("sync").env("OPSHIP_TOKEN", server.token()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// What one kill may cost: what was on its way between server, relay and client, and the list of the tree.
const EACH_KILL: u64 = 1 << 20;

/// Large files and small ones; gives the sum of their lengths.
fn many_files(folder: &Path) -> u64 {
    (0..20).for_each(|n| fs::write(folder.join(format!("large {n}")), noise(n, 300_000)).unwrap());
    (0..60).for_each(|n| fs::write(folder.join(format!("small {n}")), noise(100 + n, 20_000)).unwrap());
    20 * 300_000 + 60 * 20_000
}

#[test]
fn a_pull_of_many_files_gets_on_however_often_it_is_killed() {
    let (place, server, here, there) = two_copies(|_| {});
    let sum = many_files(&here);
    place.ok(&here, ["sync"]);
    let tap = Tap::start_paced(server.authority().parse().unwrap(), 3 << 20).unwrap();
    point(&there, tap.address());
    let (mut kills, mut done) = (0, false);
    while !done {
        let before = tap.count().received;
        let mut sync = start_sync(&place, &there, &server);
        until("a part", || {
            done = sync.try_wait().unwrap().is_some();
            done || tap.count().received > before + 1_700_000
        });
        if !done {
            kill_process(Pid::from_raw(sync.id().cast_signed()).unwrap(), Signal::KILL).unwrap();
            kills += 1;
        }
        done = sync.wait().unwrap().success();
        assert!(kills < 20, "it does not get on");
    }
    assert!(kills > 1, "nothing was killed");
    let received = tap.count().received;
    assert!(received < sum + kills * EACH_KILL, "{received} bytes for {sum} with {kills} kills");
    assert_same_tree(&here, &there);
    assert_eq!(fs::read_dir(there.join(".opship/downloads")).unwrap().count(), 0);
}

#[test]
fn what_has_come_is_applied_when_the_server_goes_away() {
    let (place, server, here, there) = two_copies(|_| {});
    many_files(&here);
    place.ok(&here, ["sync"]);
    let tap = Tap::start_paced(server.authority().parse().unwrap(), 3 << 20).unwrap();
    point(&there, tap.address());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    tap.cut_after(3_000_000);
    let mut sync = start_sync(&place, &there, &server);
    until("its beginning", || tap.count().received > 300_000);
    // The connection that there is goes on until it is cut; another leads nowhere.
    tap.move_to(nobody);
    assert!(!sync.wait().unwrap().success());
    let large = (0..20).filter(|n| there.join(format!("large {n}")).exists()).count();
    assert!(large as u64 * 300_000 > tap.count().received - 1_200_000, "{large} files of {:?}", tap.count());
    tap.move_to(server.authority().parse().unwrap());
    assert_eq!(start_sync(&place, &there, &server).wait().unwrap().code(), Some(0));
    assert_same_tree(&here, &there);
}
