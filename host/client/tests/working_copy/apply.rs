//! Random runs on a real folder against `opship_record::tree::apply` of what they recorded.

use crate::support::{Call, folder};
use opship_record::node::Node;
use opship_record::tree::{self, NodeStore};
use opship_record::{Hash, TreePath};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

type Nodes = HashMap<Hash, Vec<u8>>;

fn all(nodes: &Nodes, root: &Hash) -> BTreeMap<TreePath, Node> {
    let mut found = BTreeMap::new();
    tree::diff(nodes, &tree::empty(), root, &mut |path, _, node| {
        found.insert(path.clone(), node.unwrap().clone());
        Ok::<_, tree::TreeError<Infallible>>(())
    })
    .unwrap();
    found
}

fn some_path() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "a/a", "a/b", "b/a", "b/b", "c/a", "a/a/a", "b/a/b"])
        .prop_map(str::to_owned)
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => (some_path(), prop::collection::vec(any::<u8>(), 1..4)).prop_map(|(p, b)| Call::Write(p, b)),
        1 => (some_path(), prop::collection::vec(any::<u8>(), 1..4)).prop_map(|(p, b)| Call::Append(p, b)),
        2 => (some_path(), some_path()).prop_map(|(a, b)| Call::Copy(a, b)),
        2 => some_path().prop_map(Call::Remove),
        2 => some_path().prop_map(Call::RemoveDirectory),
        4 => some_path().prop_map(Call::MakeDirectory),
        4 => (some_path(), some_path()).prop_map(|(a, b)| Call::Rename(a, b)),
        1 => some_path().prop_map(|p| Call::Symlink("a".to_owned(), p)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Each run ends at its first failing call; what it did until then counts. After each, folder, index and the tree
    /// that the log makes are the same.
    #[test]
    fn folder_index_and_log_agree(runs in prop::collection::vec(prop::collection::vec(call(), 1..6), 1..6)) {
        let f = folder();
        let (mut nodes, mut root, mut applied) = (Nodes::default(), tree::empty(), 0);
        nodes.keep(root, tree::empty_node()).unwrap();
        for calls in runs {
            // Short runs do more before a call fails.
            for calls in calls.chunks(2) {
                f.run(calls).unwrap();
            }
            let mut entries = f.copy.entries(None, 1000).unwrap();
            entries.reverse();
            for entry in entries.iter().filter(|entry| entry.number > applied) {
                root = tree::apply(&mut nodes, &root, &f.copy.lists(entry.number).unwrap().changes).unwrap();
            }
            applied = entries.last().map_or(applied, |entry| entry.number);
            let index: BTreeMap<TreePath, Node> = f.copy.nodes(&TreePath::root()).unwrap().into_iter().collect();
            prop_assert_eq!(&all(&nodes, &root), &index);
            prop_assert_eq!(f.copy.scan().unwrap().changes, vec![]);
            let on_disk: Vec<String> = f.tree().into_keys().collect();
            let in_index: Vec<String> = index.keys().map(|path| path.as_str().to_owned()).collect();
            prop_assert_eq!(on_disk, in_index);
        }
    }
}
