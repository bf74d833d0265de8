//! Work without the server: edits, removals and runs between syncs that fail; in the end everything is shipped.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, assert_same_tree, verdicts};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::path::Path;

#[derive(Debug, Clone)]
enum Step {
    /// Writes a file in place.
    Write {
        name: &'static str,
        text: u8,
        large: bool,
    },
    Remove(&'static str),
    /// A file gives way to a folder with a file in it.
    BecomeFolder(&'static str),
    Sort {
        from: &'static str,
        to: &'static str,
    },
    /// Depends on the folder's listing and on all in it.
    Archive,
    /// Ends before anything large is shipped; what is small was sent, and no answer came.
    FailedSync,
    Sync,
}

const NAMES: [&str; 4] = ["a", "b", "d/a", "d/b"];

fn step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(&NAMES[..]);
    prop_oneof![
        6 => (name(), 0u8..5, prop::bool::weighted(0.4)).prop_map(|(name, text, large)| Step::Write { name, text, large }),
        3 => name().prop_map(Step::Remove),
        1 => name().prop_map(Step::BecomeFolder),
        3 => (name(), prop::sample::select(&["sorted", "b"][..])).prop_map(|(from, to)| Step::Sort { from, to }),
        1 => Just(Step::Archive),
        5 => Just(Step::FailedSync),
        1 => Just(Step::Sync),
    ]
}

fn remove(path: &Path) {
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        let _ = fs::remove_file(path);
    }
}

fn text(of: u8, large: bool) -> String {
    // Large: more than travels inside a request, and not to be compressed to less.
    let lines = if large { 4000u64 } else { 3 };
    (0..lines).map(|n| format!("{:x}\n", (n + u64::from(of) * lines).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

fn carry_out(place: &Place, here: &Path, step: &Step) {
    match step {
        Step::Write { name, text: of, large } => {
            let path = here.join(name);
            if path.is_dir() {
                remove(&path);
            }
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text(*of, *large)).unwrap();
        }
        Step::Remove(name) => remove(&here.join(name)),
        Step::BecomeFolder(name) => {
            remove(&here.join(name));
            fs::create_dir_all(here.join(name)).unwrap();
            fs::write(here.join(name).join("x"), "in a folder\n").unwrap();
        }
        Step::Sort { from, to } => {
            if here.join(from).is_file() && !here.join(to).is_dir() {
                place.ok(here, ["run", "sort", "--", "-o", to, from]);
            }
        }
        Step::Archive => {
            if here.join("d").is_dir() {
                place.ok(here, ["run", "tar", "--", "-cf", "d.tar", "d"]);
            }
        }
        Step::FailedSync => {
            let printed = place.command(here).arg("sync").env("OPSHIP_TOKEN", "wrong").output().unwrap();
            assert_eq!(printed.status.code(), Some(125));
        }
        Step::Sync => assert_eq!(place.json(here, ["sync"])["waiting"], 0),
    }
}

fn ends_in_sync(place: &Place, server: &Server, name: &str, steps: &[Step]) {
    let here = place.init(server, name, name);
    steps.iter().for_each(|step| carry_out(place, &here, step));
    let report = place.json(&here, ["sync"]);
    assert_eq!(report["waiting"], 0, "{report:#}");
    let verdicts = verdicts(place, &here);
    assert!(verdicts.iter().all(|verdict| verdict == "matched" || verdict == "shipped"), "{verdicts:?}");
    let copy = format!("{name}-copy");
    place.ok(&place.path(""), ["clone", &format!("{}/{name}", server.url()), &copy]);
    assert_same_tree(&here, &place.path(&copy));
}

#[test]
fn whatever_was_done_without_the_server_is_shipped_in_the_end() {
    let place = Place::new();
    let server = Server::start(&place);
    let count = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let result = runner.run(&vec(step(), 2..14), |steps| {
        count.set(count.get() + 1);
        ends_in_sync(&place, &server, &format!("case-{}", count.get()), &steps);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_an_operation_waits_for_goes_also_when_another_file_of_it_is_gone() {
    let place = Place::new();
    let server = Server::start(&place);
    let write = |name, text| Step::Write { name, text, large: true };
    let steps = [
        write("a", 1),
        write("d/a", 2),
        Step::FailedSync,
        Step::Sort { from: "a", to: "sorted" },
        Step::Remove("d/a"),
        Step::FailedSync,
        Step::Write { name: "d/b", text: 2, large: false },
    ];
    ends_in_sync(&place, &server, "main", &steps);
}

#[test]
fn an_entry_whose_answer_was_lost_goes_again_as_it_was_although_its_file_changed() {
    for point in ["server-received", "server-committed"] {
        let place = Place::new();
        let server = Server::start(&place);
        let here = place.init(&server, "here", "main");
        let address = server.authority();
        assert!(server.stop().success());
        let again = |point: &str| {
            Server::start_with(&place, "data", |command| {
                command.args(["--listen", &address]).env("OPSHIP_FAILPOINT", point)
            })
        };
        let mut server = again(point);
        fs::write(here.join("file"), text(1, true)).unwrap();
        let cut = place.run(&here, ["sync"]);
        assert_eq!(cut.code, Some(125), "{cut}");
        assert_eq!(server.wait().code(), None, "the server was not killed at {point}");
        fs::write(here.join("file"), text(2, true)).unwrap();
        let server = again("");
        assert_eq!(place.json(&here, ["sync"])["waiting"], 0, "{point}");
        assert_eq!(verdicts(&place, &here), ["shipped", "shipped"], "{point}");
        place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
        assert_same_tree(&here, &place.path("there"));
    }
}

#[test]
fn outputs_that_were_overwritten_before_the_server_asked_for_them_stop_nothing_else() {
    let place = Place::new();
    let server = Server::start_with(&place, "data", |command| command.arg("--no-replay"));
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "2\n1\n").unwrap();
    place.ok(&here, ["run", "sort", "--", "-o", "sorted", "a"]);
    fs::write(here.join("sorted"), "written over\n").unwrap();
    fs::write(here.join("other"), "goes on\n").unwrap();
    let report = place.json(&here, ["sync"]);
    assert_eq!(report["waiting"], 0, "{report:#}");
    assert_eq!(fs::read_to_string(here.join("sorted")).unwrap(), "written over\n");
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}
