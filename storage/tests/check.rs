//! Each kind of damage is found, with the places that it reaches, and never served.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use opship_record::Hash;
use opship_storage::Store;
use opship_storage::upkeep::{CheckOptions, CheckReport};
use rusqlite::Connection;
use std::path::Path;

fn large() -> Vec<u8> {
    random(300_000, 5)
}

const SMALL: &[u8] = b"small content";
const OLD: &[u8] = b"old content";

/// Three versions: 1 has d/large and d/small, 2 besides e/other, in 3 d/small is another.
fn filled(data: &Path) {
    let (store, scope) = open(data);
    store.put_blob_bytes(&scope, &large()).unwrap();
    let new = |name: &str, content: &[u8], missing: &str| {
        let mut change = create(name, content);
        change.before = opship_record::effect::Before::Absent {
            missing: path(missing),
            above: opship_record::node::Kind::Directory,
        };
        change
    };
    let folder = |name: &str| {
        let mut change = create(name, b"");
        change.after = opship_record::effect::After::Directory { mode: None };
        change
    };
    let first = vec![folder("d"), new("d/large", &large(), "d"), new("d/small", OLD, "d")];
    store.commit(&scope, commit(1, first, &[OLD])).unwrap();
    let second = vec![folder("e"), new("e/other", SMALL, "e")];
    store.commit(&scope, commit(2, second, &[SMALL])).unwrap();
    store.commit(&scope, commit(3, vec![overwrite("d/small", OLD, SMALL)], &[])).unwrap();
}

fn check(store: &Store, repair: bool) -> CheckReport {
    store.check(&admin(store), &CheckOptions { repair }, &mut |_| ()).unwrap()
}

/// Flips a bit of the column of the first row of a query.
fn flip(database: &Connection, table: &str, column: &str, condition: &str) {
    let (row, mut bytes): (i64, Vec<u8>) = database
        .query_row(&format!("SELECT rowid, {column} FROM {table} WHERE {condition}"), [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    database.execute(&format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2"), (bytes, row)).unwrap();
}

fn hex(hash: &Hash) -> String {
    format!("x'{hash}'")
}

/// What is done to the data folder.
type Damage = Box<dyn Fn(&Path, &Connection)>;
/// Name, damage, kind of the finding, a place that it names with its versions.
type Case = (&'static str, Damage, &'static str, Option<(&'static str, (u64, u64))>);

fn sql(text: String) -> Damage {
    Box::new(move |_, database| assert!(database.execute(&text, []).unwrap() > 0, "{text}"))
}

fn pack(change: impl Fn(&mut Vec<u8>) + 'static) -> Damage {
    Box::new(move |data, _| {
        let pack = pack_files(data).pop().unwrap();
        let mut bytes = std::fs::read(&pack).unwrap();
        change(&mut bytes);
        std::fs::write(pack, bytes).unwrap();
    })
}

fn cases() -> Vec<Case> {
    let large_hash = Hash::of(&large());
    let (old, small) = (hex(&Hash::of(OLD)), hex(&Hash::of(SMALL)));
    vec![
        ("a flipped bit in a pack", pack(|bytes| bytes[70_000] ^= 2), "chunk-damaged", Some(("d/large", (1, 3)))),
        ("a pack cut short", pack(|bytes| bytes.truncate(90_000)), "pack-short", Some(("d/large", (1, 3)))),
        (
            "a pack that is gone",
            Box::new(|data, _| std::fs::remove_file(pack_files(data).pop().unwrap()).unwrap()),
            "pack-missing",
            Some(("d/large", (1, 3))),
        ),
        (
            "a flipped bit in a small content",
            Box::new(move |_, db| flip(db, "blob", "bytes", &format!("hash = {old}"))),
            "blob-damaged",
            Some(("d/small", (1, 2))),
        ),
        (
            "a flipped bit in a list of chunks",
            Box::new(|_, db| flip(db, "blob", "chunks", "chunks IS NOT NULL")),
            "blob-damaged",
            Some(("d/large", (1, 3))),
        ),
        (
            "a chunk that is gone",
            sql("DELETE FROM chunk WHERE id = 2".into()),
            "blob-damaged",
            Some(("d/large", (1, 3))),
        ),
        (
            "a chunk elsewhere than said",
            sql("UPDATE chunk SET offset = offset + 1 WHERE id = 1".into()),
            "chunk-damaged",
            Some(("d/large", (1, 3))),
        ),
        (
            "a content that is gone",
            sql(format!("DELETE FROM workspace_blob WHERE hash = {}", hex(&large_hash))),
            "blob-missing",
            Some(("d/large", (1, 3))),
        ),
        (
            "a file of an earlier data folder that is gone",
            sql("UPDATE blob SET chunks = NULL WHERE chunks IS NOT NULL".into()),
            "blob-missing",
            Some(("d/large", (1, 3))),
        ),
        (
            "a wrong length",
            sql(format!("UPDATE blob SET length = length + 1 WHERE hash = {small}")),
            "blob-damaged",
            Some(("d/small", (3, 3))),
        ),
        (
            "a flipped bit in a tree node",
            Box::new(|_, db| {
                let root: Vec<u8> =
                    db.query_row("SELECT root FROM version WHERE number = 2", [], |row| row.get(0)).unwrap();
                let hash = Hash::from_bytes(root.try_into().unwrap());
                flip(db, "node", "bytes", &format!("hash = {}", hex(&hash)));
            }),
            "node-damaged",
            Some(("/", (2, 2))),
        ),
        (
            "a tree node that is gone",
            Box::new(|_, db| {
                let root: Vec<u8> =
                    db.query_row("SELECT root FROM version WHERE number = 1", [], |row| row.get(0)).unwrap();
                db.execute("DELETE FROM node WHERE hash = ?1", [root]).unwrap();
            }),
            "node-missing",
            Some(("/", (1, 1))),
        ),
        ("a version that is gone", sql("DELETE FROM version WHERE number = 2".into()), "version-chain", None),
        (
            "a version that was changed",
            sql("UPDATE version SET bytes = (SELECT bytes FROM version WHERE number = 1) WHERE number = 2".into()),
            "version-chain",
            None,
        ),
        ("an entry that is gone", sql("DELETE FROM entry WHERE version = 3".into()), "version-chain", None),
        (
            "a row that names nothing",
            sql(format!("DELETE FROM blob WHERE hash = {}", hex(&large_hash))),
            "dangling-row",
            None,
        ),
    ]
}

#[test]
fn each_kind_of_damage_is_found_and_its_places_named() {
    let whole = tempfile::tempdir().unwrap();
    filled(whole.path());
    assert_eq!(check(&open(whole.path()).0, false).findings, []);
    for (what, damage, kind, place) in cases() {
        let data = tempfile::tempdir().unwrap();
        filled(data.path());
        let database = Connection::open(data.path().join("metadata.db")).unwrap();
        database.pragma_update(None, "foreign_keys", false).unwrap();
        damage(data.path(), &database);
        drop(database);

        let (store, scope) = open(data.path());
        let report = check(&store, true);
        let found: Vec<_> = report.findings.iter().filter(|finding| finding.kind == kind).collect();
        assert!(!found.is_empty(), "{what}: {:?}", report.findings);
        assert!(found.iter().all(|finding| !finding.advice().is_empty() && !finding.repaired), "{what}");
        if let Some((place, versions)) = place {
            let affected = found.iter().flat_map(|finding| &finding.affected);
            let named = affected.clone().find(|affected| affected.place == place);
            let named = named.unwrap_or_else(|| panic!("{what}: {:?}", report.findings));
            assert_eq!((named.workspace.as_str(), named.versions), ("work", Some(versions)), "{what}");
        }
        // Never a wrong byte.
        for content in [&large(), &OLD.to_vec(), &SMALL.to_vec()] {
            let Ok(Some(blob)) = store.open_blob(&scope, &Hash::of(content)) else { continue };
            use opship_world::FileContent;
            let mut buffer = vec![0; content.len()];
            if let Ok(count) = blob.read_at(0, &mut buffer) {
                assert!(buffer[..count] == content[..], "{what}");
            }
        }
        assert!(!check(&store, false).findings.is_empty(), "{what}: what is damaged is not said to be well again");
    }
}

#[test]
fn files_that_nothing_names_are_told_and_removed_when_asked() {
    let data = tempfile::tempdir().unwrap();
    filled(data.path());
    let orphans =
        [data.path().join("packs/07/999"), data.path().join("packs/01/junk"), data.path().join("blobs/ab/ab#1")];
    for orphan in &orphans {
        std::fs::create_dir_all(orphan.parent().unwrap()).unwrap();
        std::fs::write(orphan, b"left behind").unwrap();
    }
    let (store, _) = open(data.path());
    for repair in [false, true] {
        let report = check(&store, repair);
        assert_eq!(report.findings.len(), 3, "{:?}", report.findings);
        assert!(report.findings.iter().all(|found| found.kind == "orphan-file" && found.repaired == repair));
        assert!(orphans.iter().all(|orphan| orphan.exists() != repair));
    }
    assert_eq!(check(&store, false).findings, []);
}

#[test]
fn usage_counts_head_history_and_what_is_stored() {
    let data = tempfile::tempdir().unwrap();
    filled(data.path());
    let (store, scope) = open(data.path());
    let text: Vec<u8> = (0..500_000u32).flat_map(|n| (n / 1000).to_le_bytes()).collect();
    store.put_blob_bytes(&scope, &text).unwrap();
    let usage = store.usage(&admin(&store)).unwrap();
    let work = &usage.workspaces[0];
    let head = large().len() + 2 * SMALL.len();
    assert_eq!((work.name.as_str(), work.files, work.head_bytes), ("work", 3, head as u64));
    assert_eq!((work.versions, work.forgotten), (4, 0));
    assert_eq!(work.history_bytes, (OLD.len() + text.len()) as u64);
    assert!(work.stored_bytes > large().len() as u64 && work.stored_bytes < (large().len() + text.len() / 4) as u64);
    assert!(usage.packs >= work.stored_bytes - 100 && usage.database > 0);
    assert_eq!((usage.files, usage.uploads), (0, 0));
}
