//! Measures contents in and out: `cargo run --release --example blobs -p opship-storage [DIR] [MIB]`
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use opship_record::{Hash, Hasher};
use opship_storage::{Scope, Store};
use opship_world::FileContent;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

const PIECE: usize = 128 << 10;
const READ: usize = 64 << 10;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().unwrap_or_else(|| ".".to_owned());
    let mebibytes: usize = arguments.next().map_or(1024, |text| text.parse().unwrap());
    let data = tempfile::tempdir_in(parent).unwrap();
    let store = Store::open(&data.path().join("data")).unwrap();
    let token = std::fs::read_to_string(store.admin_token_file()).unwrap();
    let admin = store.authenticate(token.trim()).unwrap().unwrap();
    let scope = store.create_workspace(&admin, "bench").unwrap();
    for (name, text) in [("random", false), ("text", true)] {
        let content: Vec<Bytes> = (0..mebibytes * 8).map(|n| piece(n as u64, text)).collect();
        plain(data.path(), name, &content);
        stored(&store, &scope, name, &content);
    }
    println!("stored {:.1} MB of {} MiB", size(data.path()) as f64 / 1e6, 2 * mebibytes);
}

/// Bytes without a pattern (xorshift, Marsaglia 2003), or lines of numbers.
fn piece(seed: u64, text: bool) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(PIECE + 64);
    while bytes.len() < PIECE {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if text {
            writeln!(bytes, "{},{},measured,{}", seed, bytes.len(), state % 1_000_000).unwrap();
        } else {
            bytes.extend_from_slice(&state.to_le_bytes());
        }
    }
    bytes.truncate(PIECE);
    bytes.into()
}

fn plain(folder: &Path, name: &str, content: &[Bytes]) {
    let path = folder.join("plain");
    let start = Instant::now();
    let mut file = File::create(&path).unwrap();
    content.iter().for_each(|bytes| file.write_all(bytes).unwrap());
    file.sync_all().unwrap();
    rate(name, "write a plain file", content, start);
    let file = File::open(&path).unwrap();
    let start = Instant::now();
    let mut buffer = vec![0; READ];
    let mut at = 0;
    while let count @ 1.. = opship_world::read_fully_at(&file, at, &mut buffer).unwrap() {
        at += count as u64;
    }
    rate(name, "read a plain file", content, start);
    std::fs::remove_file(path).unwrap();
}

fn stored(store: &Store, scope: &Scope, name: &str, content: &[Bytes]) {
    let mut hasher = Hasher::new();
    content.iter().for_each(|bytes| hasher.update(bytes));
    let hash: Hash = hasher.finish();
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    for what in ["put", "put again"] {
        let stream = futures::stream::iter(content.iter().cloned().map(Ok::<_, std::io::Error>));
        let start = Instant::now();
        runtime.block_on(store.put_blob(scope, hash, u64::MAX, stream)).unwrap();
        rate(name, what, content, start);
    }
    for (what, length) in [("read 64 KiB at a time", READ), ("read 4 KiB at a time", 4 << 10)] {
        let blob = store.open_blob(scope, &hash).unwrap().unwrap();
        let mut buffer = vec![0; length];
        let start = Instant::now();
        let mut at = 0;
        while let count @ 1.. = blob.read_at(at, &mut buffer).unwrap() {
            at += count as u64;
        }
        assert_eq!(at, blob.length());
        rate(name, what, content, start);
    }
}

fn rate(name: &str, what: &str, content: &[Bytes], start: Instant) {
    let bytes: usize = content.iter().map(Bytes::len).sum();
    println!("{name:<8}{what:<24}{:8.0} MB/s", bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() { size(&entry.path()) } else { metadata.len() }
        })
        .sum()
}
