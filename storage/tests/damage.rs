//! Whatever is changed in the database, checking says so: each column, each row, each page. What is free to be anything, so
//! that no check can know what it was, is listed here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use opship_record::answer::{Reason, Verdict};
use opship_record::effect::{After, Before, Change};
use opship_record::entry::{Body, Entry};
use opship_record::node::Kind;
use opship_record::plan::{Mount, PROFILE, Plan, Step};
use opship_record::record::{Lists, Record};
use opship_record::{FORMAT_VERSION, Hash, tree};
use opship_storage::upkeep::{CheckOptions, CheckReport, Finding};
use opship_storage::{Ending, Finish, ModuleInfo, Rebase, Role, Setting, Store};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Columns whose value nothing else tells: names that people gave, times, rights, secrets.
const FREE: [(&str, &[&str]); 11] = [
    ("principal", &["name", "admin", "created"]),
    ("token", &["hash", "created", "expires", "from_file"]),
    ("workspace", &["name", "created"]),
    ("module", &["name", "argv0"]),
    ("standard_module", &["name"]),
    // When the author had decided comes after the entry's checksum.
    ("entry", &["resolved"]),
    ("invite", &["id", "hash", "name", "created", "expires", "token", "used", "revoked"]),
    ("client", &["id", "name"]),
    ("workspace_blob", &["used"]),
    ("workspace_node", &["used"]),
    ("collecting", &["until"]),
];

/// Tables whose rows come and go by themselves: without one it is as before it was made.
const COME_AND_GO: [&str; 8] =
    ["token", "access", "module", "standard_module", "setting", "invite", "client", "collecting"];

/// Rows that are looked at, where not all are: what is decided about keeps nothing, so its pins may go.
const ONLY: [(&str, &str); 1] = [("pin", "entry = (SELECT max(id) FROM entry)")];

/// Columns that are yes or no.
const FLAGS: [&str; 6] = ["admin", "from_file", "made_version", "current", "forgotten", "kind"];

/// Something in every table.
fn filled(data: &Path) {
    let (store, scope) = open(data);
    let by = admin(&store);
    let large = random(300_000, 5);
    store.put_blob_bytes(&scope, &large).unwrap();
    let first = vec![create("large", &large), create("small", b"one")];
    store.commit(&scope, commit(1, first, &[b"one"])).unwrap();
    store.commit(&scope, commit(2, vec![overwrite("small", b"one", b"two")], &[b"two"])).unwrap();
    store.commit(&scope, commit(3, vec![create("third", b"three")], &[b"three"])).unwrap();

    store.create_token(&by, "eva", None).unwrap();
    store.grant(&scope, "eva", Some(Role::Read)).unwrap();
    for name in ["max", "kim"] {
        let (_, secret) = store.create_invite(&scope, name, Role::Write, u64::MAX >> 2).unwrap();
        if name == "max" {
            store.accept_invite("work", &secret, &"a".repeat(64)).unwrap();
        }
    }
    store.name_client(&scope, &client(1), "desk").unwrap();
    store.set_setting(&scope, Setting::Rebase(Rebase::Forbid)).unwrap();
    store.install_standard("sort", &random(2000, 6)).unwrap();
    let (module, mounted) = (random(1000, 7), b"mounted".to_vec());
    let hash = store.put_blob_bytes(&scope, &module).unwrap();
    store.put_blob_bytes(&scope, &mounted).unwrap();
    let mut nodes: HashMap<Hash, Vec<u8>> = HashMap::new();
    let root = tree::apply(&mut nodes, &tree::empty(), &[create("data", &mounted)]).unwrap();
    store.put_tree(&scope, vec![nodes[&root].clone()]).unwrap();
    let mounts = vec![Mount { path: path("lib"), tree: root }];
    store.register_module(&scope, &ModuleInfo { mounts, ..ModuleInfo::new("mine", hash, 1000) }).unwrap();
    undecided(&store, hash);
    drop((store, scope));
    // All into the file itself, which is damaged below.
    let database = Connection::open(data.join("metadata.db")).unwrap();
    database.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(())).unwrap();
}

/// An operation that somebody has still to decide about, with a report and what it had made.
fn undecided(store: &Store, module: Hash) {
    let made = b"what it made".to_vec();
    let before = Before::Absent { missing: path("out"), above: Kind::Directory };
    let after = After::File { length: made.len() as u64, hash: Hash::of(&made), mode: None, mtime: 7 };
    let changes = vec![Change { path: path("out"), before, after }];
    let lists = Lists { changes, exits: vec![0], ..Lists::default() };
    let plan = Plan {
        format: FORMAT_VERSION,
        steps: vec![Step::new(module, ["mine", "out"])],
        clock_start: 1,
        seed: [7; 16].into(),
        limits: None,
        profile: PROFILE,
    };
    let record = Record::new(plan, &lists);
    let body = Body::Operation(record);
    let envelope = Entry::new(client(1), 4, &[], body.clone(), Vec::new()).envelope;
    let ending = Ending { reason: Some(Reason::InputsChanged), ..Ending::new(Verdict::Conflicted) };
    let pinned = vec![Hash::of(&made)];
    let finish = Finish { envelope, body, lists, small_blobs: vec![made], pinned, ending };
    store.finish(&scope(store), finish).unwrap();
}

fn check(data: &Path) -> CheckReport {
    Store::check_closed(data, &CheckOptions::default(), &mut |_| ()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Damages a copy of the folder and checks it.
fn damaged(whole: &Path, damage: impl FnOnce(&Path, &Connection)) -> Vec<Finding> {
    let data = tempfile::tempdir().unwrap();
    copy(whole, data.path());
    let database = Connection::open(data.path().join("metadata.db")).unwrap();
    database.pragma_update(None, "foreign_keys", false).unwrap();
    damage(data.path(), &database);
    drop(database);
    check(data.path()).findings
}

struct Table {
    name: String,
    /// Name, declared type, is it part of the key?
    columns: Vec<(String, String, bool)>,
}

fn tables(database: &Connection) -> Vec<Table> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name";
    let mut list = database.prepare(sql).unwrap();
    let names: Vec<String> = list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let columns = |name: &str| {
        let mut list = database.prepare(&format!("PRAGMA table_info({name})")).unwrap();
        let rows = list.query_map([], |row| Ok((row.get(1)?, row.get(2)?, row.get::<_, i64>(5)? > 0))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    names.into_iter().map(|name| Table { columns: columns(&name), name }).collect()
}

impl Table {
    fn key(&self) -> Vec<&str> {
        self.columns.iter().filter(|(.., is_key)| *is_key).map(|(name, ..)| name.as_str()).collect()
    }

    /// The keys of the first and the last row.
    fn rows(&self, database: &Connection) -> Vec<Vec<Value>> {
        let key = self.key();
        let only = ONLY.iter().find(|(table, _)| *table == self.name).map_or("1", |(_, only)| only);
        let of = |order: &str| {
            let order: Vec<String> = key.iter().map(|column| format!("{column} {order}")).collect();
            let sql = format!(
                "SELECT {} FROM {} WHERE {only} ORDER BY {} LIMIT 1",
                key.join(", "),
                self.name,
                order.join(", ")
            );
            let values = |row: &rusqlite::Row<'_>| (0..key.len()).map(|column| row.get(column)).collect();
            database.query_row(&sql, [], values).unwrap()
        };
        let (first, last) = (of("ASC"), of("DESC"));
        if first == last { vec![first] } else { vec![first, last] }
    }

    fn condition(&self) -> String {
        let equal: Vec<String> =
            self.key().iter().enumerate().map(|(at, name)| format!("{name} = ?{}", at + 1)).collect();
        equal.join(" AND ")
    }

    /// Runs SQL with the key of a row, and one value more.
    fn run(&self, database: &Connection, sql: &str, row: &[Value], value: Option<&Value>) {
        let values = row.iter().chain(value);
        assert_eq!(database.execute(sql, rusqlite::params_from_iter(values)).unwrap(), 1, "{sql}");
    }
}

/// Something else of the same kind.
fn other(value: Value, column: &str, kind: &str) -> Value {
    match (value, kind) {
        (Value::Integer(number), _) if FLAGS.contains(&column) => Value::Integer(1 - number),
        (Value::Integer(number), _) => Value::Integer(number + 1000),
        (Value::Text(text), _) => Value::Text(text + "x"),
        (Value::Blob(mut bytes), _) => {
            let middle = bytes.len() / 2;
            match bytes.get_mut(middle) {
                Some(byte) => *byte ^= 1,
                None => bytes.push(1),
            }
            Value::Blob(bytes)
        }
        (_, "INTEGER") => Value::Integer(1),
        (_, "TEXT") => Value::Text("x".to_owned()),
        (..) => Value::Blob(vec![1]),
    }
}

#[test]
fn each_column_and_each_row_is_looked_at() {
    let whole = tempfile::tempdir().unwrap();
    filled(whole.path());
    assert_eq!(check(whole.path()).findings, []);
    let database = Connection::open(whole.path().join("metadata.db")).unwrap();
    let mut unseen = Vec::new();
    for table in tables(&database).iter().filter(|table| table.name != "collecting") {
        let free = FREE.iter().find(|(name, _)| *name == table.name).map_or(&[][..], |(_, columns)| columns);
        for row in table.rows(&database) {
            for (column, kind, _) in table.columns.iter().filter(|(name, ..)| !free.contains(&name.as_str())) {
                let condition = table.condition();
                let sql = format!("SELECT {column} FROM {} WHERE {condition}", table.name);
                let value: Value =
                    database.query_row(&sql, rusqlite::params_from_iter(&row), |row| row.get(0)).unwrap();
                let value = other(value, column, kind);
                let sql = format!("UPDATE {} SET {column} = ?{} WHERE {condition}", table.name, row.len() + 1);
                if damaged(whole.path(), |_, database| table.run(database, &sql, &row, Some(&value))).is_empty() {
                    unseen.push(format!("{}.{column} of {row:?} becomes {value:?}", table.name));
                }
            }
            if COME_AND_GO.contains(&table.name.as_str()) {
                continue;
            }
            let sql = format!("DELETE FROM {} WHERE {}", table.name, table.condition());
            if damaged(whole.path(), |_, database| table.run(database, &sql, &row, None)).is_empty() {
                unseen.push(format!("{}: {row:?} is deleted", table.name));
            }
        }
    }
    assert!(unseen.is_empty(), "nothing is found where\n{}", unseen.join("\n"));
}

fn number(database: &Connection, sql: &str) -> usize {
    database.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize
}

/// Writes over bytes of the database file.
fn write_over(data: &Path, at: usize, change: impl FnOnce(&mut [u8])) {
    let file = data.join("metadata.db");
    let mut bytes = fs::read(&file).unwrap();
    change(&mut bytes[at..]);
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_page_that_cannot_be_read_is_a_finding_and_what_is_whole_is_still_checked() {
    let whole = tempfile::tempdir().unwrap();
    filled(whole.path());
    let database = Connection::open(whole.path().join("metadata.db")).unwrap();
    let (size, count) = (number(&database, "PRAGMA page_size"), number(&database, "PRAGMA page_count"));
    for page in 0..count {
        let found = damaged(whole.path(), |data, _| write_over(data, page * size, |bytes| bytes[..8].fill(0x55)));
        assert!(found.iter().any(|finding| finding.kind == "database"), "page {page}: {found:?}");
    }
    // Beside a table that cannot be read, other damage is found.
    let root = number(&database, "SELECT rootpage FROM sqlite_master WHERE name = 'version'");
    let found = damaged(whole.path(), |data, _| {
        write_over(data, (root - 1) * size, |bytes| bytes[..8].fill(0x55));
        fs::remove_file(pack_files(data).pop().unwrap()).unwrap();
    });
    assert!(found.iter().any(|finding| finding.kind == "pack-missing"), "{found:?}");
}

#[test]
fn an_index_that_differs_from_its_table_is_found() {
    let whole = tempfile::tempdir().unwrap();
    filled(whole.path());
    let database = Connection::open(whole.path().join("metadata.db")).unwrap();
    let size = number(&database, "PRAGMA page_size");
    let sql = "SELECT name, tbl_name, rootpage FROM sqlite_master WHERE type = 'index' AND rootpage > 0";
    let mut list = database.prepare(sql).unwrap();
    let indexes =
        list.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, u32>(2)?)));
    for (name, table, root) in indexes.unwrap().map(Result::unwrap) {
        let rows: i64 = database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        if rows == 0 {
            continue;
        }
        // Cells are written from the end of a page on: its last byte is of the first one.
        let found = damaged(whole.path(), |data, _| write_over(data, root as usize * size - 1, |bytes| bytes[0] ^= 1));
        assert!(found.iter().any(|finding| finding.kind == "database"), "{name}: {found:?}");
    }
}

#[test]
fn an_entry_from_before_there_were_checksums_is_well_but_a_new_one_needs_its_own() {
    let whole = tempfile::tempdir().unwrap();
    filled(whole.path());
    let without = |condition: &'static str| {
        damaged(whole.path(), move |_, database| {
            let sql = format!("UPDATE entry SET sum = NULL, pinned = NULL WHERE {condition}");
            assert!(database.execute(&sql, []).unwrap() > 0);
        })
    };
    assert_eq!(without("1"), []);
    assert_eq!(without("id < 3"), []);
    assert!(without("id = 3").iter().any(|finding| finding.kind == "entry-damaged"));
    // Of an old one, what can be told without a checksum is told.
    let found = damaged(whole.path(), |_, database| {
        database.execute("UPDATE entry SET sum = NULL, pinned = NULL", []).unwrap();
        assert_eq!(database.execute("UPDATE entry SET body = x'00' WHERE id = 2", []).unwrap(), 1);
    });
    assert!(found.iter().any(|finding| finding.kind == "entry-damaged" && finding.what.contains('2')), "{found:?}");
}
