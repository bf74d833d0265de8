//! The command line as people and scripts meet it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, guest};
use std::fs;
use std::io::Write;
use std::process::Stdio;

#[test]
fn exit_codes_are_the_modules_and_opships_own_are_125_to_127() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let probe = guest("treeprobe");
    let probe = probe.to_str().unwrap();
    assert_eq!(place.run(&here, ["run", probe, "--", "exit", "7"]).code, Some(7));
    assert_eq!(place.run(&here, ["run", "no-such-module"]).code, Some(127));
    assert_eq!(place.run(&here, ["run", "./no-such.wasm"]).code, Some(127));
    assert_eq!(place.run(&here, ["run", "--no-such-option"]).code, Some(125));
    assert_eq!(place.run(&place.path(""), ["run", "sort"]).code, Some(125));
    fs::write(here.join("text.wasm"), "no module").unwrap();
    assert_eq!(place.run(&here, ["run", "./text.wasm"]).code, Some(126));
}

#[test]
fn errors_say_what_to_do_next() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let error = |directory: &std::path::Path, arguments: &[&str]| {
        let printed = place.run(directory, arguments);
        assert_ne!(printed.code, Some(0), "{arguments:?}");
        String::from_utf8(printed.stderr).unwrap()
    };
    assert!(error(&place.path(""), &["status"]).contains("opship init"));
    assert!(error(&here, &["run", "no-such"]).contains("opship module add"));
    assert!(error(&here, &["show", "99"]).contains("opship log"));
    assert!(error(&here, &["init", "--workspace", "other", "--server", &server.url()]).contains("opship leave"));
    assert!(error(&here, &["why", "/etc/passwd"]).contains("not in the working copy"));
    let elsewhere = place.folder("elsewhere");
    assert!(
        error(&elsewhere, &["init", "--workspace", "x", "--server", "http://127.0.0.1:1"]).contains("opship serve")
    );
}

#[test]
fn a_run_needs_no_server_and_is_shipped_later() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let data = server.data().clone();
    assert!(server.stop().success());
    fs::write(here.join("a"), "b\na\n").unwrap();
    place.ok(&here, ["run", "sort", "--", "-o", "sorted", "a"]);
    assert_eq!(fs::read_to_string(here.join("sorted")).unwrap(), "a\nb\n");
    let failed = place.run(&here, ["sync"]);
    assert_eq!(failed.code, Some(125));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("cannot reach"), "{failed}");
    let server = Server::start_with(&place, data.to_str().unwrap(), |command| command);
    let config = here.join(".opship/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let old = text.split('"').find(|part| part.starts_with("http://")).unwrap().to_owned();
    fs::write(&config, text.replace(&old, &server.url())).unwrap();
    let report = place.json(&here, ["sync"]);
    assert_eq!(report["waiting"], 0, "{report}");
}

#[test]
fn standard_input_environment_and_argv0_reach_the_module() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let mut child = place
        .command(&here)
        .args(["run", "--stdin", "-", "-o", "sorted", "sort"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"2\n1\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_to_string(here.join("sorted")).unwrap(), "1\n2\n");
    place.ok(&here, ["run", "--stdin", "sorted", "-o", "down", "sort", "--", "-r"]);
    assert_eq!(fs::read_to_string(here.join("down")).unwrap(), "2\n1\n");
    let printed =
        place.ok(&here, ["run", "--env", "COLOUR=red", "--argv0", "other", guest("clock-random").to_str().unwrap()]);
    assert!(printed.contains("COLOUR=red") && printed.contains("other"), "{printed}");
    assert!(!printed.contains("HOME="), "{printed}");
    place.ok(&here, ["sync"]);
    assert!(opship_tests::verdicts(&place, &here).iter().all(|verdict| verdict == "matched"));
}

#[test]
fn status_log_show_and_why_agree() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "b\na\n").unwrap();
    fs::write(here.join(".opshipignore"), "*.tmp\n").unwrap();
    fs::write(here.join("x.tmp"), "ignored").unwrap();
    let status = place.json(&here, ["status"]);
    let changed: Vec<&str> =
        status["changes"].as_array().unwrap().iter().map(|c| c["path"].as_str().unwrap()).collect();
    assert_eq!(changed, [".opshipignore", "a"]);
    place.ok(&here, ["run", "sort", "--", "-o", "sorted", "a"]);
    place.ok(&here, ["sync"]);
    let why = place.json(&here, ["why", "sorted"]);
    assert_eq!(why["entry"]["verdict"], "matched");
    assert_eq!(why["synced"], true);
    let number = why["entry"]["number"].as_u64().unwrap().to_string();
    let show = place.json(&here, ["show", &number]);
    assert_eq!(show["changes"][0]["path"], "sorted");
    assert!(show["observations"].as_array().unwrap().iter().any(|o| o.as_str().unwrap().contains("content of a")));
    for arguments in [vec!["status"], vec!["log"], vec!["show", &number], vec!["why", "sorted"], vec!["module", "list"]]
    {
        assert!(!place.ok(&here, arguments).is_empty());
    }
    let status = place.json(&here, ["status"]);
    assert!(status["changes"].as_array().unwrap().is_empty() && status["pending"].as_array().unwrap().is_empty());
    assert!(place.ok(&here, ["completions", "bash"]).contains("opship"));
}

#[test]
fn leaving_keeps_the_files() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "b\na\n").unwrap();
    place.ok(&here, ["run", "sort", "--", "-o", "sorted", "a"]);
    assert_eq!(place.run(&here, ["leave"]).code, Some(126));
    place.ok(&here, ["sync"]);
    place.ok(&here, ["leave"]);
    assert!(!here.join(".opship").exists());
    assert_eq!(fs::read_to_string(here.join("sorted")).unwrap(), "a\nb\n");
}

#[test]
fn the_server_stops_cleanly_and_a_second_one_on_its_data_is_refused() {
    let place = Place::new();
    let server = Server::start(&place);
    let data = server.data().display().to_string();
    let second = place.run(&place.path(""), ["serve", "--listen", "127.0.0.1:0", "--data", &data]);
    assert_eq!(second.code, Some(125), "{second}");
    let token = fs::metadata(server.data().join("admin-token")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&token.permissions()) & 0o777, 0o600);
    server.signal(rustix::process::Signal::INT);
    let mut server = server;
    assert!(server.wait().success());
    let outside = place.run(&place.path(""), ["serve", "--listen", "0.0.0.0:0", "--data", &data]);
    assert_eq!(outside.code, Some(125));
    assert!(String::from_utf8_lossy(&outside.stderr).contains("--insecure"), "{outside}");
}

#[test]
fn names_cannot_command_the_terminal_or_forge_lines() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let name = "esc\u{1b}[31mred\nin sync: version 99";
    fs::write(here.join(name), "x").unwrap();
    let mut shown = place.ok(&here, ["status"]);
    shown += &place.ok(&here, ["sync"]);
    shown += &place.ok(&here, ["why", name]);
    shown += &place.ok(&here, ["log"]);
    shown += &place.ok(&here, ["show", "1"]);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert!(!shown.lines().any(|line| line.starts_with("in sync: version 99")), "{shown}");
}

#[test]
fn what_goes_wrong_is_json_where_that_was_asked_for() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let printed = place.run(&here, ["--json", "show", "99"]);
    let error: serde_json::Value = serde_json::from_slice(&printed.stderr).unwrap();
    assert!(error["error"].as_str().unwrap().contains("opship log"), "{error}");
    fs::write(here.join("a"), "2\n1\n").unwrap();
    let printed = place.run(&here, ["--json", "run", "sort", "--", "a"]);
    assert_eq!(printed.stdout, b"1\n2\n");
    let run: serde_json::Value = serde_json::from_slice(&printed.stderr).unwrap();
    assert_eq!((run["exits"][0].as_u64(), run["changes"].as_u64()), (Some(0), Some(0)), "{run}");
    assert_eq!(place.run(&here, ["no-such-command"]).code, Some(125));
}
