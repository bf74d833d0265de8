//! Collecting: what is kept stays whole whatever happens meanwhile, what is not kept goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use opship_record::answer::Verdict;
use opship_record::node::Node;
use opship_record::{Hash, TreePath};
use opship_storage::upkeep::{CheckOptions, CollectOptions, CollectReport};
use opship_storage::{Ending, Finish, ModuleInfo, SMALL_BLOB, Scope, Setting, StorageError, Store};
use opship_world::FileContent;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CHILD: &str = "OPSHIP_TEST_COLLECT";
const DAY: Duration = Duration::from_secs(24 * 3600);

/// As if `days` had passed.
fn after(days: u32) -> CollectOptions {
    CollectOptions { ahead: DAY * days, unused: Duration::ZERO, ..CollectOptions::default() }
}

fn collect(store: &Store, options: &CollectOptions) -> CollectReport {
    store.collect(&admin(store), options, &mut |_| ()).unwrap()
}

fn assert_well(store: &Store) {
    let report = store.check(&admin(store), &CheckOptions::default(), &mut |_| ()).unwrap();
    assert_eq!(report.findings, [], "the store is well");
}

/// Content of the file `large` at a version: an edit of the one before.
fn large(version: u64) -> Vec<u8> {
    let mut bytes = random(400_000, 7);
    for edit in 1..=version {
        let at = (edit * 37_003 % 400_000) as usize;
        bytes[at] ^= edit as u8 | 1;
    }
    bytes
}

fn small(version: u64) -> Vec<u8> {
    format!("small {version}").into_bytes()
}

/// Makes the next version: both files change.
fn next(store: &Store, scope: &Scope) -> u64 {
    let head = store.head(scope).unwrap().number;
    let (old, new) = (head, head + 1);
    store.put_blob_bytes(scope, &large(new)).unwrap();
    let change = |name: &str, old_bytes: &[u8], bytes: &[u8]| {
        if old == 0 { create(name, bytes) } else { overwrite(name, old_bytes, bytes) }
    };
    let changes = vec![change("large", &large(old), &large(new)), change("small", &small(old), &small(new))];
    number(store.commit(scope, commit(new, changes, &[&small(new)])).unwrap())
}

fn grow(store: &Store, scope: &Scope, versions: u64) {
    for _ in 0..versions {
        next(store, scope);
    }
}

/// Checks bytes and paths of a version that is kept.
fn assert_version(store: &Store, scope: &Scope, version: u64) {
    let kept = store.version(scope, version).unwrap().unwrap();
    let tree = store.version_tree(scope, &kept).unwrap();
    if version == 0 {
        return assert!(walk(&tree).is_empty());
    }
    let expected = BTreeMap::from([(path("large"), large(version)), (path("small"), small(version))]);
    let found: BTreeMap<TreePath, Vec<u8>> = walk(&tree)
        .into_iter()
        .map(|(path, node)| {
            let Node::File { hash, .. } = node else { panic!("{path} is no file") };
            (path, read(&store.open_blob(scope, &hash).unwrap().unwrap()))
        })
        .collect();
    assert!(found == expected, "version {version}");
}

fn stored(data: &Path) -> u64 {
    pack_files(data).iter().map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn every_version_kept_comes_back_and_the_others_say_that_they_are_gone() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    grow(&store, &scope, 12);
    let nothing = collect(&store, &CollectOptions::default());
    assert_eq!((nothing.versions, nothing.blobs, nothing.chunks), (0, 0, 0), "all is younger than 30 days");
    (0..=12).for_each(|version| assert_version(&store, &scope, version));

    let dry = collect(&store, &CollectOptions { dry_run: true, ..after(31) });
    (0..=12).for_each(|version| assert_version(&store, &scope, version));
    let done = collect(&store, &after(31));
    assert_eq!((done.versions, dry.versions), (11, 11), "but for the first and the head all are of one day");
    assert_eq!(
        (done.nodes, done.blobs, done.chunks),
        (dry.nodes, dry.blobs, dry.chunks),
        "a dry run says what will go"
    );
    assert!(done.blobs >= 22 && done.chunks > 5, "{done:?}");
    assert_well(&store);
    assert_version(&store, &scope, 0);
    assert_version(&store, &scope, 12);
    assert_eq!(store.forgotten(&scope, 0, 100).unwrap(), (1..12).collect::<Vec<_>>());
    let gone = store.version(&scope, 5).unwrap().expect("it stays listed");
    assert!(matches!(store.version_tree(&scope, &gone), Err(StorageError::Forgotten { version: 5 })));
    assert!(store.open_blob(&scope, &Hash::of(&large(5))).unwrap().is_none());
    let again = collect(&store, &after(31));
    assert_eq!(again, CollectReport::default(), "nothing is left to do");

    next(&store, &scope);
    assert_version(&store, &scope, 13);
    drop(store);
    let (store, scope) = open(data.path());
    assert_version(&store, &scope, 13);
    assert_well(&store);
}

#[test]
fn packs_shrink_with_what_is_removed() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let old = random(3_000_000, 1);
    store.put_blob_bytes(&scope, &old).unwrap();
    store.commit(&scope, commit(1, vec![create("f", &old)], &[])).unwrap();
    let new = [&old[..200_000], &random(300_000, 2)].concat();
    store.put_blob_bytes(&scope, &new).unwrap();
    store.commit(&scope, commit(2, vec![overwrite("f", &old, &new)], &[])).unwrap();
    let reader = store.open_blob(&scope, &Hash::of(&new)).unwrap().unwrap();
    let mut first = vec![0; 1000];
    reader.read_at(0, &mut first).unwrap();

    let before = stored(data.path());
    let done = collect(&store, &after(31));
    assert!(stored(data.path()) < 600_000, "{} of {before}", stored(data.path()));
    assert_eq!(done.packs, 1);
    assert!(read(&reader) == new, "a reader goes on where its chunks are now");
    assert_well(&store);
}

#[test]
fn what_somebody_still_needs_stays() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let bytes = |n: u64| random(SMALL_BLOB + 1000, 100 + n);
    let [module, recorded, uploaded, read_now, nobodys] = [0, 1, 2, 3, 4].map(bytes);
    for content in [&module, &recorded, &read_now, &nobodys] {
        store.put_blob_bytes(&scope, content).unwrap();
    }
    store.register_module(&scope, &ModuleInfo::new("m", Hash::of(&module), module.len() as u64)).unwrap();
    // An entry that is not resolved keeps its outputs, and the versions around it.
    grow(&store, &scope, 3);
    let conflicted = commit(77, vec![], &[]);
    let finish = Finish {
        envelope: conflicted.envelope,
        body: conflicted.body,
        lists: conflicted.lists,
        small_blobs: Vec::new(),
        pinned: vec![Hash::of(&recorded)],
        ending: Ending::new(Verdict::Conflicted),
    };
    store.finish(&scope, finish).unwrap();
    grow(&store, &scope, 3);
    let reading = store.open_blob(&scope, &Hash::of(&read_now)).unwrap().unwrap();
    let held_version = store.version(&scope, 5).unwrap().unwrap();
    let held_tree = store.version_tree(&scope, &held_version).unwrap();
    store.put_blob_bytes(&scope, &uploaded).unwrap();

    // With the usual grace an upload whose entry is still to come stays.
    collect(&store, &CollectOptions { ahead: DAY * 6, ..CollectOptions::default() });
    assert!(store.open_blob(&scope, &Hash::of(&nobodys)).unwrap().is_some());
    collect(&store, &after(400));
    let is_there = |content: &[u8]| store.open_blob(&scope, &Hash::of(content)).unwrap().is_some();
    assert!(is_there(&module) && is_there(&recorded) && is_there(&read_now));
    assert!(!is_there(&nobodys) && !is_there(&uploaded));
    assert!(read(&reading) == read_now);
    assert_eq!(walk(&held_tree).len(), 2, "a tree that somebody looks at");
    assert!(is_there(&large(5)), "with its contents");
    for version in [0, 2, 3, 6] {
        assert_version(&store, &scope, version);
    }
    assert_well(&store);

    drop((held_tree, reading));
    collect(&store, &after(400));
    assert!(!is_there(&read_now) && !is_there(&large(5)));
    assert_well(&store);
}

#[test]
fn retention_is_a_setting_and_collecting_is_for_administrators() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    grow(&store, &scope, 4);
    let token = store.create_token(&admin(&store), "eva", None).unwrap();
    let eva = store.authenticate(&token).unwrap().unwrap();
    let refused = store.collect(&eva, &CollectOptions::default(), &mut |_| ());
    assert!(matches!(refused, Err(StorageError::AdminOnly)));
    assert!(matches!(store.check(&eva, &CheckOptions::default(), &mut |_| ()), Err(StorageError::AdminOnly)));
    assert!(matches!(store.usage(&eva), Err(StorageError::AdminOnly)));

    store.set_setting(&scope, Setting::RetentionAllDays(60)).unwrap();
    assert_eq!(collect(&store, &after(50)).versions, 0);
    store.set_setting(&scope, Setting::RetentionAllDays(40)).unwrap();
    assert_eq!(collect(&store, &after(50)).versions, 3);
}

/// Readers, writers and uploads of the same contents beside collecting, over and over. What one collection removes the next
/// writer brings back.
#[test]
fn beside_readers_and_writers_nothing_that_is_named_goes() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    store.set_settings(&scope, &[Setting::RetentionAllDays(0), Setting::RetentionDailyDays(0)]).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let collecting = threads.spawn(|| {
            let mut removed = 0;
            while !stop.load(Ordering::Relaxed) {
                removed += collect(&store, &after(1)).blobs;
            }
            removed
        });
        // Few contents, so that each is named, forgotten and named again. One name stands for small and large ones.
        let write = |client: u8| {
            let (store, scope) = (&store, &scope);
            move || {
                let name = format!("f{client}");
                let content = |step: u64| {
                    let length = if step.is_multiple_of(2) { 90_000 } else { 900 };
                    random(length, u64::from(client / 2) * 10 + step % 5)
                };
                for step in 0..60 {
                    let (old, new) = (content(step), content(step + 1));
                    let change = if step == 0 { create(&name, &new) } else { overwrite(&name, &old, &new) };
                    let mut entry = commit(step + 1, vec![change], &[]);
                    entry.envelope.client = common::client(client);
                    // As a client does: it sends what is missing, and again if that was removed before the entry came.
                    loop {
                        if !store.missing_blobs(scope, &[Hash::of(&new)]).unwrap().is_empty() {
                            store.put_blob_bytes(scope, &new).unwrap();
                        }
                        match store.commit(scope, entry.clone()) {
                            Ok(done) => {
                                number(done);
                                break;
                            }
                            Err(StorageError::Incomplete { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            }
        };
        let writers: Vec<_> = (1..5).map(|client| threads.spawn(write(client))).collect();
        let reading = threads.spawn(|| {
            let mut reads = 0;
            while !stop.load(Ordering::Relaxed) {
                let head = store.head(&scope).unwrap();
                // Forgotten since: then there is a newer one.
                let Some(tree) = store.tree(&scope, &head.root).unwrap() else { continue };
                for (path, node) in walk(&tree) {
                    let Node::File { hash, .. } = node else { panic!("{path} is no file") };
                    let blob = store.open_blob(&scope, &hash).unwrap().unwrap_or_else(|| panic!("{path} is gone"));
                    assert_eq!(Hash::of(&read(&blob)), hash);
                    reads += 1;
                }
            }
            reads
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        assert!(reading.join().unwrap() > 0 && collecting.join().unwrap() > 0, "they did meet");
    });
    assert_well(&store);
    drop(store);
    let (store, scope) = open(data.path());
    assert_well(&store);
    let head = store.head(&scope).unwrap();
    assert_eq!(walk(&store.version_tree(&scope, &head).unwrap()).len(), 4);
}

#[test]
fn killed_between_any_steps_it_goes_on_the_next_time() {
    if let Some(data) = std::env::var_os(CHILD) {
        let store = Store::open(data.as_ref()).unwrap();
        collect(&store, &after(31));
        return;
    }
    let points = [
        "gc-forgotten",
        "gc-hidden",
        "gc-nodes",
        "gc-files",
        "gc-blobs",
        "gc-chunks",
        "gc-repacked",
        "gc-moved",
        "gc-pack",
        "storage-commit",
        "storage-committed",
    ];
    for point in points {
        let data = tempfile::tempdir().unwrap();
        let (store, scope) = open(data.path());
        let filler = random(2_000_000, 9);
        store.put_blob_bytes(&scope, &filler).unwrap();
        grow(&store, &scope, 5);
        drop((store, scope));
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "killed_between_any_steps_it_goes_on_the_next_time", "--nocapture"]);
        child.env(CHILD, data.path()).env("OPSHIP_FAILPOINT", point).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(!child.status().unwrap().success(), "{point} was met");

        let (store, scope) = open(data.path());
        let report = store.check(&admin(&store), &CheckOptions { repair: true }, &mut |_| ()).unwrap();
        assert!(report.findings.iter().all(|finding| finding.kind == "orphan-file"), "{point}: {:?}", report.findings);
        assert_version(&store, &scope, 5);
        let forgotten = store.forgotten(&scope, 0, 5).unwrap();
        (0..5).filter(|version| !forgotten.contains(version)).for_each(|v| assert_version(&store, &scope, v));
        collect(&store, &after(31));
        assert_well(&store);
        assert_version(&store, &scope, 5);
        assert!(stored(data.path()) < 700_000, "{point}: {}", stored(data.path()));
        next(&store, &scope);
        assert_version(&store, &scope, 6);
    }
}
