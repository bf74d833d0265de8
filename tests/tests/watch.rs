//! `opship watch`: real processes, edits that arrive, servers that go and come back, commands beside it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{Place, Server, Watch, assert_same_tree, eventually, snapshot};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

struct Two {
    place: Place,
    server: Server,
    here: PathBuf,
    there: PathBuf,
}

/// Two working copies of one workspace.
fn two() -> Two {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let there = place.there(&server);
    Two { place, server, here, there }
}

impl Two {
    fn watch(&self, folder: &Path) -> Watch {
        Watch::start(&self.place, folder)
    }

    fn watch_state(&self, folder: &Path) -> Value {
        self.place.json(folder, ["status"])["watch"].clone()
    }
}

/// Waits until both folders hold the same, and something besides.
fn same(a: &Path, b: &Path, holds: impl Fn(&Path) -> bool) {
    eventually(|| (holds(a) && holds(b) && snapshot(a) == snapshot(b)).then_some(()));
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn whatever_is_done_to_files_arrives_at_the_other_client() {
    let two = two();
    let (_a, _b) = (two.watch(&two.here), two.watch(&two.there));
    fs::write(two.here.join("f"), "one").unwrap();
    fs::create_dir_all(two.here.join("d/e")).unwrap();
    same(&two.here, &two.there, |at| text(&at.join("f")) == "one" && at.join("d/e").is_dir());
    fs::write(two.there.join("f"), "two").unwrap();
    fs::write(two.there.join("d/e/deep"), "deep").unwrap();
    same(&two.here, &two.there, |at| text(&at.join("f")) == "two" && text(&at.join("d/e/deep")) == "deep");
    fs::rename(two.here.join("d"), two.here.join("renamed")).unwrap();
    fs::remove_file(two.here.join("f")).unwrap();
    same(&two.here, &two.there, |at| text(&at.join("renamed/e/deep")) == "deep" && !at.join("f").exists());
    // In a folder that is new, and moved while it is.
    fs::write(two.there.join("renamed/e/more"), "more").unwrap();
    same(&two.here, &two.there, |at| text(&at.join("renamed/e/more")) == "more");
}

#[test]
fn a_burst_of_a_thousand_files_arrives_in_a_few_versions() {
    let two = two();
    let (_a, _b) = (two.watch(&two.here), two.watch(&two.there));
    for n in 0..1000 {
        let folder = two.here.join(format!("d{}", n % 10));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("f{n}")), format!("text {n}")).unwrap();
    }
    same(&two.here, &two.there, |at| snapshot(at).len() == 1010);
    let version = two.place.json(&two.there, ["status"])["version"].as_u64().unwrap();
    assert!(version < 50, "{version} versions");
    for n in 0..10 {
        fs::remove_dir_all(two.there.join(format!("d{n}"))).unwrap();
    }
    same(&two.here, &two.there, |at| snapshot(at).is_empty());
}

#[test]
fn ignore_rules_count_as_soon_as_they_are_written() {
    let two = two();
    let (_a, _b) = (two.watch(&two.here), two.watch(&two.there));
    fs::write(two.here.join(".opshipignore"), "*.tmp\n").unwrap();
    same(&two.here, &two.there, |at| at.join(".opshipignore").exists());
    fs::write(two.here.join("x.tmp"), "ignored").unwrap();
    fs::write(two.here.join("x"), "seen").unwrap();
    eventually(|| two.there.join("x").exists().then_some(()));
    assert!(!two.there.join("x.tmp").exists());
    fs::write(two.here.join(".opshipignore"), "# nothing\n").unwrap();
    same(&two.here, &two.there, |at| text(&at.join("x.tmp")) == "ignored");
}

#[test]
fn an_operation_without_effects_on_files_is_shipped_too() {
    let two = two();
    fs::write(two.here.join("f"), "b\na\n").unwrap();
    let mut watch = two.watch(&two.here);
    eventually(|| two.place.json(&two.here, ["status"])["changes"].as_array().unwrap().is_empty().then_some(()));
    two.place.ok(&two.here, ["run", "sort", "--", "f"]);
    eventually(|| {
        let log = two.place.json(&two.here, ["log"]);
        (log["entries"][0]["verdict"] == "matched" && log["entries"][0]["kind"] == "operation").then_some(())
    });
    watch.until("synced");
}

#[test]
fn a_server_that_goes_and_comes_back_costs_nothing_but_time() {
    let two = two();
    let (mut here, mut there) = (two.watch(&two.here), two.watch(&two.there));
    fs::write(two.here.join("before"), "b").unwrap();
    same(&two.here, &two.there, |at| at.join("before").exists());
    let Two { place, server, here: a, there: b } = two;
    let authority = server.authority();
    server.signal(Signal::KILL);
    drop(server);
    here.until("offline");
    there.until("offline");
    fs::write(a.join("meanwhile"), "m").unwrap();
    fs::write(b.join("there too"), "t").unwrap();
    let state = eventually(|| {
        let state = place.json(&a, ["status"])["watch"]["state"].clone();
        let told = state["detail"].as_str().is_some_and(|detail| detail.contains("cannot reach"));
        (state["mode"] == "offline" && told).then_some(state)
    });
    assert!(state["offline_seconds"].is_u64() && state["next_try_seconds"].is_u64(), "{state}");
    let again = Server::start_with(&place, "data", |command| command.env("OPSHIP_LISTEN", &authority));
    here.until("online");
    there.until("online");
    same(&a, &b, |at| at.join("meanwhile").exists() && at.join("there too").exists());
    drop(again);
}

#[test]
fn signals_end_it_cleanly_and_a_killed_one_leaves_nothing_in_the_way() {
    let two = two();
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let mut watch = two.watch(&two.here);
        fs::write(two.here.join("f"), format!("{signal:?}")).unwrap();
        watch.signal(signal);
        let status = watch.ended();
        if signal != Signal::KILL {
            assert_eq!(status.code(), Some(0));
            eventually(|| (watch.events().last()?["event"] == "stopped").then_some(()));
            assert!(!two.here.join(".opship/watch.sock").exists());
        }
        assert_eq!(two.watch_state(&two.here)["running"], false);
        two.place.ok(&two.here, ["sync"]);
        two.place.ok(&two.there, ["sync"]);
        assert_same_tree(&two.here, &two.there);
    }
    // The socket that the killed one left is in nobody's way.
    let watch = two.watch(&two.here);
    assert_eq!(two.watch_state(&two.here)["state"]["process"], watch.process());
}

#[test]
fn a_sync_by_hand_is_done_by_the_watch_and_shows_its_result() {
    let two = two();
    let mut watch = two.watch(&two.here);
    two.place.ok(&two.here, ["pause"]);
    watch.until("paused");
    fs::write(two.here.join("f"), "text").unwrap();
    let report = two.place.json(&two.here, ["sync"]);
    assert_eq!(report["entries"][0]["verdict"], "shipped", "{report}");
    assert_eq!(report["waiting"], 0);
    assert_eq!(watch.until("synced")["entries"], report["entries"]);
    let shown = two.place.run(&two.here, ["sync"]);
    assert!(String::from_utf8_lossy(&shown.stderr).contains("paused"), "{shown}");
    // Without a server it fails as any sync does.
    let Two { place, server, here, .. } = two;
    server.stop();
    let failed = place.run(&here, ["sync"]);
    assert_eq!(failed.code, Some(125), "{failed}");
    assert!(String::from_utf8_lossy(&failed.stderr).contains("cannot reach"), "{failed}");
}

#[test]
fn a_sync_whose_watch_dies_does_the_work_itself() {
    let two = two();
    let mut watch = two.watch(&two.here);
    two.place.ok(&two.here, ["pause"]);
    watch.until("paused");
    fs::write(two.here.join("f"), "text").unwrap();
    // It takes the connection and says nothing.
    watch.signal(Signal::STOP);
    let mut sync = two.place.command(&two.here);
    let sync = sync.args(["--json", "sync"]).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    watch.signal(Signal::KILL);
    watch.ended();
    let output = sync.wait_with_output().unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["entries"][0]["verdict"], "shipped", "{report}");
}

#[test]
fn a_pause_holds_until_it_is_ended_or_over_also_without_a_watch() {
    let two = two();
    let mut watch = two.watch(&two.here);
    two.place.ok(&two.here, ["pause", "--for", "2h"]);
    watch.until("paused");
    assert_eq!(two.watch_state(&two.here)["state"]["mode"], "paused");
    fs::write(two.here.join("f"), "text").unwrap();
    fs::write(two.there.join("g"), "text").unwrap();
    two.place.ok(&two.there, ["sync"]);
    // A watch that is started meanwhile is paused as well.
    watch.signal(Signal::TERM);
    watch.ended();
    let mut watch = two.watch(&two.here);
    watch.until("paused");
    let state = two.watch_state(&two.here);
    assert!(state["paused"] == true && state["seconds_left"].as_u64().unwrap() > 7000, "{state}");
    assert!(!watch.events().iter().any(|event| event["event"] == "synced"), "{:?}", watch.events());
    two.place.ok(&two.here, ["resume"]);
    watch.until("resumed");
    eventually(|| {
        two.place.ok(&two.there, ["sync"]);
        (two.here.join("g").exists() && two.there.join("f").exists()).then_some(())
    });
    assert_same_tree(&two.here, &two.there);
    two.place.ok(&two.here, ["pause", "--for", "1s"]);
    fs::write(two.here.join("later"), "text").unwrap();
    eventually(|| {
        two.place.ok(&two.there, ["sync"]);
        two.there.join("later").exists().then_some(())
    });
    assert_eq!(two.watch_state(&two.here)["paused"], false);
}

#[test]
fn one_watch_a_working_copy_and_no_leaving_under_it() {
    let two = two();
    let _watch = two.watch(&two.here);
    let second = two.place.run(&two.here, ["watch"]);
    assert_eq!(second.code, Some(126), "{second}");
    let refused = two.place.run(&two.here, ["leave"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("watch"), "{refused}");
    let _other = two.watch(&two.there);
}

#[test]
fn an_entry_is_dropped_beside_a_watch() {
    let two = two();
    two.place.ok(&two.here, ["admin", "workspace", "set", "main", "rebase=forbid"]);
    fs::write(two.here.join("input"), "b\na\n").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    fs::write(two.here.join("input"), "other\n").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["run", "gzip", "--", "-k", "input"]);
    two.place.ok(&two.there, ["run", "sort", "--", "-o", "sorted", "input.gz"]);
    let _watch = two.watch(&two.there);
    let parked = eventually(|| {
        let entries = two.place.json(&two.there, ["status"])["pending"].as_array().unwrap().clone();
        entries.iter().find(|entry| entry["parked"] == true).and_then(|entry| entry["number"].as_u64())
    });
    two.place.ok(&two.there, ["drop", &parked.to_string()]);
    eventually(|| {
        two.place.ok(&two.here, ["sync"]);
        two.here.join("sorted").exists().then_some(())
    });
}

#[test]
fn a_path_too_long_for_a_socket_is_no_hindrance() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, &format!("{0}/{0}", "long".repeat(40)), "main");
    let watch = Watch::start(&place, &here);
    let state = place.json(&here, ["status"])["watch"].clone();
    assert_eq!(state["state"]["process"], watch.process(), "{state}");
}

#[test]
fn a_day_of_quiet_costs_less_than_50_kb() {
    let two = two();
    let tap = Tap::start_keeping(two.server.authority().parse().unwrap()).unwrap();
    let folder = two.place.folder("tapped");
    let mut init = two.place.command(&folder);
    let url = format!("http://{}", tap.address());
    init.env("OPSHIP_TOKEN", two.server.token()).args(["init", "--server", &url, "--workspace", "main"]);
    assert!(init.status().unwrap().success());
    let mut command = two.place.command(&folder);
    command.env("OPSHIP_TOKEN", two.server.token());
    let _watch = Watch::start_with(command, &["--heartbeat", "1"]);
    let requests = || String::from_utf8_lossy(&tap.kept()).into_owned();
    eventually(|| requests().contains("\r\n:\n").then_some(()));
    // From here on the watch is in sync and nothing happens.
    let before = tap.count();
    eventually(|| (tap.count().received >= before.received + 3 * 7).then_some(()));
    let after = tap.count();
    assert_eq!(after.sent, before.sent, "a quiet watch says nothing: {}", requests());
    assert_eq!((after.received - before.received) % 7, 0, "{}", requests());
    // What opening the stream takes, once an hour: both heads, and that an event is told.
    let text = requests();
    let request = text.split("\r\n\r\n").find(|head| head.contains("/events?")).unwrap();
    let response = text.split("\r\n\r\n").find(|head| head.contains("text/event-stream")).unwrap();
    let open = request.len() as u64 + response.rsplit("HTTP/1.1").next().unwrap().len() as u64 + 8 + 2 * 4;
    let (beats, hours) = (24 * 3600 / 240, 24 + 1);
    let day = beats * 7 + hours * open;
    println!("a quiet day: {day} bytes ({open} to open, 7 a sign of life)");
    assert!(day < 50_000, "{day}");
}

#[test]
fn without_file_watches_it_looks_from_time_to_time_and_says_why() {
    let two = two();
    // A user namespace of its own may have fewer watches than the system.
    let script = "echo 1 > /proc/sys/user/max_inotify_watches && exec \"$@\"";
    let limited = || {
        let mut command = std::process::Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]);
        command
    };
    let may = limited().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !may {
        assert!(std::env::var_os("OPSHIP_REQUIRE_ALL").is_none(), "cannot make a user namespace");
        return;
    }
    fs::create_dir_all(two.here.join("a/b/c")).unwrap();
    let plain = two.place.command(&two.here);
    let mut command = limited();
    command.arg(plain.get_program()).current_dir(&two.here);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        }
    }
    let watch = Watch::start_with(command, &[]);
    let why = watch.events()[0]["polling"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("max_user_watches"), "{:?}", watch.events());
    fs::write(two.here.join("a/b/c/f"), "text").unwrap();
    eventually(|| {
        two.place.ok(&two.there, ["sync"]);
        two.there.join("a/b/c/f").exists().then_some(())
    });
}

#[test]
fn a_watch_that_was_stopped_does_not_make_a_sync_wait_for_ever() {
    let two = two();
    let watch = two.watch(&two.here);
    // It has done its first sync then, and waits: it holds nothing that others need.
    two.place.ok(&two.here, ["sync"]);
    eventually(|| (two.watch_state(&two.here)["state"]["mode"] == "watching").then_some(()));
    watch.signal(Signal::STOP);
    let mut child = two.place.command(&two.here).arg("sync").stderr(Stdio::piped()).spawn().unwrap();
    eventually(|| child.try_wait().unwrap());
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(0));
    let process = watch.process();
    for part in [format!("process {process}"), format!("kill -CONT {process}"), format!("kill -KILL {process}")] {
        assert!(told.contains(&part), "{told}");
    }
    watch.signal(Signal::CONT);
    fs::write(two.here.join("f"), "text").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    assert_same_tree(&two.here, &two.there);
}

#[test]
fn a_watch_whose_folder_is_gone_ends_and_makes_no_new_one() {
    for gone in ["", ".opship"] {
        let two = two();
        let mut watch = two.watch(&two.here);
        // Beside the watch: it has done its first sync then.
        two.place.ok(&two.here, ["sync"]);
        let place = two.here.join(gone);
        // The watch may write something into it while it goes.
        eventually(|| {
            let _ = fs::remove_dir_all(&place);
            (!place.exists()).then_some(())
        });
        assert!(!watch.ended().success(), "'{gone}'");
        assert!(!two.here.join(".opship").exists(), "'{gone}'");
    }
}

#[test]
fn a_watch_whose_folder_is_moved_ends() {
    let two = two();
    let mut watch = two.watch(&two.here);
    two.place.ok(&two.here, ["sync"]);
    fs::rename(&two.here, two.place.path("elsewhere")).unwrap();
    // Nothing tells a process of that; it looks now and then, and when somebody asks it for something.
    fs::write(two.place.path("elsewhere/f"), "text").unwrap();
    assert!(!watch.ended().success());
    assert!(!two.here.exists());
    two.place.ok(&two.place.path("elsewhere"), ["sync"]);
}
