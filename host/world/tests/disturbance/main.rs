//! The observation rules, from both sides: which changes of the tree disturb a run, and that all others do not. A run is
//! disturbed where on the changed tree it has other observations or meets other states before.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod rules;
mod tree;

use common::model::Op;
use common::targets::check_disturbance;
use common::*;
use opship_record::record::Lists;
use opship_record::{TreePath, effect, observation};
use proptest::prelude::*;
use rules::{CHANGES, RULES, Seen, told};
use tree::Tree;

fn run(tree: Tree, action: fn(&mut Guest) -> Seen) -> (Seen, Lists) {
    let mut guest = Guest::new(tree);
    let seen = action(&mut guest);
    (seen, guest.finish().lists)
}

#[test]
fn a_change_disturbs_a_run_exactly_where_a_rule_says_so() {
    let mut wrong = Vec::new();
    for rule in RULES {
        let names = CHANGES.map(|(name, _)| name);
        assert!(rule.seen.iter().chain(rule.before).all(|name| names.contains(name)), "{}", rule.action);
        let (seen, lists) = run(Tree::new(), rule.run);
        for (name, change) in CHANGES {
            let (now_seen, now) = run(change(Tree::new()), rule.run);
            let other_seen = observation::digest(&lists.observations) != observation::digest(&now.observations);
            let other_before = effect::digests(&lists.changes).before != effect::digests(&now.changes).before;
            if (other_seen, other_before) != (rule.seen.contains(&name), rule.before.contains(&name)) {
                wrong.push(format!("{}: {name}: seen {other_seen}, before {other_before}", rule.action));
            }
            if !other_seen && !other_before {
                assert_eq!((now_seen, &now.changes), (seen.clone(), &lists.changes), "{}: {name}", rule.action);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What stands here is what a later run that lists the parent sees: creating, removing and renaming write its listing.
#[test]
fn what_makes_or_takes_away_a_name_writes_the_listing_of_its_directory() {
    let list = |tree: Tree| observation::digest(&run(tree, |guest| told(guest.list("d"))).1.observations);
    let before = list(Tree::new());
    let writers: [fn(&mut Guest) -> Seen; 6] = [
        |guest| told(guest.write_file("d/n", b"")),
        |guest| told(guest.mkdir("d/n")),
        |guest| told(guest.unlink("d/f")),
        |guest| told(guest.rename("d/f", "e/n")),
        |guest| told(guest.rename("k", "d/n")),
        |guest| told(guest.rename("d/f", "d/n")),
    ];
    for writer in writers {
        let changes = run(Tree::new(), writer).1.changes;
        let changed: Vec<TreePath> = changes.into_iter().map(|change| change.path).collect();
        assert!(changed.iter().any(|at| at.parent() == Some(path("d"))), "{changed:?}");
        let turned = changed.iter().fold(Tree::new(), |tree, at| {
            if tree.0.contains_key(at) { tree.gone(at.as_str()) } else { tree.file(at.as_str(), "") }
        });
        assert_ne!(before, list(turned));
    }
}

#[test]
fn a_mode_that_was_not_set_is_kept() {
    for mode in [0o600, 0o755] {
        let tree = Tree::new().file_with("d/f", "text", mode, 7);
        let (_, lists) = run(tree, |guest| told(guest.write_file("d/f", b"new")));
        assert_eq!(lists.changes[0].after.mode(), None);
    }
    let (_, lists) = run(Tree::new(), |guest| told((guest.write_file("n", b""), guest.mkdir("x"))));
    assert_eq!(lists.changes.iter().map(|change| change.after.mode()).collect::<Vec<_>>(), [None, None]);
    let (_, lists) = run(Tree::new(), |guest| told((guest.write_file("d/f", b"new"), guest.set_mode("d/f", 0o600))));
    assert_eq!(lists.changes[0].after.mode(), Some(0o600), "set to what it was is set");
}

fn calls(most: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(any::<[u8; Op::BYTES]>().prop_map(Op::from_bytes), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_that_is_not_disturbed_goes_the_same_way(before in calls(60), meanwhile in calls(4), run in calls(30)) {
        check_disturbance(&before, &meanwhile, &run);
    }
}
