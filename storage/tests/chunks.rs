//! Contents in chunks: each stored once, visible only where a blob is, written and read by many at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::*;
use opship_record::Hash;
use opship_residual::chunks::cut;
use opship_storage::upkeep::CheckOptions;
use opship_storage::{Role, StorageError, Store};
use opship_world::FileContent;
use proptest::prelude::*;
use std::path::Path;
use std::time::Duration;

fn chunks(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    cut(bytes, |chunk| {
        chunks.push(chunk.to_vec());
        Ok(())
    })
    .unwrap();
    chunks
}

fn packed(data: &Path) -> u64 {
    pack_files(data).iter().map(|file| file.metadata().unwrap().len()).sum()
}

/// A content after `count` small edits, each of another kind.
fn edited(old: &[u8], count: usize) -> Vec<u8> {
    let mut new = old.to_vec();
    for edit in 0..count {
        let at = (edit * 7_919 + 31) * 1_013 % new.len();
        let text = format!("edit {edit}").into_bytes();
        match edit % 3 {
            0 => drop(new.splice(at..at, text)),
            1 => drop(new.splice(at..(at + text.len()).min(old.len()), text)),
            _ => drop(new.drain(at..(at + 9).min(new.len()))),
        }
    }
    new
}

#[test]
fn many_versions_with_small_edits_take_little_more_than_one() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let first = random(8_000_000, 1);
    store.put_blob_bytes(&scope, &first).unwrap();
    let one = packed(data.path());
    let (mut hashes, mut content) = (Vec::new(), first);
    for _ in 0..20 {
        content = edited(&content, 1);
        hashes.push((store.put_blob_bytes(&scope, &content).unwrap(), Hash::of(&content)));
    }
    assert!(packed(data.path()) < one * 3 / 2, "{} after {one}", packed(data.path()));
    for (kept, expected) in hashes {
        assert_eq!(kept, expected);
        assert_eq!(Hash::of(&read(&store.open_blob(&scope, &kept).unwrap().unwrap())), expected);
    }
    drop(store);
    let rows: i64 = rusqlite::Connection::open(data.path().join("metadata.db"))
        .unwrap()
        .query_row("SELECT sum(length(chunks)) FROM blob", [], |row| row.get(0))
        .unwrap();
    assert!(rows < 8_000_000 * 21 / 1000, "lists of chunks are well below 1 % of the contents: {rows}");
}

#[test]
fn chunks_are_shown_to_who_may_read_a_blob_that_has_them() {
    let data = tempfile::tempdir().unwrap();
    let (store, a) = open(data.path());
    let b = store.create_workspace(&admin(&store), "b").unwrap();
    let content = random(600_000, 2);
    let parts = chunks(&content);
    let hashes: Vec<Hash> = parts.iter().map(|part| Hash::of(part)).collect();
    assert!(parts.len() > 3);
    // Asked before there is anything, so that what comes later must become known.
    assert!(store.known_chunks(&a, &hashes).unwrap().iter().all(|known| !known));
    assert!(store.known_chunks(&b, &hashes).unwrap().iter().all(|known| !known));
    store.put_blob_bytes(&a, &content).unwrap();

    let mut asked = hashes.clone();
    asked.push(Hash::of(b"no chunk"));
    let reader = store.scope(&admin(&store), "work", Role::Read).unwrap();
    let known = store.known_chunks(&reader, &asked).unwrap();
    assert_eq!(known.iter().filter(|known| **known).count(), hashes.len());
    assert!(!known[hashes.len()]);
    let prefix = |hash: &Hash| <[u8; 8]>::try_from(&hash.as_bytes()[..8]).unwrap();
    let prefixes: Vec<[u8; 8]> = asked.iter().map(prefix).collect();
    let found = store.find_chunks(&reader, &prefixes).unwrap();
    assert_eq!(found[..hashes.len()], hashes.iter().copied().map(Some).collect::<Vec<_>>());
    assert_eq!(found[hashes.len()], None);
    for (hash, part) in hashes.iter().zip(&parts) {
        assert!(store.open_chunk(&reader, hash).unwrap().unwrap() == *part);
        assert_eq!(store.open_chunk(&b, hash).unwrap(), None, "a hash is no capability");
    }
    assert!(store.known_chunks(&b, &hashes).unwrap().iter().all(|known| !known), "and no oracle");
    assert!(store.find_chunks(&b, &prefixes).unwrap().iter().all(Option::is_none));

    let before = packed(data.path());
    store.put_blob_bytes(&b, &content).unwrap();
    assert_eq!(packed(data.path()), before, "what the server has is not written again");
    assert!(store.known_chunks(&b, &hashes).unwrap().iter().all(|known| *known));
    drop(store);
    let (store, a) = open(data.path());
    assert!(store.known_chunks(&a, &hashes).unwrap().iter().all(|known| *known), "after a restart too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_that_share_chunks_and_break_off() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let shared = random(1_500_000, 3);
    let contents: Vec<Vec<u8>> = (0..12).map(|n| [random(50_000, 100 + n), shared.clone()].concat()).collect();
    let uploads = contents.iter().enumerate().map(|(n, content)| {
        let (store, scope, content) = (store.clone(), scope.clone(), content.clone());
        tokio::spawn(async move {
            let mut pieces: Vec<Result<Bytes, String>> =
                content.chunks(70_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            if n % 3 == 2 {
                pieces.truncate(15);
                pieces.push(Err("gone".to_owned()));
            }
            store.put_blob(&scope, Hash::of(&content), u64::MAX, futures::stream::iter(pieces)).await
        })
    });
    for (n, result) in futures::future::join_all(uploads).await.into_iter().enumerate() {
        assert_eq!(result.unwrap().is_err(), n % 3 == 2, "{n}");
    }
    let check = |store: &Store| {
        for (n, content) in contents.iter().enumerate() {
            let blob = store.open_blob(&scope, &Hash::of(content)).unwrap();
            assert_eq!(blob.is_none(), n % 3 == 2);
            assert!(blob.is_none_or(|blob| read(&blob) == *content), "{n}");
        }
    };
    check(&store);
    drop(store);
    check(&open(data.path()).0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn ranges_are_those_of_the_content(
        length in 40_000..1_500_000usize,
        text in any::<bool>(),
        ranges in prop::collection::vec((any::<prop::sample::Index>(), 1..200_000usize), 1..20),
    ) {
        let data = tempfile::tempdir().unwrap();
        let (store, scope) = open(data.path());
        let content: Vec<u8> = if text { (0..length).map(|n| (n / 100) as u8).collect() } else { random(length, 4) };
        let hash = store.put_blob_bytes(&scope, &content).unwrap();
        let blob = store.open_blob(&scope, &hash).unwrap().unwrap();
        prop_assert_eq!(blob.length(), length as u64);
        for (start, count) in ranges {
            let start = start.index(length + 10);
            let mut buffer = vec![0; count];
            let found = blob.read_at(start as u64, &mut buffer).unwrap();
            let expected = &content[start.min(length)..(start + count).min(length)];
            prop_assert!(&buffer[..found] == expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_while_a_content_is_named_takes_none_of_it_away() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let mut left = 0;
    for round in 0..120u64 {
        let content = random(100_000, 1000 + round);
        let bytes = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(content.clone()))]);
        let putting = store.put_blob(&scope, Hash::of(&content), u64::MAX, bytes);
        // At another moment each time: before, while and after it is named.
        left += u64::from(tokio::time::timeout(Duration::from_micros(round * 200), putting).await.is_err());
    }
    assert!(left > 0, "nobody left");
    drop(store);
    // What was begun for those who left ends before the data is free again.
    let store = loop {
        match Store::open(data.path()) {
            Err(StorageError::Locked { .. }) => tokio::task::yield_now().await,
            opened => break opened.unwrap(),
        }
    };
    let scope = common::scope(&store);
    for round in 0..120 {
        let content = random(100_000, 1000 + round);
        if let Some(blob) = store.open_blob(&scope, &Hash::of(&content)).unwrap() {
            assert!(read(&blob) == content, "what is named is whole");
        }
    }
    let report = store.check(&admin(&store), &CheckOptions { repair: false }, &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
