//! Measures commits: one at a time, and many queued. `cargo run --release --example commits -p opship-storage [DIR]`
#![allow(clippy::unwrap_used)]

use opship_record::answer::Verdict;
use opship_record::effect::{After, Before, Change};
use opship_record::entry::{Body, ClientId, Entry, Value};
use opship_record::node::Kind;
use opship_record::record::Lists;
use opship_record::{Hash, TreePath};
use opship_storage::{Commit, Ending, Scope, Store};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn main() {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let data = tempfile::tempdir_in(parent).unwrap();
    fsync(data.path());
    let store = Store::open(&data.path().join("data")).unwrap();
    let token = std::fs::read_to_string(store.admin_token_file()).unwrap();
    let admin = store.authenticate(token.trim()).unwrap().unwrap();
    let scope = store.create_workspace(&admin, "bench").unwrap();
    one_at_a_time(&store, &scope);
    for in_flight in [8, 64, 256] {
        queued(&store, &scope, in_flight);
    }
}

fn fsync(folder: &Path) {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join("f")).unwrap();
    let mut times = Vec::new();
    for _ in 0..200 {
        file.write_all(&[1; 16 << 10]).unwrap();
        let start = Instant::now();
        file.sync_data().unwrap();
        times.push(start.elapsed());
    }
    println!("{:<28}{}", "fsync alone", quantiles(&mut times));
}

fn one_at_a_time(store: &Store, scope: &Scope) {
    let mut times = Vec::new();
    for sequence in 1..=300 {
        let start = Instant::now();
        store.commit(scope, small(1, sequence)).unwrap();
        times.push(start.elapsed());
    }
    println!("{:<28}{}", "one commit at a time", quantiles(&mut times));
}

fn queued(store: &Store, scope: &Scope, in_flight: u64) {
    let each = 4096 / in_flight;
    let start = Instant::now();
    let mut times: Vec<Duration> = Vec::new();
    std::thread::scope(|threads| {
        let work = |client: u64| {
            move || {
                let commit = |sequence| {
                    let start = Instant::now();
                    store
                        .commit(scope, small((client % 200) as u8 + 2, in_flight << 32 | client << 16 | sequence))
                        .unwrap();
                    start.elapsed()
                };
                (1..=each).map(commit).collect::<Vec<_>>()
            }
        };
        let handles: Vec<_> = (0..in_flight).map(|client| threads.spawn(work(client))).collect();
        times.extend(handles.into_iter().flat_map(|handle| handle.join().unwrap()));
    });
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    println!("{:<28}{}  {rate:.0} a second", format!("{in_flight} in flight"), quantiles(&mut times));
}

fn quantiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    format!("p50 {:6.2} ms  p95 {:6.2} ms  p99 {:6.2} ms", at(50), at(95), at(99))
}

/// One new file of 200 bytes in the root.
fn small(client: u8, sequence: u64) -> Commit {
    let path = TreePath::new(format!("f{client}-{sequence}")).unwrap();
    let content = [&sequence.to_le_bytes()[..], &[client; 192]].concat();
    let before = Before::Absent { missing: path.clone(), above: Kind::Directory };
    let after = After::File { length: content.len() as u64, hash: Hash::of(&content), mode: None, mtime: 1 };
    let changes = vec![Change { path, before, after }];
    let body = Body::Value(Value::new(&changes));
    let entry = Entry::new(ClientId::from_bytes([client; 16]), sequence, &[], body.clone(), Vec::new());
    Commit {
        envelope: entry.envelope,
        body,
        lists: Lists { changes, ..Lists::default() },
        pinned: vec![Hash::of(&content)],
        small_blobs: vec![content],
        ending: Ending::new(Verdict::Shipped),
        based_on: None,
    }
}
