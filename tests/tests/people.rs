//! Three people work on one workspace at random, with syncs in any order: in the end all have the same tree, and everything
//! that was ever recorded is in it, in a version, or kept for an entry.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::Hash;
use opship_tests::{Place, Server, assert_same_tree, first_parked, snapshot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const PEOPLE: usize = 3;
/// Few names, so that people meet.
const NAMES: [&str; 6] = ["a", "b", "d/a", "d/b", "e", "A"];

/// What somebody does. Numbers pick names; what cannot be done is not.
#[derive(Debug, Clone)]
enum Act {
    Write(usize),
    Append(usize),
    Remove(usize),
    Rename(usize, usize),
    RemoveFolder,
    Sort(usize, usize),
    Compress(usize),
    /// Writes, and has an operation replace that at once.
    WriteAndSort(usize),
    Sync,
    Undo(usize),
    Restore(usize, u64),
    Resolve(&'static str),
    Drop,
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    // Most of it about one file, so that changes of it wait for each other.
    let name = || prop_oneof![Just(0), 0..NAMES.len()];
    let act = prop_oneof![
        4 => name().prop_map(Act::Write),
        2 => name().prop_map(Act::Append),
        1 => name().prop_map(Act::Remove),
        2 => (name(), name()).prop_map(|(from, to)| Act::Rename(from, to)),
        1 => Just(Act::RemoveFolder),
        3 => (name(), name()).prop_map(|(from, to)| Act::Sort(from, to)),
        1 => name().prop_map(Act::Compress),
        3 => name().prop_map(Act::WriteAndSort),
        6 => Just(Act::Sync),
        1 => (0..4usize).prop_map(Act::Undo),
        2 => (name(), 0..3u64).prop_map(|(name, back)| Act::Restore(name, back)),
        1 => prop::sample::select(vec!["mine", "theirs", "both"]).prop_map(Act::Resolve),
        1 => Just(Act::Drop),
    ];
    (0..PEOPLE, act)
}

struct Workspace {
    place: Place,
    server: Server,
    copies: Vec<PathBuf>,
    /// What was in a folder at a sync that succeeded, and what another command replaced.
    recorded: BTreeMap<Hash, String>,
    /// What operations made.
    made: BTreeSet<Hash>,
    texts: u32,
}

impl Workspace {
    fn new() -> Workspace {
        let place = Place::new();
        let server = Server::start(&place);
        let first = place.init(&server, "0", "main");
        fs::create_dir(first.join("d")).unwrap();
        for name in &NAMES[..4] {
            fs::write(first.join(name), format!("start of {name}\n")).unwrap();
        }
        place.ok(&first, ["sync"]);
        let mut copies = vec![first];
        for number in 1..PEOPLE {
            place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), &number.to_string()]);
            copies.push(place.path(number.to_string()));
        }
        Workspace { place, server, copies, recorded: BTreeMap::new(), made: BTreeSet::new(), texts: 0 }
    }

    fn act(&mut self, person: usize, act: &Act) {
        let copy = self.copies[person].clone();
        let at = |name: &usize| copy.join(NAMES[*name]);
        // Whoever does what cannot be done is told so, and nothing has happened.
        match act {
            Act::Write(name) => self.by_hand(&copy, |text| {
                let _ = at(name).parent().map(fs::create_dir_all);
                let _ = fs::write(at(name), format!("{person} {text}"));
            }),
            Act::Append(name) => self.by_hand(&copy, |text| {
                if let Ok(old) = fs::read_to_string(at(name)) {
                    fs::write(at(name), format!("{old}{person} {text}")).unwrap();
                }
            }),
            Act::Remove(name) => self.by_hand(&copy, |_| drop(fs::remove_file(at(name)))),
            Act::Rename(from, to) => self.by_hand(&copy, |_| drop(fs::rename(at(from), at(to)))),
            Act::RemoveFolder => self.by_hand(&copy, |_| drop(fs::remove_dir_all(copy.join("d")))),
            Act::Sort(from, to) => self.operation(&copy, &["run", "sort", "--", "-o", NAMES[*to], NAMES[*from]]),
            Act::Compress(name) => self.operation(&copy, &["run", "gzip", "--", "-kf", NAMES[*name]]),
            Act::WriteAndSort(name) => {
                self.act(person, &Act::Write(*name));
                self.act(person, &Act::Append(*name));
                self.act(person, &Act::Sort(*name, *name));
            }
            Act::Sync => self.sync(&copy),
            Act::Undo(back) => {
                let log = self.place.json(&copy, ["log"]);
                if let Some(entry) = log["entries"].as_array().unwrap().get(*back) {
                    self.command(&copy, &["undo", "--force", &entry["number"].to_string()]);
                }
            }
            Act::Restore(name, back) => {
                let version = self.place.json(&copy, ["status"])["version"].as_u64().unwrap().saturating_sub(*back);
                self.command(&copy, &["restore", NAMES[*name], "--version", &version.to_string()]);
            }
            Act::Resolve(keep) => self.command(&copy, &["resolve", "--all", "--keep", keep]),
            Act::Drop => self.drop_parked(&copy),
        }
    }

    /// Whoever replaces by hand what his own operation has made, and the server does not have yet, has only the operation left.
    fn by_hand(&mut self, copy: &Path, act: impl FnOnce(String)) {
        let before = files(copy);
        self.texts += 1;
        act(format!("wrote this as number {}\n", self.texts));
        for (_, hash) in changed(before, &files(copy)) {
            if self.made.contains(&hash) && !self.server_has(&hash) {
                self.recorded.remove(&hash);
            }
        }
    }

    fn operation(&mut self, copy: &Path, arguments: &[&str]) {
        let before = files(copy);
        self.command(copy, arguments);
        self.made.extend(changed(files(copy), &before).into_values());
    }

    /// Whatever a command replaces is somebody's, also if it was never in a folder at a sync.
    fn command(&mut self, copy: &Path, arguments: &[&str]) {
        let before = files(copy);
        self.place.run(copy, arguments);
        self.recorded.extend(changed(before, &files(copy)).into_iter().map(|(name, hash)| (hash, name)));
    }

    fn server_has(&self, hash: &Hash) -> bool {
        self.server.request("GET", &format!("/v1/workspaces/main/blobs/{hash}"), b"").0 == 200
    }

    fn sync(&mut self, copy: &Path) {
        // What the folder holds now is recorded, whatever the sync makes of it.
        let before = contents(copy);
        self.place.ok(copy, ["sync"]);
        self.recorded.extend(before);
        self.recorded.extend(contents(copy));
    }

    fn drop_parked(&mut self, copy: &Path) {
        while let Some(parked) = first_parked(&self.place, copy) {
            self.command(copy, &["drop", &parked]);
            assert_ne!(first_parked(&self.place, copy), Some(parked), "it was dropped");
        }
    }

    fn settle(&mut self) {
        for _ in 0..3 {
            for copy in self.copies.clone() {
                self.sync(&copy);
                self.drop_parked(&copy);
            }
        }
        for copy in self.copies.clone() {
            self.sync(&copy);
        }
    }

    /// Every content is in the tree, or the server gives it.
    fn check(&self) {
        for copy in &self.copies[1..] {
            assert_same_tree(&self.copies[0], copy);
        }
        let here = contents(&self.copies[0]);
        for (hash, name) in &self.recorded {
            assert!(here.contains_key(hash) || self.server_has(hash), "what was at {name} is lost");
        }
        for copy in &self.copies {
            let status = self.place.json(copy, ["status"]);
            for left in ["pending", "changes", "deferred"] {
                assert_eq!(status[left], serde_json::json!([]), "{left}");
            }
        }
    }
}

fn files(copy: &Path) -> BTreeMap<String, Hash> {
    let read = |name: String| Some((name.clone(), Hash::of(&fs::read(copy.join(name)).ok()?)));
    snapshot(copy).into_keys().filter_map(read).collect()
}

/// The files that are otherwise in `other`.
fn changed(mut files: BTreeMap<String, Hash>, other: &BTreeMap<String, Hash>) -> BTreeMap<String, Hash> {
    files.retain(|name, hash| other.get(name) != Some(hash));
    files
}

fn contents(copy: &Path) -> BTreeMap<Hash, String> {
    files(copy).into_iter().map(|(name, hash)| (hash, name)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_three_people_do_all_converge_and_nothing_recorded_is_lost(acts in prop::collection::vec(act(), 10..40)) {
        let mut workspace = Workspace::new();
        for (person, act) in &acts {
            workspace.act(*person, act);
        }
        workspace.settle();
        workspace.check();
    }
}
