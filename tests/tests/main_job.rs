//! The main job: operations travel instead of results, and both ends hold the same bytes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{Place, Server, assert_same_tree, guest, run_through, verdicts};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Text that compresses badly enough to be found again on a wire.
fn lines(count: u64) -> String {
    let line = |n: u64| format!("{:x} the quick brown fox {n}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..count).map(line).collect()
}

fn sync_through(place: &Place, tap: &Tap, server: &Server, directory: &Path) -> serde_json::Value {
    serde_json::from_slice(&run_through(place, tap, server, directory, &["--json", "sync"]).stdout).unwrap()
}

#[test]
fn standard_operations_match_and_a_clone_holds_the_same_tree() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::create_dir_all(here.join("sub/deep")).unwrap();
    fs::write(here.join("numbers.txt"), lines(5000)).unwrap();
    fs::write(here.join("sub/deep/tool.sh"), "#!/bin/sh\necho hi\n").unwrap();
    fs::set_permissions(here.join("sub/deep/tool.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    std::os::unix::fs::symlink("deep/tool.sh", here.join("sub/link")).unwrap();
    place.ok(&here, ["run", "sort", "--", "-r", "-o", "down.txt", "numbers.txt"]);
    place.ok(&here, ["run", "gzip", "--", "-k", "down.txt"]);
    place.ok(&here, ["run", "tar", "--", "-cf", "all.tar", "sub", "down.txt.gz"]);
    place.ok(&here.join("sub"), ["run", "tar", "--", "-xf", "../all.tar"]);
    place.ok(&here, ["run", "-o", "back.txt", "gzip", "--", "-dc", "down.txt.gz"]);
    place.ok(&here, ["sync"]);
    let ended = verdicts(&place, &here);
    assert_eq!(ended.iter().filter(|verdict| *verdict == "matched").count(), 5, "{ended:?}");
    assert!(ended.iter().all(|verdict| verdict == "matched" || verdict == "shipped"), "{ended:?}");
    assert_eq!(fs::read(here.join("back.txt")).unwrap(), fs::read(here.join("down.txt")).unwrap());

    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

#[test]
fn output_bytes_never_cross_the_link() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("input.txt"), lines(3000)).unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&here, ["run", "sort", "--", "-r", "-o", "output.txt", "input.txt"]);
    place.ok(&here, ["run", "-o", "output.gz", "gzip", "--", "-c", "output.txt"]);
    let tap = Tap::start_keeping(server.authority().parse().unwrap()).unwrap();
    let report = sync_through(&place, &tap, &server, &here);
    let outcomes: Vec<&str> =
        report["entries"].as_array().unwrap().iter().map(|e| e["verdict"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["matched", "matched"]);

    let wire = tap.kept();
    assert!(!wire.is_empty());
    for output in ["output.txt", "output.gz"] {
        let bytes = fs::read(here.join(output)).unwrap();
        for piece in [&bytes[..64], &bytes[bytes.len() / 2..bytes.len() / 2 + 64]] {
            assert!(!wire.windows(piece.len()).any(|window| window == piece), "{output} crossed the link");
        }
    }
    assert!(wire.len() < 4000, "{} bytes for two operations", wire.len());
}

#[test]
fn a_redirection_travels_by_reference() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), lines(4000)).unwrap();
    place.ok(&here, ["sync"]);
    let out = fs::File::create(here.join("b")).unwrap();
    let status = place.command(&here).args(["run", "sort", "--", "a"]).stdout(out).status().unwrap();
    assert!(status.success());
    let report = place.json(&here, ["sync"]);
    let sent = report["sent"].as_u64().unwrap();
    assert!(
        sent < 4000,
        "{sent} bytes sent for a redirection of {} bytes",
        fs::metadata(here.join("b")).unwrap().len()
    );
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

#[test]
fn an_archive_of_the_folder_it_is_redirected_into() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a.txt"), lines(100)).unwrap();
    let out = fs::File::create(here.join("all.tar")).unwrap();
    let output = place.command(&here).args(["run", "tar", "--", "-c", "."]).stdout(out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = place.ok(&here, ["run", "tar", "--", "-tf", "all.tar"]);
    assert!(listed.lines().any(|line| line.ends_with("a.txt")), "{listed}");
    place.ok(&here, ["sync"]);
    let ended = verdicts(&place, &here);
    assert!(ended.iter().all(|verdict| verdict == "matched" || verdict == "shipped"), "{ended:?}");
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

#[test]
fn a_reader_that_leaves_does_not_undo_the_operation() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), lines(20_000)).unwrap();
    let mut child =
        place.command(&here).args(["run", "sort", "--", "a"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(141));
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here).last().unwrap(), "matched");
}

#[test]
fn time_and_random_numbers_match_because_both_are_recorded() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let module = guest("clock-random");
    let run = |out: &str| place.ok(&here, ["run", "-o", out, module.to_str().unwrap(), "--", "x"]);
    run("one");
    run("two");
    assert_ne!(fs::read(here.join("one")).unwrap(), fs::read(here.join("two")).unwrap());
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here), ["matched", "matched"]);
}

#[test]
fn what_others_did_comes_back() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), lines(10)).unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    let there = place.path("there");
    place.ok(&there, ["run", "sort", "--", "-o", "sorted", "a"]);
    fs::remove_file(there.join("a")).unwrap();
    fs::create_dir(there.join("folder")).unwrap();
    fs::write(there.join("folder/new"), "new").unwrap();
    place.ok(&there, ["sync"]);
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &there);
    assert!(!here.join("a").exists());
}

#[test]
fn a_registered_module_finds_its_resource_folder_on_both_ends() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let share = place.folder("share");
    fs::write(share.join("words"), "resource\n").unwrap();
    let module = guest("treeprobe");
    let mount = format!("/share={}", share.display());
    place.ok(&here, ["module", "add", module.to_str().unwrap(), "--name", "probe", "--mount", &mount]);
    place.ok(&here, ["run", "-o", "copy", "probe", "--", "cat", "/share/words"]);
    assert_eq!(fs::read_to_string(here.join("copy")).unwrap(), "resource\n");
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here), ["matched"]);
    let known = place.json(&here, ["module", "show", "probe"]);
    assert_eq!(known["mounts"][0]["path"], "share");

    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    let there = place.path("there");
    place.ok(&there, ["run", "-o", "again", "probe", "--", "cat", "/share/words"]);
    place.ok(&there, ["sync"]);
    assert_eq!(verdicts(&place, &there), ["matched"]);
    place.ok(&here, ["module", "remove", "probe"]);
    assert_eq!(place.run(&here, ["run", "probe"]).code, Some(127));
}
