//! Chains of entries of which each needs the one before, with each link ending in each way; and a reply that is lost at every
//! step of a sync.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::Hash;
use opship_tests::{Cutter, Place, Server, assert_same_tree, first_parked, snapshot};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What becomes of a link: link K merges what link K-1 made and `inK` into `cK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// Nobody is in the way.
    Calm,
    /// Another changes `inK`.
    Input,
    /// Another makes `cK` first.
    Output,
    /// `cK` is written by hand instead.
    ByHand,
    /// A program of the user's own makes it, and one byte otherwise than the module.
    Native,
    /// It makes more than the server lets a replay make.
    Large,
    /// It makes a larger file than the workspace takes.
    Refused,
}

use Link::*;

const LINKS: [Link; 4] = [Calm, Input, Output, ByHand];

/// All chains of two and three links that end by what others do, and those of two to five in which one link is not calm.
fn chains() -> Vec<Vec<Link>> {
    let mut chains: Vec<Vec<Link>> = LINKS.iter().flat_map(|a| LINKS.iter().map(|b| vec![*a, *b])).collect();
    let longer = chains.iter().flat_map(|chain| LINKS.iter().map(|link| [&chain[..], &[*link]].concat()));
    let longer: Vec<Vec<Link>> = longer.collect();
    chains.extend(longer);
    for length in 2..=5 {
        let links: &[Link] =
            if length < 4 { &[Native, Large, Refused] } else { &[Input, Output, ByHand, Native, Large, Refused] };
        for (at, link) in (0..length).flat_map(|at| links.iter().map(move |link| (at, *link))) {
            let mut chain = vec![Calm; length];
            chain[at] = link;
            chains.push(chain);
        }
    }
    chains
}

/// How each link must end; `None` for one that is written by hand and so ends as a value.
fn expected(chain: &[Link]) -> Vec<Option<&'static str>> {
    let mut before = "matched";
    let ends = chain.iter().map(|link| {
        before = match (link, before) {
            (ByHand, _) => "by hand",
            (_, "conflicted" | "parked" | "rejected") => "parked",
            (Refused, _) => "rejected",
            (Output, _) => "conflicted",
            // What is merged with something that long is longer yet.
            (Large, _) | (Calm, "shipped") => "shipped",
            (Native, _) => "repaired",
            (Input, _) | (Calm, "rebased") => "rebased",
            (Calm, _) => "matched",
        };
        (before != "by hand").then_some(before)
    });
    ends.collect()
}

/// What the largest file that the workspace takes holds, in lines of a hash each.
const LARGEST_LINES: u64 = 18_500;

fn run_link(place: &Place, copy: &Path, chain: &str, number: usize, link: Link) -> String {
    let made = format!("{chain}/c{number}");
    let (before, input) = (format!("{chain}/c{}", number - 1), format!("{chain}/in{number}"));
    let arguments = ["--", "-o", &made, &before, &input];
    match link {
        ByHand => fs::write(copy.join(&made), format!("{made} by hand\n")).unwrap(),
        Native => drop(place.ok(copy, ["run", "--native", "tweak"].iter().chain(&arguments))),
        _ => drop(place.ok(copy, ["run", "sort"].iter().chain(&arguments))),
    }
    fs::read_to_string(copy.join(&made)).unwrap()
}

/// What a link is given beside what the one before it made.
fn input(chain: &str, number: usize, link: Link) -> String {
    let lines = |count: u64| (0..count).map(|n| format!("{}\n", Hash::of(&n.to_le_bytes()))).collect();
    match link {
        // So long that its difference is much shorter.
        Native => lines(100),
        Large => lines(17_000),
        // As large as the workspace takes, without what comes from before.
        Refused => lines(LARGEST_LINES),
        _ => format!("{chain} input {number}\n"),
    }
}

/// A program that sorts as the module does, and then writes one byte of its own.
fn configure_native(place: &Place) {
    let script = place.path("tweak.sh");
    let text = "#!/bin/sh\nsort \"$@\" && printf T | dd of=\"$2\" bs=1 seek=3 conv=notrunc 2> /dev/null\n";
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let mapping = format!("[native]\ntweak = {{ program = \"{}\", module = \"sort\" }}\n", script.display());
    fs::write(place.folder("home/config/opship").join("config.toml"), mapping).unwrap();
}

fn makes(command: &str, chain: &str, number: usize) -> bool {
    command.contains(&format!(" -o {chain}/c{number} "))
}

#[test]
fn each_link_of_a_chain_ends_in_each_way_and_nothing_is_lost() {
    let place = Place::new();
    let server = Server::start_with(&place, "data", |serve| serve.args(["--replay-output", "1"]));
    let here = place.init(&server, "here", "main");
    configure_native(&place);
    let chains: Vec<(String, Vec<Link>)> =
        chains().into_iter().enumerate().map(|(number, chain)| (format!("{number:03}"), chain)).collect();
    for (name, chain) in &chains {
        fs::create_dir(here.join(name)).unwrap();
        fs::write(here.join(name).join("c0"), format!("{name} start\n")).unwrap();
        for (number, link) in (1..).zip(chain) {
            fs::write(here.join(name).join(format!("in{number}")), input(name, number, *link)).unwrap();
        }
    }
    let largest = input("", 1, Refused).len();
    place.ok(&here, ["sync"]);
    place.ok(&here, ["admin", "workspace", "set", "main", &format!("largest-file={largest}")]);
    let there = place.there(&server);
    let mut recorded = Vec::new();
    for (name, chain) in &chains {
        for (number, link) in (1..).zip(chain) {
            match link {
                Input => fs::write(there.join(name).join(format!("in{number}")), "changed by another\n").unwrap(),
                Output => fs::write(there.join(name).join(format!("c{number}")), "made by another\n").unwrap(),
                Calm | ByHand | Native | Large | Refused => {}
            }
            recorded.push(run_link(&place, &here, name, number, *link));
        }
    }
    place.ok(&there, ["sync"]);
    assert_eq!(place.run(&here, ["sync"]).code, Some(1), "something is refused");

    let log = place.json(&here, ["log", "-n", "100000"]);
    let ends: BTreeMap<&str, &str> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let parked = entry["parked"] == true;
            (
                entry["command"].as_str().unwrap(),
                entry["verdict"].as_str().unwrap_or(if parked { "parked" } else { "pending" }),
            )
        })
        .collect();
    for (name, chain) in &chains {
        let found: Vec<Option<&str>> = (1..=chain.len())
            .map(|number| ends.iter().find(|(c, _)| makes(c, name, number)).map(|(_, end)| *end))
            .collect();
        assert_eq!(found, expected(chain), "{name}: {chain:?}");
    }
    while let Some(parked) = first_parked(&place, &here) {
        place.ok(&here, ["drop", &parked]);
    }
    place.run(&here, ["sync"]);
    place.ok(&here, ["admin", "workspace", "set", "main", "largest-file=none"]);
    let log = place.json(&here, ["log", "-n", "100000"]);
    for entry in log["entries"].as_array().unwrap().iter().filter(|entry| entry["verdict"] == "rejected") {
        place.run(&here, ["drop", &entry["number"].to_string()]);
    }
    for copy in [&here, &there, &here, &there] {
        place.ok(copy, ["sync"]);
    }
    assert_same_tree(&here, &there);
    let held: Vec<Hash> = snapshot(&here)
        .keys()
        .filter_map(|name| fs::read(here.join(name)).ok())
        .map(|bytes| Hash::of(&bytes))
        .collect();
    for text in recorded {
        let hash = Hash::of(text.as_bytes());
        let (status, _) = server.request("GET", &format!("/v1/workspaces/main/blobs/{hash}"), b"");
        assert!(held.contains(&hash) || status == 200, "lost: {text}");
    }
}

/// A chain that has a link of each verdict, in a workspace of its own; the client speaks through a relay.
fn scene(place: &Place, server: &Server, cutter: &Cutter, name: &str) -> (PathBuf, PathBuf) {
    let there = place.init(server, &format!("{name}-there"), name);
    for file in ["c0", "in1", "in2", "in3", "in4"] {
        fs::write(there.join(file), format!("{file}\n")).unwrap();
    }
    place.ok(&there, ["sync"]);
    let here = format!("{name}-here");
    let url = format!("http://{}/{name}", cutter.address());
    let cloned =
        place.command(&place.path("")).args(["clone", &url, &here]).env("OPSHIP_TOKEN", server.token()).output();
    assert!(cloned.unwrap().status.success());
    let here = place.path(here);
    for number in 1..=4 {
        let (made, before, input) = (format!("c{number}"), format!("c{}", number - 1), format!("in{number}"));
        place.ok(&here, ["run", "sort", "--", "-o", &made, &before, &input]);
    }
    fs::write(here.join("value"), "by hand\n").unwrap();
    fs::write(there.join("in2"), "changed\n").unwrap();
    fs::write(there.join("c3"), "theirs\n").unwrap();
    place.ok(&there, ["sync"]);
    (here, there)
}

/// What a workspace and its log came to, but for times.
fn outcome(place: &Place, server: &Server, here: &Path, workspace: &str) -> (Vec<String>, u64, Vec<String>) {
    let log = place.json(here, ["log"]);
    let mut ends: Vec<String> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| format!("{} {} {}", entry["kind"], entry["verdict"], entry["parked"]))
        .collect();
    ends.sort();
    let (_, head) = server.request("GET", &format!("/v1/workspaces/{workspace}"), b"");
    let head: serde_json::Value = serde_json::from_slice(&head).unwrap();
    let files = snapshot(here).into_keys().map(|name| {
        let text = fs::read_to_string(here.join(&name)).unwrap_or_default();
        let name = name.split(" (").next().unwrap().to_owned();
        format!("{name}: {text}")
    });
    (ends, head["head"]["number"].as_u64().unwrap(), files.collect())
}

#[test]
fn a_reply_that_is_lost_at_any_step_changes_nothing_of_the_outcome() {
    let place = Place::new();
    let server = Server::start(&place);
    let cutter = Cutter::start(server.authority().parse().unwrap());
    let sync = |copy: &Path| {
        place.command(copy).arg("sync").env("OPSHIP_TOKEN", server.token()).output().unwrap().status.success()
    };
    let settle = |here: &Path, there: &Path| {
        assert!(sync(here));
        place.ok(there, ["sync"]);
        assert!(sync(here));
    };
    let (here, there) = scene(&place, &server, &cutter, "calm");
    settle(&here, &there);
    let expected = outcome(&place, &server, &here, "calm");
    for verdict in ["matched", "shipped", "rebased", "conflicted", "null true"] {
        assert!(expected.0.iter().any(|end| end.contains(verdict)), "{expected:?}");
    }
    for step in 0.. {
        let name = format!("cut{step}");
        let (here, there) = scene(&place, &server, &cutter, &name);
        cutter.cut_after(step);
        let whole = sync(&here);
        if !cutter.has_cut() {
            assert!(whole && step > 5, "a sync of {step} replies");
            break;
        }
        cutter.cut_after(u64::MAX);
        settle(&here, &there);
        assert_eq!(outcome(&place, &server, &here, &name), expected, "the reply lost was number {step}");
    }
}
