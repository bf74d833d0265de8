//! Hostile modules, on a client and on a server that replays: each ends by a limit with its reason, nothing changes and
//! nothing is lost, and whoever else works beside them goes on.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::TreePath;
use opship_record::answer::{Answer, Reason, Status, Verdict};
use opship_tests::{Place, Server, assert_same_tree, claim, guest, snapshot, verdicts};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a hostile run must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// A limit of the operator's.
    Limit,
    /// The limit on time.
    Time,
    /// It traps or fails by itself, by a limit that every world has.
    Fault,
}

/// A command of the hostile guest, how it ends, and what a person is told.
type Case = (&'static [&'static str], End, &'static str);

const CASES: [Case; 17] = [
    (&["loop"], End::Time, "longer than it may"),
    (&["recurse"], End::Fault, "a fault in the module"),
    (&["grow"], End::Limit, "bytes of memory"),
    (&["output"], End::Limit, "bytes of output"),
    (&["errors"], End::Limit, "bytes of output"),
    (&["own-output", "own"], End::Limit, "bytes of output"),
    (&["files"], End::Limit, "files, directories and links"),
    (&["sparse"], End::Limit, "bytes of output"),
    (&["far-byte"], End::Limit, "bytes of output"),
    (&["large-files"], End::Limit, "more than"),
    (&["names"], End::Limit, "files, names and listings"),
    (&["links"], End::Limit, "files, names and listings"),
    (&["targets"], End::Limit, "more than"),
    (&["listings"], End::Limit, "files, names and listings"),
    (&["maze"], End::Time, "longer than it may"),
    (&["random"], End::Time, "longer than it may"),
    (&["deep"], End::Fault, "cannot be recorded"),
];

/// What returns, or all but returns, and leaves more work to the world than the limit on time allows: with room for all that
/// they write, hashing the first takes minutes, and the second's copies have 24 GiB.
const LEFT_TO_THE_WORLD: [Case; 3] = [
    (&["sparse"], End::Time, "longer than it may"),
    (&["copies", "1500"], End::Time, "longer than it may"),
    (&["first-write", "large"], End::Time, "longer than it may"),
];
/// More MiB than that takes.
const WIDE: &str = "2000000";

/// Gives the tree a file of 32 MiB, without blocks on disk, to write into.
fn add_large(place: &Place, copy: &Path) {
    fs::File::create(copy.join("large")).unwrap().set_len(32 << 20).unwrap();
    place.ok(copy, ["sync"]);
}

/// Low enough for a test, and each high enough that it is the one that a case meets. Long replays have the lowest priority,
/// so the time that those with another limit have is for machines that are busy.
fn server_limits(command: &mut Command, seconds: u32) -> &mut Command {
    let limits = [
        ("--replay-limit", seconds),
        ("--replay-memory", 128),
        ("--replay-memory-all", 512),
        ("--replay-output", 16),
        ("--replay-files", 30_000),
        ("--replay-files-memory", 24),
    ];
    limits.iter().fold(command, |command, (option, value)| command.arg(option).arg(value.to_string()))
}

/// A small operation, from the run to its verdict.
fn works(place: &Place, copy: &Path, number: usize) {
    fs::write(copy.join("in"), format!("b {number}\na\n")).unwrap();
    place.ok(copy, ["run", "sort", "--", "-o", "sorted", "in"]);
    assert_eq!(place.json(copy, ["sync"])["waiting"], 0);
    assert_eq!(fs::read_to_string(copy.join("sorted")).unwrap(), format!("a\nb {number}\n"));
    let log = place.json(copy, ["log", "-n", "1"]);
    assert_eq!(log["entries"][0]["verdict"], "matched", "{log}");
}

#[test]
fn a_server_ends_hostile_replays_by_their_limits_and_works_on_beside_them() {
    let cases: Vec<Case> = CASES.into_iter().filter(|case| case.1 != End::Time).collect();
    replays_end(&cases, |command| server_limits(command, 240));
}

#[test]
fn a_server_ends_endless_replays_in_time_and_works_on_beside_them() {
    let cases: Vec<Case> = CASES.into_iter().filter(|case| case.1 == End::Time).collect();
    replays_end(&cases, |command| server_limits(command, 5));
}

#[test]
fn a_server_ends_in_time_also_what_the_world_does_for_a_module_and_works_on_beside_it() {
    replays_end(&LEFT_TO_THE_WORLD, |command| command.args(["--replay-limit", "2", "--replay-output", WIDE]));
}

fn replays_end(cases: &[Case], limit: fn(&mut Command) -> &mut Command) {
    let place = Place::new();
    let server = Server::start_with(&place, "data", limit);
    let here = place.init(&server, "here", "main");
    add_large(&place, &here);
    works(&place, &here, 0);
    let module = server.upload("main", &fs::read(guest("hostile")).unwrap());
    let head = server.request("GET", "/v1/workspaces/main", b"").1;

    let ended = AtomicBool::new(false);
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let other = place.init(&server, "other", "other");
            let mut number = 0;
            while !ended.load(Ordering::Relaxed) || number == 0 {
                number += 1;
                works(&place, &other, number);
                assert_eq!(server.request("GET", "/healthz", b"").0, 200);
            }
        });
        let ship = |number: usize, command: &'static [&'static str]| {
            let out = (command[0] == "own-output").then(|| TreePath::new("own").unwrap());
            let entry = claim(
                100 + number as u8,
                module,
                |step| opship_record::plan::Step { stdout: out, ..step },
                command,
                vec![],
            );
            let server = &server;
            scope.spawn(move || server.ship("main", &entry))
        };
        let shipped: Vec<_> = cases.iter().enumerate().map(|(number, case)| ship(number, case.0)).collect();
        let answers = shipped.into_iter().map(|answer| answer.join().unwrap()).collect();
        ended.store(true, Ordering::Relaxed);
        beside.join().unwrap();
        answers
    });
    for ((command, end, told), answer) in cases.iter().zip(&answers) {
        let detail = answer.detail.clone().unwrap_or_default();
        // What was claimed, that nothing was done, is taken as the client's value.
        assert_eq!((answer.status, answer.verdict), (Status::Ended, Some(Verdict::Shipped)), "{command:?}: {answer:?}");
        let reason = match end {
            End::Limit => Reason::Limit,
            End::Time => Reason::ReplaySlow,
            End::Fault => Reason::OutcomeChanged,
        };
        assert_eq!(answer.reason, Some(reason), "{command:?}: {detail}");
        assert!(detail.contains(told), "{command:?}: {detail}");
    }
    // Each made an entry and a version of the tree that was there before.
    let after = server.request("GET", "/v1/workspaces/main", b"").1;
    let root = |head: &[u8]| serde_json::from_slice::<serde_json::Value>(head).unwrap()["head"]["root"].clone();
    assert_eq!(root(&head), root(&after));
    works(&place, &here, 1);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
    assert_eq!(fs::read_dir(server.data().join("staging")).unwrap().count(), 0, "what replays spilled is gone");
}

#[test]
fn a_client_ends_each_hostile_run_with_its_reason_and_changes_nothing() {
    let limits = [
        "--time-limit",
        "20",
        "--memory-limit",
        "128",
        "--output-limit",
        "16",
        "--files-limit",
        "30000",
        "--files-memory-limit",
        "24",
    ];
    runs_end(&CASES, &limits);
}

#[test]
fn a_client_ends_in_time_also_what_the_world_does_for_a_module_and_changes_nothing() {
    runs_end(&LEFT_TO_THE_WORLD, &["--time-limit", "2", "--output-limit", WIDE]);
}

fn runs_end(cases: &[Case], limits: &[&str]) {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "kept\n").unwrap();
    add_large(&place, &here);
    let before = snapshot(&here);
    let entries = verdicts(&place, &here);
    let module = guest("hostile");
    for (command, _, told) in cases {
        let mut arguments = vec!["run"];
        arguments.extend(limits);
        if command[0] == "own-output" {
            arguments.extend(["-o", "own"]);
        }
        arguments.extend([module.to_str().unwrap(), "--"]);
        arguments.extend(*command);
        let printed = place.run(&here, &arguments);
        assert_eq!(printed.code, Some(125), "{command:?}: {printed}");
        let said = String::from_utf8_lossy(&printed.stderr).into_owned();
        assert!(said.contains(told), "{command:?}: {said}");
        assert_eq!(snapshot(&here), before, "{command:?}");
    }
    assert_eq!(verdicts(&place, &here), entries, "none was recorded");
    let left: Vec<_> = fs::read_dir(here.join(".opship/staging")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn sleeping_for_centuries_takes_no_time_and_is_the_same_on_both_sides() {
    let place = Place::new();
    let server = Server::start_with(&place, "data", |command| server_limits(command, 60));
    let here = place.init(&server, "here", "main");
    place.ok(&here, ["run", "--time-limit", "30", "-o", "slept", guest("hostile").to_str().unwrap(), "--", "sleep"]);
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here), ["matched"]);
}

#[test]
fn a_module_that_turns_hostile_on_the_servers_tree_loses_nothing() {
    let place = Place::new();
    let server = Server::start_with(&place, "data", |command| server_limits(command, 60));
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "kept\n").unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    let there = place.path("there");
    fs::write(there.join("trigger"), "").unwrap();
    place.ok(&there, ["sync"]);
    let module = guest("hostile");
    place.ok(&here, ["run", "-o", "out", module.to_str().unwrap(), "--", "if", "trigger", "files"]);
    let report = place.json(&here, ["sync"]);
    let operation = report["entries"].as_array().unwrap().iter().find(|entry| entry["kind"] == "operation").unwrap();
    // It saw that there was no trigger, which is no longer so: both results are kept.
    assert_eq!(operation["verdict"], "conflicted", "{report}");
    assert_eq!(fs::read_to_string(here.join("a")).unwrap(), "kept\n");
    works(&place, &there, 1);
    place.ok(&here, ["sync"]);
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    assert_same_tree(&here, &there);
}

/// A module that keeps the compiler busy: one function in which many variables live across many blocks.
fn compile_bomb(variables: u32, blocks: u32) -> Vec<u8> {
    let number = |mut value: u32, to: &mut Vec<u8>| loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        to.push(if value > 0 { byte | 0x80 } else { byte });
        if value == 0 {
            break;
        }
    };
    let mut body = Vec::new();
    // Locals of type i64.
    number(1, &mut body);
    number(variables, &mut body);
    body.push(0x7e);
    for block in 0..blocks {
        let (from, to) = (block.wrapping_mul(7919) % variables, block.wrapping_mul(104_729) % variables);
        // block; local.get; i32.wrap_i64; br_if 0; local.get; local.get; i64.mul; local.set; end
        body.extend([0x02, 0x40, 0x20]);
        number(from, &mut body);
        body.extend([0xa7, 0x0d, 0x00, 0x20]);
        number(to, &mut body);
        body.push(0x20);
        number(from, &mut body);
        body.extend([0x7e, 0x21]);
        number(block % variables, &mut body);
        body.push(0x0b);
    }
    body.push(0x0b);
    let section = |id: u8, content: &[u8]| {
        let mut section = vec![id];
        number(u32::try_from(content.len()).unwrap(), &mut section);
        section.extend(content);
        section
    };
    let mut code = vec![1];
    number(u32::try_from(body.len()).unwrap(), &mut code);
    code.extend(body);
    let export = [&[1, 6][..], b"_start", &[0, 0]].concat();
    let sections =
        [section(1, &[1, 0x60, 0, 0]), section(3, &[1, 0]), section(7, &export), section(10, &code)].concat();
    [b"\0asm\x01\0\0\0", &sections[..]].concat()
}

#[test]
fn a_compile_bomb_is_refused_within_its_limit_and_others_go_on() {
    let place = Place::new();
    let limits = ["--admin-compile-limit", "8", "--admin-compile-memory", "2048"];
    let server = Server::start_with(&place, "data", |command| command.args(limits));
    let here = place.init(&server, "here", "main");
    works(&place, &here, 0);
    let bombs: Vec<_> = (0..3).map(|n| server.upload("main", &compile_bomb(40_000 + n, 100_000))).collect();
    let fresh = guest("treeprobe");

    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ship = |client: u8, bomb| {
            let server = &server;
            scope.spawn(move || server.ship("main", &claim(client, bomb, |step| step, &[], Vec::new())))
        };
        let shipped: Vec<_> = bombs.iter().zip(1..).map(|(bomb, client)| ship(client, *bomb)).collect();
        let beside = scope.spawn(|| {
            // Another module is compiled meanwhile, and those that are known are run.
            let other = place.init(&server, "other", "other");
            place.ok(&other, ["run", fresh.to_str().unwrap(), "--", "write", "made", "text"]);
            place.ok(&other, ["sync"]);
            assert_eq!(verdicts(&place, &other), ["matched"]);
            let was_beside = !ended.load(Ordering::Relaxed);
            (1..4).for_each(|number| works(&place, &other, number));
            was_beside
        });
        let answers: Vec<_> = shipped.into_iter().map(|answer| answer.join().unwrap()).collect();
        ended.store(true, Ordering::Relaxed);
        for answer in answers {
            assert_eq!(answer.reason, Some(Reason::ModuleRefused), "{answer:?}");
            assert!(answer.detail.as_ref().unwrap().contains("compiling the module needs more than"), "{answer:?}");
        }
        assert!(beside.join().unwrap(), "another module waited for all the bombs");
    });
    // The refusal is remembered: the same words again.
    let again = server.ship("main", &claim(9, bombs[0], |step| step, &[], Vec::new()));
    assert_eq!(again.reason, Some(Reason::ModuleRefused));
    works(&place, &here, 4);
}
