//! A server whose data comes back from a backup: what came later is with the clients alone, and stays.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Printed, Server, assert_same_tree};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Restored {
    place: Place,
    server: Server,
    here: PathBuf,
    there: PathBuf,
}

/// Two working copies that have synced, and a server that does not know of the last of it any more.
fn restored() -> Restored {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[("file", "one"), ("old", "old"), ("lines", "b\na\n")]);
    let address = server.authority();
    let start = || Server::start_with(&place, "data", |command| command.args(["--listen", &address]));
    assert!(server.stop().success());
    copy(&place.path("data"), &place.path("backup"));

    let server = start();
    fs::write(here.join("file"), "two").unwrap();
    fs::write(here.join("report"), "precious").unwrap();
    fs::remove_file(here.join("old")).unwrap();
    place.ok(&here, ["run", "sort", "--", "-o", "sorted", "lines"]);
    place.ok(&here, ["sync"]);
    place.ok(&there, ["sync"]);
    fs::write(there.join("notes"), "by another").unwrap();
    place.ok(&there, ["sync"]);
    assert!(server.stop().success());

    fs::remove_dir_all(place.path("data")).unwrap();
    copy(&place.path("backup"), &place.path("data"));
    let server = start();
    Restored { server, here, there, place }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

impl Restored {
    /// All come together, and everything that was written after the backup, and by nobody replaced, is there.
    fn come_together(&self, written: &[&str]) {
        for copy in [&self.here, &self.there, &self.here, &self.there, &self.here] {
            self.place.ok(copy, ["sync"]);
        }
        assert_same_tree(&self.here, &self.there);
        self.place.ok(&self.place.path(""), ["clone", &format!("{}/main", self.server.url()), "clone"]);
        assert_same_tree(&self.here, &self.place.path("clone"));
        let texts: Vec<String> = fs::read_dir(&self.here)
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
            .collect();
        for text in ["precious", "a\nb\n", "by another"].iter().chain(written) {
            assert!(texts.iter().any(|found| found == text), "{text:?} is not among {texts:?}");
        }
    }
}

#[test]
fn what_came_after_the_backup_is_with_the_clients_and_comes_back() {
    let restored = restored();
    let told = restored.place.run(&restored.here, ["sync"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(String::from_utf8_lossy(&told.stderr).contains("restored from a backup"), "{told}");
    restored.come_together(&["two"]);
}

#[test]
fn edits_made_meanwhile_are_kept_too() {
    let restored = restored();
    fs::write(restored.here.join("file"), "three").unwrap();
    fs::write(restored.there.join("file"), "four").unwrap();
    restored.place.ok(&restored.there, ["run", "sort", "--", "-r", "-o", "reversed", "lines"]);
    restored.place.ok(&restored.here, ["sync"]);
    restored.come_together(&["three", "four", "b\na\n"]);
}

#[test]
fn a_new_history_that_has_overtaken_the_old_one_is_not_taken_for_it() {
    let restored = restored();
    // Another client makes as many versions as were lost, and more, before anybody of the old ones comes.
    let Restored { place, server, .. } = &restored;
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "new"]);
    for number in 0..8 {
        fs::write(place.path("new").join("other"), format!("new {number}")).unwrap();
        place.ok(&place.path("new"), ["sync"]);
    }
    restored.come_together(&["two", "new 7"]);
}

#[test]
fn a_sync_that_was_cut_off_before_takes_nothing_away() {
    let restored = restored();
    let Restored { place, here, .. } = &restored;
    let killed = place.command(here).arg("sync").env("OPSHIP_FAILPOINT", "history-forgotten").output().unwrap();
    assert_eq!(killed.status.code(), None, "{}", String::from_utf8_lossy(&killed.stderr));
    restored.come_together(&["two"]);
}

#[test]
fn who_may_only_read_and_has_changed_something_notices_it_too() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("file"), "text").unwrap();
    place.ok(&here, ["sync"]);
    let home = place.folder("people/ron");
    let ron = |folder: &Path, arguments: &[&str]| -> Printed {
        let mut command = place.command(folder);
        command.env("HOME", &home).env("XDG_STATE_HOME", home.join("state")).args(arguments).output().unwrap().into()
    };
    let line = place.ok(&here, ["admin", "invite", "ron", "--role", "read"]);
    assert_eq!(ron(&home, &["join", line.trim(), "work"]).code, Some(0));
    let work = home.join("work");
    let address = server.authority();
    let start = || Server::start_with(&place, "data", |command| command.args(["--listen", &address]));
    assert!(server.stop().success());
    copy(&place.path("data"), &place.path("backup"));
    let server = start();
    fs::write(here.join("newer"), "newer").unwrap();
    place.ok(&here, ["sync"]);
    assert_eq!(ron(&work, &["sync"]).code, Some(0));
    fs::write(work.join("mine"), "mine").unwrap();
    assert!(server.stop().success());
    fs::remove_dir_all(place.path("data")).unwrap();
    copy(&place.path("backup"), &place.path("data"));
    let _server = start();
    for later in ["later", "and later"] {
        fs::write(here.join(later), later).unwrap();
        place.ok(&here, ["sync"]);
        let refused = ron(&work, &["sync"]);
        assert!(refused.code == Some(126) && refused.to_string().contains("role 'write'"), "{refused}");
        for (name, text) in [("newer", "newer"), ("mine", "mine"), (later, later)] {
            assert_eq!(fs::read_to_string(work.join(name)).unwrap(), text);
        }
    }
}
