//! Blobs: streamed in, verified, read by range.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::*;
use opship_record::Hash;
use opship_storage::{SMALL_BLOB, StorageError};
use opship_world::{FileContent, Produced, ProducedBody, Spill};
use std::io::Write;
use std::path::{Path, PathBuf};

fn stream(bytes: &[u8]) -> impl futures::Stream<Item = Result<Bytes, std::io::Error>> + Send + Unpin + use<> {
    let chunks: Vec<_> = bytes.chunks(60_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    futures::stream::iter(chunks)
}

fn sample(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * n / 7) as u8).collect()
}

/// Bytes in pack files.
fn packed(data: &Path) -> u64 {
    pack_files(data).iter().map(|file| file.metadata().unwrap().len()).sum()
}

#[tokio::test]
async fn every_size_comes_back_whole_and_by_range() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    for length in [0, 1, SMALL_BLOB, SMALL_BLOB + 1, 5 << 20, (5 << 20) + 1, 12_000_000] {
        let bytes = sample(length);
        let hash = Hash::of(&bytes);
        for _ in 0..2 {
            let limit = length as u64;
            assert_eq!(store.put_blob(&scope, hash, limit, stream(&bytes)).await.unwrap(), limit);
            assert_eq!(store.blob_length(&scope, &hash).unwrap(), Some(limit));
            let content = store.open_blob(&scope, &hash).unwrap().unwrap();
            assert!(read(&content) == bytes, "{length}");
            let mut buffer = [0; 100];
            let start = length / 2;
            let count = content.read_at(start as u64, &mut buffer).unwrap();
            assert_eq!(&buffer[..count], &bytes[start..(start + 100).min(length)]);
            assert_eq!(content.read_at(limit + 5, &mut buffer).unwrap(), 0);
        }
    }
    let large = SMALL_BLOB as u64 + 1 + (10 << 20) + 1 + 12_000_000;
    assert!(packed(data.path()) < large * 21 / 20, "each large content is stored once: {}", packed(data.path()));
}

#[tokio::test]
async fn what_is_wrong_is_removed() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    for length in [10, 100_000, 11_000_000] {
        let bytes = sample(length);
        let hash = Hash::of(&bytes);
        let wrong = store.put_blob(&scope, Hash::of(b"other"), u64::MAX, stream(&bytes)).await;
        assert!(matches!(wrong, Err(StorageError::WrongHash { found, .. }) if found == hash));
        let long = store.put_blob(&scope, hash, length as u64 - 1, stream(&bytes)).await;
        assert!(matches!(long, Err(StorageError::TooLong { .. })));
        let broken = vec![Ok(Bytes::from(bytes)), Err(std::io::Error::other("gone"))];
        let broken = store.put_blob(&scope, hash, u64::MAX, futures::stream::iter(broken)).await;
        assert!(matches!(broken, Err(StorageError::Upload(_))));
        assert_eq!(store.missing_blobs(&scope, &[hash, Hash::of(b"other")]).unwrap().len(), 2);
    }
    assert_eq!(pack_files(data.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn wrong_bytes_do_not_harm_a_blob_that_is_here() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let bytes = sample(100_000);
    let hash = store.put_blob_bytes(&scope, &bytes).unwrap();
    let wrong = store.put_blob(&scope, hash, u64::MAX, stream(&sample(200_000))).await;
    assert!(matches!(wrong, Err(StorageError::WrongHash { .. })));
    assert!(read(&store.open_blob(&scope, &hash).unwrap().unwrap()) == bytes);
}

#[tokio::test]
async fn many_uploads_of_one_blob_at_once() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let bytes = sample(300_000);
    let hash = Hash::of(&bytes);
    let uploads = (0..8).map(|_| store.put_blob(&scope, hash, u64::MAX, stream(&bytes)));
    for result in futures::future::join_all(uploads).await {
        assert_eq!(result.unwrap(), 300_000);
    }
    assert!(read(&store.open_blob(&scope, &hash).unwrap().unwrap()) == bytes);
    assert!(packed(data.path()) < 400_000, "what was written in vain is cut off");
}

#[test]
fn outputs_of_runs_are_kept() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    for length in [100, 100_000] {
        for in_memory in [true, false] {
            let bytes = sample(length + usize::from(in_memory));
            let (length, hash) = (bytes.len() as u64, Hash::of(&bytes));
            let body = if in_memory {
                ProducedBody::Memory(bytes.clone())
            } else {
                let mut spill = store.staging().create().unwrap();
                spill.file.write_all(&bytes).unwrap();
                ProducedBody::Spilled(spill)
            };
            store.put_produced(&scope, &Produced { body, length, hash }).unwrap();
            assert!(read(&store.open_blob(&scope, &hash).unwrap().unwrap()) == bytes);
        }
    }
    let left = std::fs::read_dir(data.path().join("staging")).unwrap().count();
    assert_eq!(left, 0, "staged files go with their run");
}

#[test]
fn a_pack_that_is_damaged_is_reported_not_served() {
    type Damage = fn(&Path, &[u8]);
    let damages: [(&str, Damage); 3] = [
        ("a flipped bit", |pack, bytes| {
            let mut bytes = bytes.to_vec();
            bytes[50_000] ^= 4;
            std::fs::write(pack, bytes).unwrap();
        }),
        ("cut short", |pack, bytes| std::fs::write(pack, &bytes[..60_000]).unwrap()),
        ("gone", |pack, _| std::fs::remove_file(pack).unwrap()),
    ];
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let hash = store.put_blob_bytes(&scope, &random(100_000, 1)).unwrap();
    drop(store);
    let pack = pack_files(data.path()).pop().unwrap();
    let good = std::fs::read(&pack).unwrap();
    for (what, damage) in damages {
        damage(&pack, &good);
        let (store, scope) = open(data.path());
        let blob = store.open_blob(&scope, &hash).unwrap().unwrap();
        let refused = blob.read_at(0, &mut vec![0; 100_000]).unwrap_err().to_string();
        assert!(refused.contains(&hash.to_string()) && refused.contains("admin fsck"), "{what}: {refused}");
    }
}

#[test]
fn contents_in_files_of_earlier_versions_are_read_and_checked() {
    let data = tempfile::tempdir().unwrap();
    let (store, scope) = open(data.path());
    let bytes = random(200_000, 2);
    let hash = store.put_blob_bytes(&scope, &bytes).unwrap();
    drop(store);
    // As a server before there were chunks left it.
    let folder = data.path().join("blobs").join(&hash.to_string()[..2]);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(hash.to_string());
    std::fs::write(&file, &bytes).unwrap();
    let database = rusqlite::Connection::open(data.path().join("metadata.db")).unwrap();
    assert_eq!(database.execute("UPDATE blob SET chunks = NULL", []).unwrap(), 1);
    drop(database);
    let (store, scope) = open(data.path());
    let blob = store.open_blob(&scope, &hash).unwrap().unwrap();
    assert!(read(&blob) == bytes);
    assert_eq!(store.known_chunks(&scope, &[hash]).unwrap(), [false]);
    drop(store);

    let mut damaged = bytes.clone();
    damaged[150_000] ^= 1;
    for damaged in [&damaged[..], b"short"] {
        std::fs::write(&file, damaged).unwrap();
        let (store, scope) = open(data.path());
        assert!(matches!(store.open_blob(&scope, &hash), Err(StorageError::Damaged(_))));
    }
    std::fs::remove_file(&file).unwrap();
    let (store, scope) = open(data.path());
    assert!(matches!(store.open_blob(&scope, &hash), Err(StorageError::Damaged(_))));
}
