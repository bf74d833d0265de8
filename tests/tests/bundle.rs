//! Bundles: a workspace, and what waits to be shipped, travel by disk, and the network has nothing to do again.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{
    Place, Printed, Server, SmallDisk, assert_same_tree, noise, point, run_through, snapshot, verdicts,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A working copy of a new workspace with files of all kinds, shipped.
fn shipped(place: &Place, server: &Server) -> PathBuf {
    let here = place.init(server, "here", "main");
    fs::create_dir_all(here.join("maps/empty")).unwrap();
    fs::write(here.join("maps/large"), noise(1, 300_000)).unwrap();
    fs::write(here.join("text"), "a line\n").unwrap();
    fs::write(here.join("tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(here.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("maps/large", here.join("link")).unwrap();
    place.ok(&here, ["sync"]);
    here
}

fn bundle(place: &Place, copy: &Path, name: &str) -> PathBuf {
    let file = place.path(name);
    place.ok(copy, ["bundle", "create", file.to_str().unwrap()]);
    file
}

fn apply(place: &Place, directory: &Path, file: &Path) -> Printed {
    place.run(directory, ["bundle", "apply", file.to_str().unwrap()])
}

fn clone_of(place: &Place, file: &Path, name: &str) -> PathBuf {
    place.ok(&place.path(""), ["clone", "--bundle", file.to_str().unwrap(), name]);
    place.path(name)
}

/// Runs a command through a relay and gives the bytes that went through, both ways.
fn bytes_of(place: &Place, server: &Server, copy: &Path, arguments: &[&str]) -> u64 {
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    run_through(place, &tap, server, copy, arguments);
    tap.count().total()
}

/// Refused with these words, and nothing is changed.
fn assert_refused(place: &Place, directory: &Path, file: &Path, words: &str) {
    let before = snapshot(directory);
    let printed = apply(place, directory, file);
    assert_ne!(printed.code, Some(0), "{printed}");
    assert!(String::from_utf8_lossy(&printed.stderr).contains(words), "{words}: {printed}");
    assert_eq!(snapshot(directory), before);
}

#[test]
fn two_clients_are_seeded_by_disk_and_the_network_has_nothing_to_do_again() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    let file = bundle(&place, &here, "seed.bundle");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = fs::read(&file).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains(&server.token()), "a token is in the bundle");

    let (one, two) = (clone_of(&place, &file, "one"), place.folder("two"));
    let printed = apply(&place, &two, &file);
    assert_eq!(printed.code, Some(0), "{printed}");
    assert!(String::from_utf8_lossy(&printed.stdout).contains(&server.url()), "{printed}");
    assert_same_tree(&here, &one);
    assert_same_tree(&here, &two);

    for copy in [&one, &two] {
        let first = bytes_of(&place, &server, copy, &["sync"]);
        assert!(first < 3_000, "{first} bytes for what came by disk");
        let second = bytes_of(&place, &server, copy, &["sync"]);
        assert!(second < 1_000, "{second} bytes with nothing to do");
        assert_same_tree(&here, copy);
    }
    let mut content = noise(1, 300_000);
    content[150_000] ^= 1;
    fs::write(one.join("maps/large"), &content).unwrap();
    let edit = bytes_of(&place, &server, &one, &["sync"]);
    assert!(edit < 8_000, "{edit} bytes for an edit of what came by disk");
    assert_eq!(verdicts(&place, &one), ["shipped"]);
    place.ok(&two, ["sync"]);
    assert_same_tree(&one, &two);
}

#[test]
fn entries_are_carried_to_the_server_and_their_author_learns_of_it() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    fs::write(here.join("samples"), noise(2, 200_000)).unwrap();
    fs::write(here.join("small"), "a few bytes").unwrap();
    place.ok(&here, ["run", "gzip", "--", "-k", "samples"]);
    let file = place.path("home.bundle");
    let made = place.json(&here, ["bundle", "create", file.to_str().unwrap(), "--since", "1"]);
    assert!(made["bytes"].as_u64().unwrap() < 1_000_000, "{made}");

    let beside = place.folder("beside");
    let carry = ["bundle", "apply", file.to_str().unwrap(), "--server", &server.url()];
    let said = place.json(&beside, ["bundle", "apply", file.to_str().unwrap(), "--server", &server.url(), "--dry-run"]);
    assert!(said["entries"].as_array().unwrap().iter().all(|entry| entry["held"] == false), "{said}");
    let first = place.json(&beside, carry);
    let ended = |report: &serde_json::Value| -> Vec<String> {
        let entries = report["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["verdict"].as_str().unwrap_or("pending").to_owned()).collect()
    };
    assert_eq!(ended(&first), ["shipped", "matched", "shipped"], "{first}");
    let head = place.json(&here, ["log", "--versions"]);
    let second = place.json(&beside, carry);
    assert_eq!(ended(&first), ended(&second));
    assert_eq!(place.json(&here, ["log", "--versions"]), head);

    let bytes = bytes_of(&place, &server, &here, &["sync"]);
    assert!(bytes < 6_000, "{bytes} bytes for what the server holds already");
    assert_eq!(verdicts(&place, &here)[1..], ended(&first)[..]);
    assert_eq!(place.json(&here, ["log", "--versions"]), head);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

#[test]
fn what_is_written_after_a_bundle_was_made_is_another_entry() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    fs::write(here.join("text"), "in the bundle\n").unwrap();
    let file = bundle(&place, &here, "first.bundle");
    fs::write(here.join("text"), "after the bundle\n").unwrap();
    place.ok(&here, ["status"]);
    let beside = place.folder("beside");
    let carry = ["bundle", "apply", file.to_str().unwrap(), "--server", &server.url()];
    place.ok(&beside, carry);
    place.ok(&here, ["sync"]);
    place.ok(&beside, carry);
    assert_eq!(verdicts(&place, &here)[1..], ["shipped", "shipped"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_eq!(fs::read_to_string(place.path("there/text")).unwrap(), "after the bundle\n");
    assert_same_tree(&here, &place.path("there"));
}

#[test]
fn a_link_that_is_cut_while_entries_are_carried_costs_nothing_but_the_time() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    for number in 0..6 {
        fs::write(here.join(format!("sample-{number}")), noise(number + 10, 40_000)).unwrap();
        place.ok(&here, ["run", "gzip", "--", "-k", &format!("sample-{number}")]);
    }
    let file = bundle(&place, &here, "home.bundle");
    let beside = place.folder("beside");
    for bytes in [500, 2_000, 20_000, 60_000, 120_000] {
        let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
        tap.cut_after(bytes);
        let url = format!("http://{}", tap.address());
        let mut command = place.command(&beside);
        command.args(["bundle", "apply", file.to_str().unwrap(), "--server", &url]).env("OPSHIP_TOKEN", server.token());
        let _ = command.output().unwrap();
    }
    place.ok(&beside, ["bundle", "apply", file.to_str().unwrap(), "--server", &server.url()]);
    place.ok(&here, ["sync"]);
    assert!(verdicts(&place, &here).iter().all(|verdict| verdict == "matched" || verdict == "shipped"));
    let versions = place.json(&here, ["log", "--versions", "-n", "1000"])["versions"].as_array().unwrap().len();
    let entries = verdicts(&place, &here).len();
    assert!(versions <= entries + 1, "{versions} versions of {entries} entries");
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

#[test]
fn what_a_version_holds_is_left_out_and_who_lacks_it_is_told() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    let whole = bundle(&place, &here, "1.bundle");
    let (there, late) = (clone_of(&place, &whole, "there"), clone_of(&place, &whole, "late"));
    fs::write(here.join("more"), noise(3, 50_000)).unwrap();
    fs::remove_file(here.join("text")).unwrap();
    fs::rename(here.join("maps/large"), here.join("maps/renamed")).unwrap();
    place.ok(&here, ["sync"]);
    let second = place.path("2.bundle");
    place.ok(&here, ["bundle", "create", second.to_str().unwrap(), "--since", "1"]);
    assert!(fs::metadata(&second).unwrap().len() < 60_000);
    fs::write(here.join("last"), "last").unwrap();
    place.ok(&here, ["sync"]);
    let third = place.path("3.bundle");
    place.ok(&here, ["bundle", "create", third.to_str().unwrap(), "--since", "2"]);

    assert_refused(&place, &late, &third, "versions 2 to 2");
    let empty = place.folder("empty");
    assert_refused(&place, &empty, &third, "leaves out what version 2 holds");
    assert!(fs::read_dir(&empty).unwrap().next().is_none());
    assert_eq!(apply(&place, &there, &second).code, Some(0));
    assert_eq!(apply(&place, &there, &third).code, Some(0));
    assert_same_tree(&here, &there);
    assert_refused(&place, &there, &third, "stands on version 3 already");
    assert_refused(&place, &there, &whole, "stands on version 3 already");
    let bytes = bytes_of(&place, &server, &there, &["sync"]);
    assert!(bytes < 3_000, "{bytes} bytes");
    assert_eq!(verdicts(&place, &there), Vec::<String>::new());
    // What lies behind catches up by either way.
    assert_eq!(apply(&place, &late, &second).code, Some(0));
    place.ok(&late, ["sync"]);
    assert_same_tree(&here, &late);

    server.stop();
    let file = place.path("offline.bundle");
    let printed = place.run(&here, ["bundle", "create", file.to_str().unwrap(), "--since", "2"]);
    assert_ne!(printed.code, Some(0), "{printed}");
    assert!(String::from_utf8_lossy(&printed.stderr).contains("'--since 3'"), "{printed}");
    place.ok(&here, ["bundle", "create", file.to_str().unwrap(), "--since", "3"]);
}

#[test]
fn what_was_changed_here_is_never_overwritten() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    let there = clone_of(&place, &bundle(&place, &here, "1.bundle"), "there");
    fs::write(here.join("text"), "theirs\n").unwrap();
    fs::write(here.join("new"), "theirs\n").unwrap();
    fs::remove_file(here.join("tool")).unwrap();
    place.ok(&here, ["sync"]);
    let file = bundle(&place, &here, "2.bundle");
    for name in ["text", "new", "tool"] {
        fs::write(there.join(name), format!("mine: {name}\n")).unwrap();
    }
    let applied = place.json(&there, ["bundle", "apply", file.to_str().unwrap()]);
    assert_eq!(applied["deferred"].as_array().unwrap().len(), 3, "{applied}");
    for name in ["text", "new", "tool"] {
        assert_eq!(fs::read_to_string(there.join(name)).unwrap(), format!("mine: {name}\n"));
    }
    for copy in [&there, &here, &there] {
        place.ok(copy, ["sync"]);
    }
    assert_same_tree(&here, &there);
    let all = snapshot(&there);
    for name in ["text", "new", "tool"] {
        let kept = all.keys().any(|path| {
            path.starts_with(name) && fs::read_to_string(there.join(path)).is_ok_and(|text| text.starts_with("mine"))
        });
        assert!(kept, "{name}: {all:?}");
    }
}

#[test]
fn a_bundle_made_with_entries_waiting_seeds_others_too() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    fs::write(here.join("text"), "not shipped yet\n").unwrap();
    fs::create_dir(here.join("new")).unwrap();
    fs::write(here.join("new/file"), "not shipped either\n").unwrap();
    fs::remove_file(here.join("tool")).unwrap();
    fs::rename(here.join("maps"), here.join("charts")).unwrap();
    let file = bundle(&place, &here, "mixed.bundle");
    // What waits is of whoever made the bundle: it is not brought to others' folders before the server has it.
    let there = clone_of(&place, &file, "there");
    assert!(!there.join("new").exists() && !there.join("charts").exists() && there.join("link").is_symlink());
    place.ok(&there, ["sync"]);
    assert_eq!(fs::read_to_string(there.join("text")).unwrap(), "a line\n");
    assert!(there.join("tool").exists() && there.join("maps/large").exists());
    assert_eq!(verdicts(&place, &there), Vec::<String>::new());
    for copy in [&here, &there] {
        place.ok(copy, ["sync"]);
    }
    assert_same_tree(&here, &there);
    assert!(verdicts(&place, &here).iter().all(|verdict| verdict == "shipped"));
}

#[test]
fn a_bundle_of_another_workspace_or_server_changes_nothing() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    let file = bundle(&place, &here, "main.bundle");
    let other = place.init(&server, "other", "other");
    fs::write(other.join("own"), "own").unwrap();
    place.ok(&other, ["sync"]);
    assert_refused(&place, &other, &file, "of workspace 'main'");
    let full = place.folder("full");
    fs::write(full.join("own"), "own").unwrap();
    assert_refused(&place, &full, &file, "not empty");

    // Another server has a workspace of the same name.
    let elsewhere = Server::start_with(&place, "elsewhere", |command| command);
    let copy = place.init(&elsewhere, "copy", "main");
    fs::write(copy.join("own"), "own").unwrap();
    place.ok(&copy, ["sync"]);
    let file = bundle(&place, &copy, "elsewhere.bundle");
    let before = place.json(&here, ["log", "--versions"]);
    let printed = place.run(&full, ["bundle", "apply", file.to_str().unwrap(), "--server", &server.url()]);
    assert_ne!(printed.code, Some(0), "{printed}");
    assert!(String::from_utf8_lossy(&printed.stderr).contains("another workspace"), "{printed}");
    assert_eq!(place.json(&here, ["log", "--versions"]), before);
}

#[test]
fn killed_at_any_point_applying_goes_on_and_so_does_a_sync() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    let first = bundle(&place, &here, "1.bundle");
    for number in 0..20 {
        fs::write(here.join(format!("file-{number}")), noise(number, 5_000)).unwrap();
    }
    fs::write(here.join("text"), "another line\n").unwrap();
    fs::remove_file(here.join("tool")).unwrap();
    place.ok(&here, ["sync"]);
    let second = bundle(&place, &here, "2.bundle");
    let points =
        ["bundle-checked", "staged", "intent", "exchange-0", "exchange-7", "exchanged", "appended", "bundle-batch"];
    for (index, point) in points.into_iter().enumerate() {
        for goes_on in ["bundle", "sync"] {
            for (file, name) in [(&second, "new"), (&second, "old")] {
                let copy = place.folder(&format!("{name}-{index}-{goes_on}"));
                if name == "old" {
                    assert_eq!(apply(&place, &copy, &first).code, Some(0));
                }
                let mut command = place.command(&copy);
                command.args(["bundle", "apply", file.to_str().unwrap()]).env("OPSHIP_FAILPOINT", point);
                assert_eq!(command.output().unwrap().status.code(), None, "{point} was not reached");
                if goes_on == "bundle" {
                    let again = apply(&place, &copy, file);
                    assert_eq!(again.code, Some(0), "{name}, {point}: {again}");
                    assert_same_tree(&here, &copy);
                }
                place.ok(&copy, ["sync"]);
                assert_same_tree(&here, &copy);
                assert_eq!(verdicts(&place, &copy), Vec::<String>::new(), "{name}, {point}, {goes_on}");
            }
        }
    }
}

/// A bundle that says that it is of `server`, with what another server's workspace of that name holds.
fn forged(place: &Place, server: &Server, versions: u64, tag: &str) -> PathBuf {
    let forger = Server::start_with(place, &format!("forger-{tag}"), |command| command);
    let copy = place.init(&forger, &format!("forged-{tag}"), "main");
    for version in 0..versions {
        fs::write(copy.join("text"), format!("forged {version}\n")).unwrap();
        fs::write(copy.join("planted"), format!("forged too {version}\n")).unwrap();
        place.ok(&copy, ["sync"]);
    }
    point(&copy, server.authority().parse().unwrap());
    bundle(place, &copy, &format!("forged-{tag}.bundle"))
}

#[test]
fn a_version_that_the_server_does_not_know_so_costs_nobody_a_byte() {
    for (versions, tag) in [(1, "other"), (5, "unknown")] {
        let place = Place::new();
        let server = Server::start(&place);
        let here = shipped(&place, &server);
        let file = forged(&place, &server, versions, tag);
        let there = clone_of(&place, &file, "there");
        fs::write(there.join("own"), "made here\n").unwrap();
        let report = place.json(&there, ["sync"]);
        assert!(report["pulled"]["notes"].to_string().contains(&format!("version {versions}")), "{report}");
        for copy in [&here, &there] {
            place.ok(copy, ["sync"]);
        }
        assert_same_tree(&here, &there);
        // The workspace's own state stays at its path, and what the bundle brought is beside it.
        assert_eq!(fs::read_to_string(there.join("text")).unwrap(), "a line\n");
        let texts: Vec<String> =
            snapshot(&there).keys().filter_map(|path| fs::read_to_string(there.join(path)).ok()).collect();
        for text in
            [format!("forged {}\n", versions - 1), format!("forged too {}\n", versions - 1), "made here\n".into()]
        {
            assert!(texts.contains(&text), "{text} is lost: {texts:?}");
        }
        // From here on it is a working copy like any other.
        assert_eq!(place.json(&there, ["sync"])["pulled"]["notes"].as_array().unwrap().len(), 0);
    }
}

#[test]
fn a_forged_version_over_a_true_one_takes_nothing_away() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    let there = clone_of(&place, &bundle(&place, &here, "1.bundle"), "there");
    place.ok(&there, ["sync"]);
    let file = forged(&place, &server, 3, "over");
    fs::write(there.join("tool"), "edited here\n").unwrap();
    assert_eq!(apply(&place, &there, &file).code, Some(0));
    for copy in [&there, &here, &there] {
        place.ok(copy, ["sync"]);
    }
    assert_same_tree(&here, &there);
    assert_eq!(fs::read(there.join("maps/large")).unwrap(), noise(1, 300_000));
    assert_eq!(fs::read_to_string(there.join("text")).unwrap(), "a line\n");
    assert_eq!(fs::read_to_string(there.join("tool")).unwrap(), "edited here\n");
}

#[test]
fn a_damaged_bundle_is_refused_before_anything_is_changed() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("file"), "a few bytes").unwrap();
    place.ok(&here, ["sync"]);
    fs::write(here.join("other"), "a few more").unwrap();
    let whole = fs::read(bundle(&place, &here, "whole.bundle")).unwrap();
    let (empty, file) = (place.folder("empty"), place.path("damaged.bundle"));
    let places = (0..whole.len()).step_by(whole.len() / 24);
    let flipped = places.clone().map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    });
    let cut = places.map(|at| whole[..at].to_vec());
    let longer = std::iter::once([&whole[..], b"x"].concat());
    for bytes in flipped.chain(cut).chain(longer) {
        fs::write(&file, bytes).unwrap();
        for server in [None, Some(server.url())] {
            let mut command = place.command(&empty);
            command.args(["bundle", "apply", file.to_str().unwrap()]);
            command.args(server.iter().flat_map(|url| ["--server", url]));
            let printed = Printed::from(command.output().unwrap());
            assert_eq!(printed.code, Some(125), "{printed}");
            assert!(String::from_utf8_lossy(&printed.stderr).contains("nothing was changed"), "{printed}");
        }
        assert!(fs::read_dir(&empty).unwrap().next().is_none());
    }
    assert_eq!(place.json(&here, ["log", "--versions"])["versions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_full_disk_is_told_and_nothing_is_changed() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    let file = bundle(&place, &here, "1.bundle");
    let Some(disk) = SmallDisk::mount(&place.folder("disk"), "400k") else { return };
    let printed = apply(&place, disk.path(), &file);
    assert_ne!(printed.code, Some(0), "{printed}");
    assert!(String::from_utf8_lossy(&printed.stderr).contains("free disk space"), "{printed}");
    assert!(fs::read_dir(disk.path()).unwrap().next().is_none());
    // There is no half a bundle either.
    let small = place.folder("small");
    let Some(disk) = SmallDisk::mount(&small, "100k") else { return };
    let printed = place.run(&here, ["bundle", "create", small.join("full.bundle").to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&printed.stderr).contains("free disk space"), "{printed}");
    assert!(fs::read_dir(disk.path()).unwrap().next().is_none());
}

#[test]
fn a_dry_run_says_what_would_be_and_makes_nothing() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = shipped(&place, &server);
    fs::write(here.join("text"), "not recorded\n").unwrap();
    let file = place.path("1.bundle");
    let said = place.json(&here, ["bundle", "create", file.to_str().unwrap(), "--dry-run"]);
    assert_eq!((said["version"].as_u64(), said["unrecorded"].as_u64()), (Some(1), Some(1)), "{said}");
    assert!(said["content_bytes"].as_u64().unwrap() > 300_000, "{said}");
    assert!(!file.exists());
    assert_eq!(place.json(&here, ["status"])["pending"].as_array().unwrap().len(), 0);
    for wrong in [here.join("inside.bundle"), here.join("maps/inside.bundle"), here.join("text")] {
        let printed = place.run(&here, ["bundle", "create", wrong.to_str().unwrap()]);
        assert_ne!(printed.code, Some(0), "{printed}");
    }
    place.ok(&here, ["bundle", "create", file.to_str().unwrap()]);
    let said = place.json(&place.folder("empty"), ["bundle", "apply", file.to_str().unwrap(), "--dry-run"]);
    assert_eq!((said["version"].as_u64(), said["done"].as_bool()), (Some(1), Some(false)), "{said}");
    assert!(fs::read_dir(place.path("empty")).unwrap().next().is_none());
}

#[test]
fn a_folder_with_more_files_than_go_at_once_is_renamed_by_disk() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::create_dir(here.join("before")).unwrap();
    for number in 0..1_200 {
        fs::write(here.join(format!("before/{number}")), format!("file {number}\n")).unwrap();
    }
    place.ok(&here, ["sync"]);
    let version = |copy: &Path| place.json(copy, ["status"])["version"].to_string();
    let first = version(&here);
    let there = clone_of(&place, &bundle(&place, &here, "1.bundle"), "there");
    fs::rename(here.join("before"), here.join("later")).unwrap();
    place.ok(&here, ["sync"]);
    let second = place.path("2.bundle");
    let made = place.json(&here, ["bundle", "create", second.to_str().unwrap(), "--since", &first]);
    assert_eq!(made["contents"].as_u64(), Some(0), "{made}");
    let applied = apply(&place, &there, &second);
    assert_eq!(applied.code, Some(0), "{applied}");
    assert_same_tree(&here, &there);
    assert_eq!(version(&here), version(&there));
}
