//! Two people change one workspace: what clashes is kept beside, what does not clash goes on, and nothing is lost.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, assert_same_tree, first_parked, snapshot, verdicts};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

struct Two {
    place: Place,
    _server: Server,
    here: PathBuf,
    there: PathBuf,
}

/// Two working copies that hold the same files.
fn two(files: &[(&str, &str)]) -> Two {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, files);
    Two { place, _server: server, here, there }
}

impl Two {
    fn sync_both(&self) {
        for folder in [&self.here, &self.there, &self.here, &self.there] {
            self.place.ok(folder, ["sync"]);
        }
        assert_same_tree(&self.here, &self.there);
    }
}

fn beside(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let is_copy = |name: &String| name.starts_with(stem) && name.contains("(conflict ");
    snapshot(folder).keys().filter(|name| is_copy(name)).map(|name| folder.join(name)).collect()
}

#[test]
fn one_clash_leaves_all_other_edits_in_their_places() {
    let two =
        two(&[("x", "1"), ("y", "1"), ("z", "1"), ("w", "long enough to be known again"), ("m", "1"), ("l", "1")]);
    fs::write(two.here.join("x"), "theirs").unwrap();
    two.place.ok(&two.here, ["sync"]);

    let mine = &two.there;
    fs::write(mine.join("x"), "mine").unwrap();
    fs::write(mine.join("y"), "2").unwrap();
    fs::write(mine.join("n"), "new").unwrap();
    fs::remove_file(mine.join("z")).unwrap();
    fs::rename(mine.join("w"), mine.join("renamed")).unwrap();
    fs::set_permissions(mine.join("m"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(mine.join("empty/deep")).unwrap();
    symlink("important-target", mine.join("note")).unwrap();
    two.place.ok(mine, ["sync"]);

    assert_eq!(fs::read_to_string(mine.join("x")).unwrap(), "theirs");
    let copies = beside(mine, "x");
    assert_eq!(copies.len(), 1, "{:?}", snapshot(mine).keys());
    assert_eq!(fs::read_to_string(&copies[0]).unwrap(), "mine");
    let all_copies = snapshot(mine).keys().filter(|name| name.contains("(conflict ")).count();
    assert_eq!(all_copies, 1, "{:?}", snapshot(mine).keys());
    two.sync_both();
    assert_eq!(fs::read_to_string(two.here.join("y")).unwrap(), "2");
    assert_eq!(fs::read_to_string(two.here.join("n")).unwrap(), "new");
    assert!(!two.here.join("z").exists() && !two.here.join("w").exists() && two.here.join("renamed").exists());
    assert_eq!(fs::metadata(two.here.join("m")).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(two.here.join("empty/deep").is_dir());
    assert_eq!(fs::read_link(two.here.join("note")).unwrap(), Path::new("important-target"));
}

#[test]
fn a_link_that_clashes_is_kept_beside() {
    let two = two(&[("x", "1")]);
    symlink("theirs", two.here.join("link")).unwrap();
    two.place.ok(&two.here, ["sync"]);
    symlink("mine", two.there.join("link")).unwrap();
    two.place.ok(&two.there, ["sync"]);
    assert_eq!(fs::read_link(two.there.join("link")).unwrap(), Path::new("theirs"));
    let copies = beside(&two.there, "link");
    assert_eq!(fs::read_link(&copies[0]).unwrap(), Path::new("mine"));
    two.sync_both();
}

#[test]
fn the_same_change_on_both_sides_is_no_conflict() {
    let two = two(&[("x", "1"), ("z", "1")]);
    for folder in [&two.here, &two.there] {
        fs::write(folder.join("x"), "the same").unwrap();
        fs::write(folder.join("n"), "the same").unwrap();
        fs::remove_file(folder.join("z")).unwrap();
        fs::create_dir(folder.join("d")).unwrap();
    }
    two.sync_both();
    for folder in [&two.here, &two.there] {
        let ended = verdicts(&two.place, folder);
        assert!(ended.iter().all(|verdict| verdict == "shipped"), "{ended:?}");
        assert!(!snapshot(folder).keys().any(|name| name.contains("conflict")), "{:?}", snapshot(folder).keys());
    }
}

#[test]
fn an_output_that_another_made_first_is_a_clash_of_outputs() {
    let two = two(&[("a", "2\n1\n"), ("b", "4\n3\n")]);
    two.place.ok(&two.here, ["run", "sort", "--", "-o", "out", "a"]);
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["run", "sort", "--", "-o", "out", "b"]);
    let report = two.place.json(&two.there, ["sync"]);
    let entry = &report["entries"][0];
    assert_eq!(
        (entry["verdict"].as_str(), entry["reason"].as_str()),
        (Some("conflicted"), Some("outputs-changed")),
        "{report}"
    );
    assert_eq!(fs::read_to_string(two.there.join("out")).unwrap(), "1\n2\n");
    assert_eq!(fs::read_to_string(&beside(&two.there, "out")[0]).unwrap(), "3\n4\n");
    two.sync_both();
}

/// An operation that conflicts, and what stands behind it.
fn parked() -> Two {
    let two = two(&[("input", "b\na\n")]);
    fs::write(two.here.join("output"), "other\n").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["run", "sort", "--", "-o", "output", "input"]);
    two.place.ok(&two.there, ["run", "gzip", "--", "-k", "output"]);
    two
}

#[test]
fn a_parked_operation_is_dropped_and_its_results_stay_as_files() {
    let two = parked();
    let report = two.place.json(&two.there, ["sync"]);
    assert_eq!(report["waiting"], 1, "{report}");
    let entries = report["entries"].as_array().unwrap();
    let number = entries.iter().find(|entry| entry["parked"] == true).unwrap()["number"].as_u64().unwrap();
    let status = two.place.run(&two.there, ["status"]);
    assert!(String::from_utf8_lossy(&status.stderr).contains("opship drop"), "{status}");
    let kept = fs::read(two.there.join("output.gz")).unwrap();
    two.place.ok(&two.there, ["drop", &number.to_string()]);
    let report = two.place.json(&two.there, ["sync"]);
    assert_eq!(report["waiting"], 0, "{report}");
    two.sync_both();
    assert_eq!(fs::read(two.here.join("output.gz")).unwrap(), kept);
    assert_ne!(two.place.run(&two.there, ["drop", &number.to_string()]).code, Some(0));
}

#[test]
fn a_parked_operation_is_dropped_although_its_result_was_deleted_since() {
    let two = parked();
    fs::remove_file(two.there.join("output.gz")).unwrap();
    two.place.ok(&two.there, ["sync"]);
    two.place.ok(&two.there, ["drop", &first_parked(&two.place, &two.there).unwrap()]);
    let report = two.place.json(&two.there, ["sync"]);
    assert_eq!(report["waiting"], 0, "{report}");
    two.sync_both();
    assert!(!two.here.join("output.gz").exists());
}

#[test]
fn what_a_person_writes_over_a_conflicted_output_is_not_held_back() {
    let two = two(&[("input", "b\na\n")]);
    fs::write(two.here.join("output"), "other\n").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["run", "sort", "--", "-o", "output", "input"]);
    fs::write(two.there.join("output"), "written by hand\n").unwrap();
    fs::write(two.there.join("unrelated"), "u").unwrap();
    two.place.ok(&two.there, ["sync"]);
    let report = two.place.json(&two.there, ["sync"]);
    assert_eq!(report["waiting"], 0, "{report}");
    two.sync_both();
    let all: Vec<String> =
        snapshot(&two.here).keys().filter_map(|name| fs::read_to_string(two.here.join(name)).ok()).collect();
    assert!(all.contains(&"written by hand\n".to_owned()), "{:?}", snapshot(&two.here).keys());
    assert!(two.here.join("unrelated").exists());
}

#[test]
fn bits_that_lend_rights_never_travel() {
    let two = two(&[("x", "1")]);
    fs::write(two.here.join("tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(two.here.join("tool"), fs::Permissions::from_mode(0o6755)).unwrap();
    let probe = opship_tests::guest("treeprobe");
    two.place.ok(&two.here, ["run", probe.to_str().unwrap(), "--", "chmod", "4755", "x"]);
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(two.here.join("x")), 0o755);
    assert_eq!((mode(two.there.join("x")), mode(two.there.join("tool"))), (0o755, 0o755));
}
