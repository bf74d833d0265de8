//! Trees and change lists against a plain model of a file system.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::{Model, Nodes, after, build, changes_between, directory, file, path, read};
use opship_record::effect::{After, Before, Change, Origins, decode_list, encode_list};
use opship_record::node::{Content, Kind, Node};
use opship_record::tree;
use opship_record::{Hash, TreePath};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};

/// A call that a program makes. One that a file system would refuse does nothing.
#[derive(Debug, Clone)]
enum Call {
    Write(TreePath, u8),
    MakeDirectory(TreePath),
    Link(TreePath, u8),
    Mode(TreePath, u16),
    RemoveAll(TreePath),
    Rename(TreePath, TreePath),
    /// Some path that is there to some directory that is there, under a name.
    RenameAny(Index, Index, &'static str),
}

/// A node, and for a directory that the tree before held, where it was.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    node: Node,
    from: Option<TreePath>,
}

#[derive(Debug, Clone, Default)]
struct Files(BTreeMap<TreePath, Item>);

impl Files {
    /// The state that a run starts from.
    fn at_start(model: &Model) -> Files {
        let item = |(path, node): (&TreePath, &Node)| {
            let from = (node.kind() == Kind::Directory).then(|| path.clone());
            (path.clone(), Item { node: node.clone(), from })
        };
        Files(model.iter().map(item).collect())
    }

    fn model(&self) -> Model {
        self.0.iter().map(|(path, item)| (path.clone(), item.node.clone())).collect()
    }

    fn is_directory(&self, path: &TreePath) -> bool {
        path.is_root() || self.0.get(path).is_some_and(|item| item.node.kind() == Kind::Directory)
    }

    fn below(&self, path: &TreePath) -> Vec<TreePath> {
        self.0.keys().filter(|other| other.starts_with(path)).cloned().collect()
    }

    fn call(&mut self, call: &Call) {
        let fits = |path: &TreePath| path.parent().is_some_and(|parent| self.is_directory(&parent));
        match call {
            Call::Write(path, _) | Call::Link(path, _) if !fits(path) || self.is_directory(path) => {}
            Call::Write(path, content) => self.put(path, file(&format!("{content}"))),
            Call::Link(path, target) => self.put(path, Node::Symlink { mtime: 3, target: vec![b'a' + target] }),
            Call::MakeDirectory(path) if fits(path) && !self.0.contains_key(path) => self.put(path, directory()),
            Call::Mode(path, new) => {
                let node = self.0.get_mut(path).map(|item| &mut item.node);
                if let Some(Node::File { mode, .. } | Node::Directory { mode }) = node {
                    *mode = *new;
                }
            }
            Call::RemoveAll(path) => self.below(path).iter().for_each(|path| drop(self.0.remove(path))),
            Call::Rename(from, to) if self.0.contains_key(from) && fits(to) && !to.starts_with(from) => {
                let free = match (self.is_directory(from), self.0.contains_key(to)) {
                    (_, false) => true,
                    (true, true) => self.is_directory(to) && self.below(to).len() == 1,
                    (false, true) => !self.is_directory(to),
                };
                if free {
                    for old in self.below(from) {
                        let item = self.0.remove(&old).unwrap();
                        self.0.insert(to.append(&old.strip_prefix(from).unwrap()).unwrap(), item);
                    }
                }
            }
            Call::RenameAny(from, to, name) if !self.0.is_empty() => {
                let from = from.get(&self.0.keys().cloned().collect::<Vec<_>>()).clone();
                let mut directories = vec![TreePath::root()];
                directories.extend(self.0.keys().filter(|path| self.is_directory(path)).cloned());
                let to = to.get(&directories).join(name).unwrap();
                self.call(&Call::Rename(from, to));
            }
            Call::MakeDirectory(_) | Call::Rename(..) | Call::RenameAny(..) => {}
        }
    }

    fn put(&mut self, path: &TreePath, node: Node) {
        self.0.insert(path.clone(), Item { node, from: None });
    }
}

/// What a run that turned `old` into `new` states, and for each path where its state before was to be found.
struct Stated<'a> {
    old: &'a Model,
    new: &'a Files,
    left: BTreeSet<TreePath>,
    changes: BTreeMap<TreePath, (Change, Option<TreePath>)>,
}

fn state<'a>(old: &'a Model, new: &'a Files) -> Stated<'a> {
    let mut stated = Stated { old, new, left: BTreeSet::new(), changes: BTreeMap::new() };
    // Which directories have moved shows only when that is known, so until it stays the same.
    loop {
        stated.changes.clear();
        stated.directory(&TreePath::root(), Some(&TreePath::root()));
        let moved = |(change, _): &(Change, Option<TreePath>)| match &change.after {
            After::Moved { from, .. } => Some(from.clone()),
            _ => None,
        };
        let left: BTreeSet<TreePath> = stated.changes.values().filter_map(moved).collect();
        if left == stated.left {
            return stated;
        }
        stated.left = left;
    }
}

fn names<'a>(paths: impl Iterator<Item = &'a TreePath>, of: &TreePath) -> BTreeSet<String> {
    paths.filter(|p| p.parent().as_ref() == Some(of)).map(|p| p.name().unwrap().to_owned()).collect()
}

impl Stated<'_> {
    /// What changed in a directory; `origin` is where what it holds was before, `None` for a new one.
    fn directory(&mut self, path: &TreePath, origin: Option<&TreePath>) {
        let mut all = names(self.new.0.keys(), path);
        all.extend(origin.map(|origin| names(self.old.keys(), origin)).unwrap_or_default());
        for name in all {
            let origin = origin.map(|origin| origin.join(&name).unwrap());
            self.path(&path.join(&name).unwrap(), origin);
        }
    }

    fn path(&mut self, path: &TreePath, origin: Option<TreePath>) {
        let old = origin.as_ref().and_then(|origin| self.old.get(origin));
        let new = self.new.0.get(path);
        let has_left = origin.as_ref().is_some_and(|origin| self.left.contains(origin));
        let held = origin.clone().filter(|_| !has_left && old.is_some_and(|o| o.kind() == Kind::Directory));
        let Some(Item { node, from }) = new else {
            if old.is_some() {
                self.add(path, origin, After::Removed);
                held.iter().for_each(|held| self.directory(path, Some(held)));
            }
            return;
        };
        match (node, from) {
            (Node::Directory { mode }, Some(from)) if Some(from) == origin.as_ref() => {
                if old != Some(node) {
                    self.add(path, origin.clone(), After::Directory { mode: Some(*mode) });
                }
                self.directory(path, origin.as_ref());
            }
            (Node::Directory { mode }, Some(from)) => {
                let mode = (self.old.get(from) != Some(node)).then_some(*mode);
                self.add(path, origin, After::Moved { from: from.clone(), mode });
                self.directory(path, Some(from));
            }
            _ if old == Some(node) && node.kind() != Kind::Directory => {}
            _ => {
                self.add(path, origin, after(node));
                self.directory(path, held.as_ref());
            }
        }
    }

    fn add(&mut self, path: &TreePath, origin: Option<TreePath>, after: After) {
        let old = origin.as_ref().and_then(|origin| self.old.get(origin));
        let before = match old.map(Node::content) {
            Some(content) => Before::of(&content),
            None => Before::Absent { missing: path.clone(), above: Kind::Directory },
        };
        let change = Change { path: path.clone(), before, after };
        assert!(self.changes.insert(path.clone(), (change, origin)).is_none());
    }
}

fn some_name() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("a-b"), Just("c")]
}

fn some_path() -> impl Strategy<Value = TreePath> {
    prop::collection::vec(some_name(), 1..4).prop_map(|names| path(&names.join("/")))
}

fn some_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => (some_path(), any::<u8>()).prop_map(|(path, content)| Call::Write(path, content)),
        4 => some_path().prop_map(Call::MakeDirectory),
        1 => (some_path(), 0..3u8).prop_map(|(path, target)| Call::Link(path, target)),
        1 => (some_path(), prop_oneof![Just(0o700), Just(0o711)]).prop_map(|(path, mode)| Call::Mode(path, mode)),
        2 => some_path().prop_map(Call::RemoveAll),
        2 => (some_path(), some_path()).prop_map(|(from, to)| Call::Rename(from, to)),
        8 => (any::<Index>(), any::<Index>(), some_name()).prop_map(|(from, to, name)| Call::RenameAny(from, to, name)),
    ]
}

fn check_run(model: &Model, calls: &[Call]) {
    let mut files = Files::at_start(model);
    calls.iter().for_each(|call| files.call(call));
    let mut store = Nodes::default();
    let root = build(&mut store, model);
    let stated = state(model, &files);
    let changes: Vec<Change> = stated.changes.values().map(|(change, _)| change.clone()).collect();
    assert_eq!(decode_list(&encode_list(&changes)).as_ref(), Ok(&changes));
    let origins = Origins::new(&changes);
    for (path, (_, origin)) in &stated.changes {
        assert_eq!(&origins.of(path), origin, "origin of {path}");
        let left = origin.as_ref().is_some_and(|origin| stated.left.contains(origin));
        assert_eq!(origins.has_left(path), left, "{path}");
    }
    let result = tree::apply(&mut store, &root, &changes).unwrap();
    assert_eq!(read(&store, &result), files.model(), "{changes:#?}");
    assert_eq!(result, build(&mut store, &files.model()));
    tree::verify(&store, &result).unwrap();
}

fn grown(calls: &[Call]) -> Model {
    let mut files = Files::default();
    calls.iter().for_each(|call| files.call(call));
    files.model()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn what_a_run_states_turns_the_tree_before_into_the_one_after(
        start in prop::collection::vec(some_call(), 0..40),
        calls in prop::collection::vec(some_call(), 0..14),
    ) {
        check_run(&grown(&start), &calls);
    }

    #[test]
    fn a_difference_applied_gives_the_other_tree(
        a in prop::collection::vec(some_call(), 0..40),
        b in prop::collection::vec(some_call(), 0..40),
    ) {
        let mut store = Nodes::default();
        let (a, b) = (build(&mut store, &grown(&a)), build(&mut store, &grown(&b)));
        let changes = changes_between(&store, &a, &b);
        prop_assert_eq!(decode_list(&encode_list(&changes)), Ok(changes.clone()));
        prop_assert_eq!(changes.is_empty(), a == b);
        prop_assert_eq!(tree::apply(&mut store, &a, &changes).unwrap(), b);
    }
}

fn start() -> Model {
    let directories = ["a", "a/x", "a/x/y", "b", "b/y"];
    let files = ["a/1", "a/x/2", "a/x/y/3", "b/4", "b/y/5"];
    let directories = directories.iter().map(|d| (path(d), directory()));
    directories.chain(files.iter().map(|f| (path(f), file(f)))).collect()
}

fn renames(text: &str) -> Vec<Call> {
    let call = |call: &str| match call.split(' ').collect::<Vec<_>>()[..] {
        ["mv", from, to] => Call::Rename(path(from), path(to)),
        ["rm", path_] => Call::RemoveAll(path(path_)),
        ["mkdir", path_] => Call::MakeDirectory(path(path_)),
        ["write", path_] => Call::Write(path(path_), 7),
        _ => panic!("{call}"),
    };
    text.split("; ").map(call).collect()
}

#[test]
fn directories_swap_nest_and_return() {
    for run in [
        "mv a t; mv b a; mv t b",
        "mv a t; mv b a; mv t b; write a/new; rm b/x/2",
        "mv a/x b/x; mv b c; mkdir b; write b/n",
        "mv a c; mkdir a; write a/1; mv c/x a/x",
        // Into the place that it had itself, and out of itself.
        "mkdir t; mv a t/in; mv t a",
        "mv a/x t; rm a; mv t a",
        "mv a/x t; mv a t/z; mv t a",
        "mv a/x t; rm a; mv b a; mv t a/x",
        "mv a/x/y t; rm a/x; mv t a/x; write a/x/n",
        // Over a directory that became empty.
        "rm b/4; rm b/y; mv a b",
        "rm b/4; mv b/y z; mv a b; mv z b/y",
        "rm a; write a",
        "rm a; mkdir a; write a/1",
    ] {
        check_run(&start(), &renames(run));
    }
}

fn moved(to: &str, from: &str) -> Change {
    let before = Before::Absent { missing: path(to), above: Kind::Directory };
    Change { path: path(to), before, after: After::Moved { from: path(from), mode: None } }
}

fn removed(path_: &str) -> Change {
    Change { path: path(path_), before: Before::Directory, after: After::Removed }
}

#[test]
fn a_directory_never_ends_up_in_two_places_or_in_none() {
    let mode = Change {
        path: path("a"),
        before: Before::Kind { kind: Kind::Directory },
        after: After::Metadata { kind: Kind::Directory, mode: Some(0o700), mtime: None },
    };
    let mut store = Nodes::default();
    let root = build(&mut store, &start());
    for list in [
        vec![moved("c", "a")],
        vec![removed("a"), moved("c", "a"), moved("d", "a")],
        vec![mode.clone(), moved("c", "a")],
        vec![mode, moved("c", "a/x")],
        vec![removed("a"), moved("c", "a/x")],
        vec![removed("a"), moved("c", "a"), moved("d", "a/x")],
    ] {
        assert!(decode_list(&encode_list(&list)).is_err(), "{list:#?}");
        assert!(tree::apply(&mut store, &root, &list).is_err(), "{list:#?}");
    }
    // With what the old tree holds unlisted, or no directory to stand in, a list is well-formed but does not fit.
    for list in
        [vec![removed("a")], vec![removed("a"), moved("a/c", "a")], vec![moved("c", "nothing"), removed("nothing")]]
    {
        assert_eq!(decode_list(&encode_list(&list)).as_ref(), Ok(&list));
        assert!(tree::apply(&mut store, &root, &list).is_err(), "{list:#?}");
    }
}

#[test]
fn states_before_are_found_below_moved_and_new_directories() {
    let made = Change {
        path: path("n"),
        before: Before::Absent { missing: path("n"), above: Kind::Directory },
        after: After::Directory { mode: None },
    };
    let list = [removed("a"), moved("c", "a"), moved("c/x", "b"), removed("b"), made];
    let mut list = list.to_vec();
    list.sort_by(|a, b| a.path.cmp(&b.path));
    let origins = Origins::new(&list);
    assert_eq!(origins.of(&path("c/1")), Some(path("a/1")));
    assert_eq!(origins.of(&path("c/x")), Some(path("a/x")));
    assert_eq!(origins.of(&path("c/x/y/5")), Some(path("b/y/5")));
    assert_eq!(origins.of(&path("n/1")), None);
    assert_eq!(origins.of(&path("other")), Some(path("other")));
    assert!(origins.has_left(&path("a")) && origins.has_left(&path("b")) && !origins.has_left(&path("c")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_root_does_not_depend_on_the_order_of_edits(
        names in prop::collection::btree_set("[a-f]{1,3}", 0..260),
        removed in prop::collection::vec(any::<Index>(), 0..240),
        order in any::<u64>(),
        batch in 1usize..50,
    ) {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_by_key(|name| Hash::of(format!("{order}{name}").as_bytes()).to_string());
        let change = |name: &String, after| Change {
            path: path(name),
            before: Before::of(&Content::Directory),
            after,
        };
        let mut edits: Vec<Change> = names.iter().map(|name| change(name, after(&file(name)))).collect();
        let mut model: Model = names.iter().map(|name| (path(name), file(name))).collect();
        for index in removed.iter().filter(|_| !names.is_empty()) {
            let name = index.get(&names);
            if model.remove(&path(name)).is_some() {
                edits.push(change(name, After::Removed));
            }
        }
        let mut store = Nodes::default();
        let mut root = tree::empty();
        for edits in edits.chunks(batch) {
            let mut last: BTreeMap<&TreePath, &Change> = BTreeMap::new();
            last.extend(edits.iter().map(|edit| (&edit.path, edit)));
            let list: Vec<Change> = last.into_values().cloned().collect();
            root = tree::apply(&mut store, &root, &list).unwrap();
        }
        prop_assert_eq!(root, build(&mut store, &model));
        prop_assert_eq!(read(&store, &root), model);
        tree::verify(&store, &root).unwrap();
    }
}
