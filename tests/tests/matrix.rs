//! What two and three people do to the same things at the same time, in every combination: all end with the same tree, and
//! everything that any of them wrote is in it.
//!
//! Each combination has a folder of its own in one workspace, so that a few syncs settle hundreds of them. Who syncs first
//! is covered by the combinations themselves: each action stands in each place.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, assert_same_tree, snapshot};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Something that somebody does in a folder made by [`base`]. What it writes is `text`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Nothing,
    Edit,
    Delete,
    Rename,
    RenameCase,
    ToFolder,
    ToLink,
    Mode,
    Touch,
    EditBelow,
    AddBelow,
    DeleteFolder,
    RenameFolder,
    FolderToFile,
    FillEmpty,
    RemoveEmpty,
    EmptyToFile,
    Retarget,
    RemoveLink,
    LinkToFile,
    NewFile,
    NewFolder,
    NewLink,
    SwapNames,
}

use Action::*;

const ALL: [Action; 24] = [
    Nothing,
    Edit,
    Delete,
    Rename,
    RenameCase,
    ToFolder,
    ToLink,
    Mode,
    Touch,
    EditBelow,
    AddBelow,
    DeleteFolder,
    RenameFolder,
    FolderToFile,
    FillEmpty,
    RemoveEmpty,
    EmptyToFile,
    Retarget,
    RemoveLink,
    LinkToFile,
    NewFile,
    NewFolder,
    NewLink,
    SwapNames,
];

/// Those of which three at once are of interest.
const SOME: [Action; 8] = [Edit, Delete, Rename, ToFolder, EditBelow, DeleteFolder, FolderToFile, NewFile];

/// The folder that all begin with.
fn base(folder: &Path) {
    fs::create_dir_all(folder.join("d")).unwrap();
    fs::create_dir_all(folder.join("e")).unwrap();
    for (name, text) in [("f", "the file"), ("d/x", "below"), ("h", "another file")] {
        fs::write(folder.join(name), format!("{text} in {}", folder.file_name().unwrap().to_string_lossy())).unwrap();
    }
    symlink("f", folder.join("l")).unwrap();
}

impl Action {
    /// Does it, and tells what must be found again: contents, and targets of links.
    fn act(self, folder: &Path, text: &str) -> Vec<String> {
        let at = |name: &str| folder.join(name);
        let write = |name: &str| {
            fs::write(at(name), text).unwrap();
            vec![text.to_owned()]
        };
        let link = |name: &str| {
            symlink(text, at(name)).unwrap();
            vec![text.to_owned()]
        };
        match self {
            Nothing => {}
            Edit => return write("f"),
            Delete => fs::remove_file(at("f")).unwrap(),
            Rename => fs::rename(at("f"), at("g")).unwrap(),
            RenameCase => fs::rename(at("f"), at("F")).unwrap(),
            ToFolder => {
                fs::remove_file(at("f")).unwrap();
                fs::create_dir(at("f")).unwrap();
                return write("f/new");
            }
            ToLink => {
                fs::remove_file(at("f")).unwrap();
                return link("f");
            }
            Mode => fs::set_permissions(at("f"), fs::Permissions::from_mode(0o755)).unwrap(),
            Touch => {
                let file = fs::File::options().write(true).open(at("f")).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + text.len() as u64)).unwrap();
            }
            EditBelow => return write("d/x"),
            AddBelow => return write("d/y"),
            DeleteFolder => fs::remove_dir_all(at("d")).unwrap(),
            RenameFolder => fs::rename(at("d"), at("d2")).unwrap(),
            FolderToFile => {
                fs::remove_dir_all(at("d")).unwrap();
                return write("d");
            }
            FillEmpty => return write("e/z"),
            RemoveEmpty => fs::remove_dir(at("e")).unwrap(),
            EmptyToFile => {
                fs::remove_dir(at("e")).unwrap();
                return write("e");
            }
            Retarget => {
                fs::remove_file(at("l")).unwrap();
                return link("l");
            }
            RemoveLink => fs::remove_file(at("l")).unwrap(),
            LinkToFile => {
                fs::remove_file(at("l")).unwrap();
                return write("l");
            }
            NewFile => return write("n"),
            NewFolder => {
                fs::create_dir(at("n")).unwrap();
                return write("n/q");
            }
            NewLink => return link("n"),
            SwapNames => {
                fs::rename(at("f"), at("t")).unwrap();
                fs::rename(at("h"), at("f")).unwrap();
                fs::rename(at("t"), at("h")).unwrap();
            }
        }
        Vec::new()
    }
}

/// One workspace, the working copies of several people, and a folder for each combination of what they do.
struct Everyone {
    place: Place,
    _server: Server,
    copies: Vec<PathBuf>,
    combinations: Vec<Vec<Action>>,
}

impl Everyone {
    fn new(people: usize, actions: &[Action]) -> Everyone {
        let place = Place::new();
        let server = Server::start(&place);
        let first = place.init(&server, "0", "main");
        let combinations = combinations(people, actions);
        for number in 0..combinations.len() {
            base(&first.join(number.to_string()));
        }
        place.ok(&first, ["sync"]);
        let mut copies = vec![first];
        for number in 1..people {
            let name = number.to_string();
            place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), &name]);
            copies.push(place.path(&name));
        }
        Everyone { place, _server: server, copies, combinations }
    }

    /// All act, then all sync until nothing moves. Gives what must be found again, by combination.
    fn act(&self) -> Vec<Vec<String>> {
        let mut written = vec![Vec::new(); self.combinations.len()];
        for (person, copy) in self.copies.iter().enumerate() {
            for (number, actions) in self.combinations.iter().enumerate() {
                let text = format!("{person}: {:?} in {number}", actions[person]);
                written[number].extend(actions[person].act(&copy.join(number.to_string()), &text));
            }
        }
        for _ in 0..=self.copies.len() {
            self.copies.iter().for_each(|copy| drop(self.place.ok(copy, ["sync"])));
        }
        written
    }

    fn check(&self) {
        let written = self.act();
        for copy in &self.copies[1..] {
            assert_same_tree(&self.copies[0], copy);
        }
        for copy in &self.copies {
            let status = self.place.json(copy, ["status"]);
            for left in ["pending", "changes", "deferred", "unsupported"] {
                assert_eq!(status[left], serde_json::json!([]), "{left}");
            }
        }
        let mut lost = Vec::new();
        for (number, texts) in written.iter().enumerate() {
            let held = held(&self.copies[0].join(number.to_string()));
            let missing: Vec<&String> = texts.iter().filter(|text| !held.contains(*text)).collect();
            if !missing.is_empty() {
                lost.push(format!("{:?}: {missing:?} of {held:?}", self.combinations[number]));
            }
        }
        assert!(lost.is_empty(), "lost:\n{}", lost.join("\n"));
    }
}

/// Every way in which so many people can each do one of these.
fn combinations(people: usize, actions: &[Action]) -> Vec<Vec<Action>> {
    let mut all = vec![Vec::new()];
    for _ in 0..people {
        let longer = |one: &Vec<Action>| {
            actions.iter().map(|action| one.iter().copied().chain([*action]).collect()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// All contents of files and targets of links in a folder.
fn held(folder: &Path) -> BTreeSet<String> {
    let mut held = BTreeSet::new();
    if !folder.exists() {
        return held;
    }
    for name in snapshot(folder).into_keys() {
        let path = folder.join(name);
        match fs::read_link(&path) {
            Ok(target) => held.insert(target.to_string_lossy().into_owned()),
            Err(_) => match fs::read_to_string(&path) {
                Ok(text) => held.insert(text),
                Err(_) => false,
            },
        };
    }
    held
}

#[test]
fn two_people_do_anything_to_the_same_things() {
    Everyone::new(2, &ALL).check();
}

#[test]
fn three_people_do_anything_to_the_same_things() {
    Everyone::new(3, &SOME).check();
}

/// Those of which two clash.
const CLASHING: [Action; 9] =
    [Edit, Delete, ToFolder, EditBelow, AddBelow, DeleteFolder, RenameFolder, FolderToFile, NewFile];

/// Those of them that are about the folder `d`.
const BELOW: [Action; 5] = [EditBelow, AddBelow, DeleteFolder, RenameFolder, FolderToFile];

/// Everybody decides all, and nothing is left of it: no copy, no folder that held one.
fn all_is_decided(keep: &str) {
    let everyone = Everyone::new(2, &CLASHING);
    everyone.act();
    let is_copy = |name: &String| name.contains("(conflict ");
    let mut decided = 0;
    for copy in &everyone.copies {
        let listed = everyone.place.json(copy, ["conflicts"]);
        let copies = listed["conflicts"].as_array().unwrap().iter().flat_map(|c| c["copies"].as_array().unwrap());
        let listed: BTreeSet<String> = copies.map(|copy| copy["copy"].as_str().unwrap().to_owned()).collect();
        let on_disk: BTreeSet<String> = snapshot(copy).into_keys().filter(is_copy).collect();
        assert_eq!(listed, on_disk, "what is kept is what is listed");
        for (number, actions) in everyone.combinations.iter().enumerate() {
            // Where only one of the two has done something to what clashes, there is nothing to decide.
            let clashes = actions.iter().all(|action| [Edit, Delete, ToFolder].contains(action))
                || actions.iter().all(|action| BELOW.contains(action))
                || actions[0] == actions[1];
            let own = format!("{number}/");
            assert!(clashes || !listed.iter().any(|name| name.starts_with(&own)), "{actions:?}: {listed:?}");
        }
        decided += listed.len();
        if !listed.is_empty() {
            everyone.place.ok(copy, ["resolve", "--all", "--keep", keep]);
        }
        for _ in 0..2 {
            everyone.copies.iter().for_each(|copy| drop(everyone.place.ok(copy, ["sync"])));
        }
    }
    assert!(decided > 0, "there was something to decide");
    assert_same_tree(&everyone.copies[0], &everyone.copies[1]);
    for copy in &everyone.copies {
        assert_eq!(everyone.place.json(copy, ["conflicts"])["conflicts"], serde_json::json!([]), "{keep}");
        let left: Vec<String> = snapshot(copy).into_keys().collect();
        assert!(!left.iter().any(is_copy), "{keep}: {left:?}");
        let is_empty = |name: &&String| fs::read_dir(copy.join(name)).is_ok_and(|mut all| all.next().is_none());
        let empty: Vec<&String> = left.iter().filter(is_empty).filter(|name| !name.ends_with("/e")).collect();
        assert!(empty.is_empty(), "{keep}: {empty:?}");
    }
}

#[test]
fn deciding_for_mine_leaves_nothing_behind() {
    all_is_decided("mine");
}

#[test]
fn deciding_for_theirs_leaves_nothing_behind() {
    all_is_decided("theirs");
}

#[test]
fn deciding_for_both_leaves_nothing_behind() {
    all_is_decided("both");
}

#[test]
fn what_is_ignored_here_is_never_overwritten_by_what_others_make_there() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("kept"), "1").unwrap();
    place.ok(&here, ["sync"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    let there = place.path("there");
    fs::write(there.join("secret"), "theirs").unwrap();
    fs::create_dir(there.join("cache")).unwrap();
    fs::write(there.join("cache/entry"), "theirs").unwrap();
    place.ok(&there, ["sync"]);
    fs::write(here.join(".opshipignore"), "secret\ncache\n").unwrap();
    fs::write(here.join("secret"), "mine").unwrap();
    fs::write(here.join("cache"), "mine").unwrap();
    for _ in 0..2 {
        place.ok(&here, ["sync"]);
        place.ok(&there, ["sync"]);
    }
    for name in ["secret", "cache"] {
        assert_eq!(fs::read_to_string(here.join(name)).unwrap(), "mine", "{name}");
    }
    assert_eq!(fs::read_to_string(there.join("secret")).unwrap(), "theirs");
    let status = place.json(&here, ["status"]);
    let left: Vec<&str> =
        status["deferred"].as_array().unwrap().iter().map(|path| path["path"].as_str().unwrap()).collect();
    assert_eq!(left, ["cache", "cache/entry", "secret"], "{status}");
    // Once they are out of the way, theirs come.
    fs::rename(here.join("secret"), here.join("secret.mine")).unwrap();
    fs::rename(here.join("cache"), here.join("cache.mine")).unwrap();
    place.ok(&here, ["sync"]);
    assert_eq!(fs::read_to_string(here.join("secret")).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(here.join("cache/entry")).unwrap(), "theirs");
    place.ok(&there, ["sync"]);
    assert_same_tree(&here, &there);
}
