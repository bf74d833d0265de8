//! Trees that a hostile server, or a hostile person through an honest one, would have a client make: nothing outside of the
//! working copy is touched, nothing is run, and what is odd is told.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::Hash;
use opship_record::node::Node;
use opship_tests::{Lies, Place, Printed, Server, assert_same_tree, snapshot};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Clones what a lying server serves, in a place where `outside/target` must stay as it is.
fn clone(lies: impl FnOnce(&Place, &mut Lies)) -> (Place, Printed) {
    let place = Place::new();
    fs::create_dir_all(place.path("outside")).unwrap();
    fs::write(place.path("outside/target"), "untouched").unwrap();
    let mut served = Lies::default();
    lies(&place, &mut served);
    let address = served.serve();
    let mut command = place.command(&place.path(""));
    command.args(["--json", "clone", &format!("http://{address}/main"), "copy"]).env("OPSHIP_TOKEN", "any");
    let printed = Printed::from(command.output().unwrap());
    let outside = snapshot(&place.path("outside"));
    assert_eq!(outside.keys().collect::<Vec<_>>(), ["target"], "{printed}");
    assert_eq!(fs::read_to_string(place.path("outside/target")).unwrap(), "untouched");
    (place, printed)
}

fn link(target: &str) -> Node {
    Node::Symlink { mtime: 1, target: target.as_bytes().to_vec() }
}

#[test]
fn a_link_and_a_path_below_it_lead_nowhere_and_are_told() {
    for target in ["../outside", "outside-absolute", "."] {
        let (place, printed) = clone(|place, lies| {
            let absolute = place.path("outside");
            let target = if target == "outside-absolute" { absolute.to_str().unwrap() } else { target };
            lies.file("honest", 0o644, b"text");
            lies.claim("link", Some(&link(target)));
            lies.file("link/planted", 0o644, b"evil").file("link/target", 0o644, b"evil");
        });
        assert_eq!(printed.code, Some(0), "{printed}");
        let copy = place.path("copy");
        assert_eq!(snapshot(&copy).keys().collect::<Vec<_>>(), ["honest", "link"]);
        let status = place.json(&copy, ["status"]);
        let left: Vec<_> = status["deferred"].as_array().unwrap().iter().map(|d| d["path"].clone()).collect();
        assert_eq!(left, ["link/planted", "link/target"], "{status}");
    }
}

#[test]
fn a_file_and_a_path_below_it_lead_nowhere_and_are_told() {
    let (place, printed) = clone(|_, lies| {
        lies.file("file", 0o644, b"text").file("file/below", 0o644, b"evil").file("lone/below", 0o644, b"evil");
    });
    assert_eq!(printed.code, Some(0), "{printed}");
    let copy = place.path("copy");
    assert_eq!(snapshot(&copy).keys().collect::<Vec<_>>(), ["file"]);
    assert_eq!(place.json(&copy, ["status"])["deferred"].as_array().unwrap().len(), 2);
}

#[test]
fn what_no_tree_may_hold_is_refused_whole() {
    let paths =
        ["/etc/planted", "../outside/target", "a/../../outside/target", ".opship/config.toml", ".OPSHIP/state.db"];
    let more = ["a/.opſhip/x", "a//b", "nul\0byte"];
    for path in paths.into_iter().chain(more) {
        let (place, printed) = clone(|_, lies| {
            lies.file(path, 0o644, b"evil");
        });
        assert_eq!(printed.code, Some(125), "{path}: {printed}");
        assert!(String::from_utf8_lossy(&printed.stderr).contains("error"), "{path}: {printed}");
        assert!(snapshot(&place.path("copy")).is_empty(), "{path}");
    }
    // A length that nobody can have.
    let (place, printed) = clone(|_, lies| {
        let huge = |text: &str| Node::File { mode: 0o644, mtime: 1, length: u64::MAX, hash: Hash::of(text.as_bytes()) };
        lies.claim("a", Some(&huge("a"))).claim("b", Some(&huge("b"))).claim("c", Some(&huge("c")));
    });
    assert_eq!(printed.code, Some(125), "{printed}");
    assert!(snapshot(&place.path("copy")).is_empty());
    // Bits that would lend the rights of whoever syncs.
    for mode in [0o4755, 0o2755, 0o1777, 0o7777] {
        let (place, printed) = clone(|_, lies| {
            lies.file("tool", mode, b"evil");
        });
        assert_eq!(printed.code, Some(125), "{mode:o}: {printed}");
        assert!(snapshot(&place.path("copy")).is_empty(), "{mode:o}");
    }
}

#[test]
fn names_that_other_systems_cannot_hold_come_here_and_are_told() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let names = ["CON", "aux.txt", "d/Makefile", "d/makefile", "caf\u{e9}", "cafe\u{301}", "plain"];
    fs::create_dir(here.join("d")).unwrap();
    names.iter().for_each(|name| fs::write(here.join(name), name).unwrap());
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["init", "--server", &server.url(), "--workspace", "main", "there"]);
    let there = place.path("there");
    let report = place.json(&there, ["sync"]);
    assert_same_tree(&here, &there);
    let told: Vec<&str> =
        report["pulled"]["names"].as_array().unwrap().iter().map(|name| name[0].as_str().unwrap()).collect();
    let mut expected: Vec<&str> = names.iter().copied().filter(|name| *name != "plain").collect();
    expected.sort_by_key(|name| (name.contains('/'), *name));
    assert_eq!(told, expected, "{report}");
}

#[test]
fn nothing_that_comes_is_run_or_obeyed() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::create_dir(place.path("outside")).unwrap();
    let mark = place.path("outside/mark");
    let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
    let toml = format!(
        "[run]\ngzip = \"{0}\"\nprogram = \"{0}\"\nserver = \"http://127.0.0.1:1\"\n",
        place.path("there/evil.sh").display()
    );
    for name in ["opship.toml", ".opship.toml", "config.toml", "modules.json"] {
        fs::write(here.join(name), &toml).unwrap();
    }
    for name in ["evil.sh", "gzip", "gzip.wasm", "opship", "post-sync"] {
        fs::write(here.join(name), &script).unwrap();
        fs::set_permissions(here.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(here.join("data"), "text").unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    let there = place.path("there");
    fs::write(here.join("opship.toml"), format!("{toml}# again\n")).unwrap();
    place.ok(&here, ["sync"]);
    let told = place.json(&there, ["sync"])["pulled"]["names"].clone();
    assert_eq!(told[0][0], "opship.toml", "{told}");
    assert!(told[0][1].as_str().unwrap().contains("nothing of it is run"), "{told}");
    for arguments in
        [&["status"][..], &["run", "gzip", "--", "-k", "data"], &["sync"], &["log"], &["diff"], &["module", "list"]]
    {
        place.ok(&there, arguments);
    }
    assert!(there.join("data.gz").exists());
    assert!(!mark.exists(), "something that came was run");
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &there);
}
