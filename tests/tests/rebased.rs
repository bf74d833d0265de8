//! An operation meets inputs that others have changed: it is run again, its author is told, and can have his own result back.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Printed, Server, assert_same_tree, snapshot, verdicts};
use std::fs;
use std::path::PathBuf;

struct Three {
    place: Place,
    server: Server,
    here: PathBuf,
    there: PathBuf,
}

/// Two working copies of one workspace, which holds `input`; `there` has changed it, and `here` does not know.
fn stale() -> Three {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[("input", "b\na\n")]);
    fs::write(there.join("input"), "d\nc\n").unwrap();
    place.ok(&there, ["sync"]);
    Three { place, server, here, there }
}

impl Three {
    fn sync_all(&self) {
        for folder in [&self.here, &self.there, &self.here, &self.there] {
            self.place.ok(folder, ["sync"]);
        }
        assert_same_tree(&self.here, &self.there);
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.here.join(name)).unwrap()
    }

    fn number_of(&self, command: &str) -> String {
        let log = self.place.json(&self.here, ["log"]);
        let entry =
            log["entries"].as_array().unwrap().iter().find(|e| e["command"].as_str().unwrap().starts_with(command));
        entry.unwrap()["number"].to_string()
    }
}

fn told(printed: &Printed, text: &str) {
    assert!(String::from_utf8_lossy(&printed.stderr).contains(text), "{printed}");
}

#[test]
fn a_chain_is_run_again_link_by_link_and_undone_to_what_its_author_had() {
    let three = stale();
    let Three { place, here, .. } = &three;
    place.ok(here, ["run", "sort", "--", "-o", "sorted", "input"]);
    place.ok(here, ["run", "gzip", "--", "-k", "sorted"]);
    let own = fs::read(here.join("sorted.gz")).unwrap();
    let printed = place.run(here, ["sync"]);
    told(&printed, "opship undo");
    assert_eq!(verdicts(place, here), ["shipped", "rebased", "rebased"]);
    assert_eq!((three.read("input"), three.read("sorted")), ("d\nc\n".to_owned(), "c\nd\n".to_owned()));
    assert_ne!(fs::read(here.join("sorted.gz")).unwrap(), own);
    told(&place.run(here, ["status"]), "was run again");
    three.sync_all();

    let number = three.number_of("gzip");
    let dry = place.json(here, ["undo", "--dry-run", &number]);
    assert_eq!(dry["paths"], serde_json::json!(["sorted.gz"]), "{dry}");
    place.ok(here, ["undo", &number]);
    place.ok(here, ["undo", &three.number_of("sort")]);
    assert_eq!(three.read("sorted"), "a\nb\n");
    assert_eq!(fs::read(here.join("sorted.gz")).unwrap(), own);
    three.sync_all();
    assert_eq!(fs::read(three.there.join("sorted.gz")).unwrap(), own);
    let status = place.json(here, ["status"]);
    assert_eq!(status["undecided"], serde_json::json!([]), "{status}");
    // The server has been told, so that it need not keep both for ever.
    let listed = three.server.request("GET", "/v1/workspaces/main/entries?verdict=rebased", b"").1;
    let listed: serde_json::Value = serde_json::from_slice(&listed).unwrap();
    assert!(listed["entries"].as_array().unwrap().iter().all(|entry| entry["resolved"].is_u64()), "{listed}");
}

#[test]
fn a_rebased_result_is_settled_by_either_side_or_both() {
    for (keep, text, copies) in [("theirs", "c\nd\n", 0), ("mine", "a\nb\n", 0), ("both", "c\nd\n", 1)] {
        let three = stale();
        let Three { place, here, .. } = &three;
        place.ok(here, ["run", "sort", "--", "-o", "sorted", "input"]);
        place.ok(here, ["sync"]);
        let listed = place.json(here, ["conflicts"]);
        assert_eq!(listed["conflicts"][0]["path"], "sorted", "{listed}");
        assert_eq!(listed["conflicts"][0]["copies"][0]["verdict"], "rebased", "{listed}");
        place.ok(here, ["resolve", "--all", "--keep", keep]);
        assert_eq!(place.json(here, ["conflicts"])["conflicts"], serde_json::json!([]));
        three.sync_all();
        assert_eq!(three.read("sorted"), text, "{keep}");
        let beside: Vec<String> = snapshot(here).into_keys().filter(|name| name.starts_with("sorted (")).collect();
        assert_eq!(beside.len(), copies, "{beside:?}");
        assert!(beside.iter().all(|name| three.read(name) == "a\nb\n"));
    }
}

#[test]
fn of_two_rebased_results_of_one_path_both_stay_where_both_are_kept() {
    let three = stale();
    let Three { place, here, there, .. } = &three;
    place.ok(here, ["run", "sort", "--", "-o", "sorted", "input"]);
    place.ok(here, ["sync"]);
    fs::write(there.join("input"), "f\ne\n").unwrap();
    place.ok(there, ["sync"]);
    place.ok(here, ["run", "sort", "--", "-r", "-o", "sorted", "input"]);
    place.ok(here, ["sync"]);
    assert_eq!(verdicts(place, here), ["shipped", "rebased", "rebased"]);
    place.ok(here, ["resolve", "--all", "--keep", "both"]);
    three.sync_all();
    let texts: Vec<String> = snapshot(here).keys().map(|name| fs::read_to_string(here.join(name)).unwrap()).collect();
    for kept in ["a\nb\n", "d\nc\n", "f\ne\n"] {
        assert!(texts.iter().any(|text| text == kept), "{kept:?} is lost: {texts:?}");
    }
}

#[test]
fn an_edit_of_a_rebased_result_is_never_overwritten() {
    let three = stale();
    let Three { place, here, .. } = &three;
    place.ok(here, ["run", "sort", "--", "-o", "sorted", "input"]);
    place.ok(here, ["sync"]);
    fs::write(here.join("sorted"), "by hand\n").unwrap();
    let number = three.number_of("sort");
    let refused = place.run(here, ["undo", &number]);
    assert_eq!(refused.code, Some(126), "{refused}");
    told(&refused, "--force");
    assert_eq!(three.read("sorted"), "by hand\n");
    let report = place.json(here, ["undo", "--force", &number]);
    let kept = report["kept"][0].as_str().unwrap();
    assert_eq!((three.read("sorted"), three.read(kept)), ("a\nb\n".to_owned(), "by hand\n".to_owned()));
    three.sync_all();
}
