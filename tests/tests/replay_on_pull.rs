//! A pull replays others' operations instead of downloading what they made, and takes nothing that is not the head's.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, assert_same_tree, guest};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

struct Two {
    place: Place,
    _server: Server,
    here: PathBuf,
    there: PathBuf,
}

/// Two working copies of a workspace that holds `input`: lines in no order, of which nothing compresses much.
fn two() -> Two {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[("input", &lines(1))]);
    Two { place, _server: server, here, there }
}

fn lines(seed: u8) -> String {
    (0..3000u32).map(|number| format!("{}\n", blake3::hash(&[&number.to_le_bytes()[..], &[seed]].concat()))).collect()
}

fn size(path: PathBuf) -> u64 {
    fs::metadata(path).unwrap().len()
}

impl Two {
    /// Pulls, and gives the report.
    fn pull(&self) -> Value {
        let report = self.place.json(&self.there, ["sync"]);
        assert_same_tree(&self.here, &self.there);
        report
    }

    fn set_policy(&self, policy: &str) {
        let config = self.there.join(".opship/config.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("{text}replay_on_pull = \"{policy}\"\n")).unwrap();
    }
}

fn saved(report: &Value) -> u64 {
    report["pulled"]["replayed"].as_array().unwrap().iter().map(|one| one["saved"].as_u64().unwrap()).sum()
}

fn ship(place: &Place, copy: &Path) {
    let report = place.json(copy, ["sync"]);
    assert_eq!(report["waiting"], 0, "{report}");
}

#[test]
fn a_chain_of_operations_is_replayed_and_its_results_do_not_travel() {
    let two = two();
    two.place.ok(&two.here, ["run", "sort", "--", "-o", "sorted", "input"]);
    two.place.ok(&two.here, ["run", "gzip", "--", "-k", "sorted"]);
    ship(&two.place, &two.here);
    let results = size(two.here.join("sorted")) + size(two.here.join("sorted.gz"));
    let report = two.pull();
    assert_eq!(saved(&report), results, "{report}");
    assert_eq!(report["pulled"]["replayed"].as_array().unwrap().len(), 2);
    let received = report["received"].as_u64().unwrap();
    assert!(received < 4096, "{received} bytes came for {results}");
    // On a new input that another brings in the same pull, too; and it is told.
    fs::write(two.here.join("input"), lines(2)).unwrap();
    two.place.ok(&two.here, ["run", "sort", "--", "-o", "sorted", "input"]);
    ship(&two.place, &two.here);
    let told = two.place.ok(&two.there, ["sync", "-v"]);
    assert!(told.contains("replayed here") && told.contains("not downloaded"), "{told}");
    assert_same_tree(&two.here, &two.there);
}

#[test]
fn a_rebased_operation_is_replayed_as_the_server_ran_it() {
    let two = two();
    two.place.ok(&two.there, ["run", "sort", "--", "-o", "sorted", "input"]);
    fs::write(two.here.join("input"), lines(2)).unwrap();
    ship(&two.place, &two.here);
    let report = two.place.json(&two.there, ["sync"]);
    let verdicts: Vec<&str> =
        report["entries"].as_array().unwrap().iter().map(|entry| entry["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["rebased"], "{report}");
    let report = two.place.json(&two.here, ["sync"]);
    assert_eq!(saved(&report), size(two.here.join("sorted")), "{report}");
    assert_same_tree(&two.here, &two.there);
}

#[test]
fn what_a_replay_does_not_give_is_downloaded() {
    let two = two();
    two.place.ok(&two.here, ["run", "sort", "--", "-o", "sorted", "input"]);
    ship(&two.place, &two.here);
    // What it read is gone when the other comes to it.
    fs::write(two.here.join("input"), lines(3)).unwrap();
    ship(&two.place, &two.here);
    let report = two.pull();
    assert_eq!(report["pulled"]["replayed"], json!([]), "{report}");
    // A module that nobody here has named is not run, whatever it makes.
    let probe = guest("treeprobe");
    two.place.ok(&two.here, ["run", probe.to_str().unwrap(), "--", "append", "sorted", "more"]);
    ship(&two.place, &two.here);
    let report = two.pull();
    assert_eq!(report["pulled"]["replayed"], json!([]), "{report}");
}

#[test]
fn never_means_never() {
    let two = two();
    two.set_policy("never");
    two.place.ok(&two.here, ["run", "sort", "--", "-o", "sorted", "input"]);
    ship(&two.place, &two.here);
    let report = two.pull();
    assert_eq!(report["pulled"]["replayed"], json!([]), "{report}");
    assert!(report["received"].as_u64().unwrap() > size(two.here.join("sorted")) / 4, "{report}");
}
