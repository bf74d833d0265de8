//! A workspace that takes files up to a size: what is larger stays with its author, is told, and keeps nothing else back.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{Place, Server, assert_same_tree, first_parked, noise, point};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const LIMIT: usize = 100_000;

struct Two {
    place: Place,
    server: Server,
    here: PathBuf,
    there: PathBuf,
}

fn two() -> Two {
    let place = Place::new();
    let server = Server::start(&place);
    let (here, there) = place.pair(&server, &[]);
    let two = Two { place, server, here, there };
    two.limit("100 kB");
    two
}

impl Two {
    fn limit(&self, limit: &str) {
        self.place.ok(&self.here, ["admin", "workspace", "set", "main", &format!("largest-file={limit}")]);
    }

    /// Syncs, where something is refused; gives the report and what is said.
    fn refused(&self) -> Value {
        let printed = self.place.run(&self.here, ["sync", "--json"]);
        assert_eq!(printed.code, Some(1), "{printed}");
        serde_json::from_slice(&printed.stdout).unwrap()
    }

    fn not_synced(&self) -> Vec<String> {
        let status = self.place.json(&self.here, ["status"]);
        assert_eq!((&status["changes"], &status["pending"]), (&json!([]), &json!([])), "{status}");
        status["unsupported"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect()
    }

    fn offer_all_again(&self) {
        self.limit("none");
        let log = self.place.json(&self.here, ["log", "-n", "1000"]);
        for entry in log["entries"].as_array().unwrap() {
            if entry["verdict"] == "rejected" {
                self.place.run(&self.here, ["drop", &entry["number"].to_string()]);
            }
        }
        for copy in [&self.here, &self.there, &self.here] {
            self.place.ok(copy, ["sync"]);
        }
        assert_same_tree(&self.here, &self.there);
    }
}

fn rejected(report: &Value) -> Vec<(&str, &str)> {
    let entries = report["entries"].as_array().unwrap().iter().filter(|entry| entry["verdict"] == "rejected");
    entries.map(|entry| (entry["reason"].as_str().unwrap(), entry["detail"].as_str().unwrap())).collect()
}

fn length(path: &Path) -> usize {
    usize::try_from(fs::metadata(path).unwrap().len()).unwrap()
}

#[test]
fn a_file_that_is_too_large_stays_here_and_everything_beside_it_arrives() {
    let two = two();
    fs::write(two.here.join("large"), noise(1, LIMIT + 1)).unwrap();
    fs::write(two.here.join("just fits"), noise(2, LIMIT)).unwrap();
    fs::write(two.here.join("small"), "text").unwrap();
    let report = two.refused();
    let [(reason, detail)] = rejected(&report)[..] else { panic!("{report}") };
    assert!(reason == "policy" && detail.contains("'large' has 100001 bytes"), "{report}");
    two.place.ok(&two.there, ["sync"]);
    assert!(two.there.join("just fits").exists() && two.there.join("small").exists());
    assert!(!two.there.join("large").exists());
    assert_eq!(two.not_synced(), ["large"]);

    // It is not offered again and again, and what comes later goes on.
    let entries = two.place.json(&two.here, ["log"])["entries"].as_array().unwrap().len();
    two.place.ok(&two.here, ["sync"]);
    assert_eq!(two.place.json(&two.here, ["log"])["entries"].as_array().unwrap().len(), entries);
    fs::write(two.here.join("later"), "text").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    assert!(two.there.join("later").exists());

    // Another content is another matter; and so is another limit.
    fs::write(two.here.join("large"), noise(3, LIMIT + 2)).unwrap();
    assert_eq!(rejected(&two.refused()).len(), 1);
    fs::write(two.here.join("large"), noise(4, LIMIT - 1)).unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    assert_eq!(length(&two.there.join("large")), LIMIT - 1);
    fs::write(two.here.join("large"), noise(5, LIMIT + 3)).unwrap();
    two.refused();
    two.offer_all_again();
    assert_eq!(length(&two.there.join("large")), LIMIT + 3);
    assert_eq!(two.not_synced(), [""; 0]);
}

#[test]
fn an_operation_that_makes_too_much_is_refused_and_what_needs_it_waits() {
    let two = two();
    for (name, seed) in [("a", 1), ("b", 2)] {
        fs::write(two.here.join(name), lines(seed, 1_000)).unwrap();
    }
    two.place.ok(&two.here, ["run", "sort", "--", "-o", "both", "a", "b"]);
    two.place.ok(&two.here, ["run", "gzip", "--", "-k", "both"]);
    fs::write(two.here.join("beside"), "text").unwrap();
    let report = two.refused();
    assert!(rejected(&report).iter().any(|(_, detail)| detail.contains("'both' has")), "{report}");
    two.place.ok(&two.there, ["sync"]);
    assert!(two.there.join("beside").exists() && two.there.join("a").exists() && !two.there.join("both").exists());
    let parked = first_parked(&two.place, &two.here).expect("what needs it waits");
    assert!(two.here.join("both").exists() && two.here.join("both.gz").exists());
    two.place.ok(&two.here, ["drop", &parked]);
    two.place.run(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    assert!(two.there.join("both.gz").exists(), "what is not too large goes by value");
    two.offer_all_again();
    assert_eq!(fs::read(two.there.join("both")).unwrap(), fs::read(two.here.join("both")).unwrap());
}

#[test]
fn what_another_writes_meanwhile_is_not_overwritten_and_nothing_is_lost() {
    let two = two();
    fs::write(two.here.join("f"), "start").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    fs::write(two.here.join("f"), noise(1, LIMIT + 1)).unwrap();
    fs::write(two.there.join("f"), "by another").unwrap();
    two.place.ok(&two.there, ["sync"]);
    two.place.run(&two.here, ["sync"]);
    two.place.run(&two.here, ["sync"]);
    two.offer_all_again();
    let all: Vec<Vec<u8>> =
        fs::read_dir(&two.there).unwrap().filter_map(|e| fs::read(e.unwrap().path()).ok()).collect();
    assert!(all.contains(&noise(1, LIMIT + 1)) && all.contains(&b"by another".to_vec()));
}

#[test]
fn what_takes_long_to_upload_is_refused_before() {
    const LONG: usize = 6 << 20;
    let two = two();
    fs::write(two.here.join("huge"), noise(1, LONG)).unwrap();
    let tap = Tap::start(two.server.authority().parse().unwrap()).unwrap();
    point(&two.here, tap.address());
    let printed = two
        .place
        .command(&two.here)
        .arg("sync")
        .env("OPSHIP_TOKEN", two.server.token())
        .output()
        .map(opship_tests::Printed::from)
        .unwrap();
    assert_eq!(printed.code, Some(1), "{printed}");
    assert!(tap.count().sent < 10_000, "{} bytes", tap.count().sent);
    point(&two.here, two.server.authority().parse().unwrap());
    two.offer_all_again();
    assert_eq!(length(&two.there.join("huge")), LONG);
}

#[test]
fn what_the_workspace_has_may_have_another_name_and_what_stands_over_it_is_in_nobodys_way() {
    let two = two();
    two.limit("none");
    fs::write(two.here.join("large"), noise(1, LIMIT + 1)).unwrap();
    fs::write(two.here.join("f"), "small").unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.limit("100 kB");
    fs::rename(two.here.join("large"), two.here.join("renamed")).unwrap();
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    assert_eq!(length(&two.there.join("renamed")), LIMIT + 1);

    fs::write(two.here.join("f"), noise(2, LIMIT + 2)).unwrap();
    two.refused();
    // By disk all the rest goes.
    let bundle = two.place.path("bundle");
    two.place.ok(&two.here, ["bundle", "create", bundle.to_str().unwrap()]);
    // What stands there is not replaced, and nobody says that it is so already.
    let told = two.place.json(&two.here, ["restore", "f", "--version", "1", "--dry-run"]);
    assert_eq!(told["paths"], json!(["f"]));
    let restored = two.place.run(&two.here, ["restore", "f", "--version", "1"]);
    assert!(restored.code != Some(0) && String::from_utf8_lossy(&restored.stderr).contains("'f'"), "{restored}");
    assert_eq!(length(&two.here.join("f")), LIMIT + 2);
}

#[test]
fn a_result_that_fits_is_shipped_where_the_one_on_new_inputs_would_not_fit() {
    let two = two();
    for (name, seed) in [("a", 1u64), ("b", 2)] {
        fs::write(two.here.join(name), lines(seed, 600)).unwrap();
    }
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    fs::write(two.there.join("b"), lines(3, 1_500)).unwrap();
    two.place.ok(&two.there, ["sync"]);
    two.place.ok(&two.here, ["run", "sort", "--", "-o", "both", "a", "b"]);
    let both = length(&two.here.join("both"));
    two.place.run(&two.here, ["sync"]);
    two.place.ok(&two.here, ["sync"]);
    two.place.ok(&two.there, ["sync"]);
    assert_eq!(length(&two.there.join("both")), both);
}

fn lines(seed: u64, count: u64) -> String {
    (0..count).map(|n| format!("{}\n", opship_record::Hash::of(&(seed * 1_000_000 + n).to_le_bytes()))).collect()
}
