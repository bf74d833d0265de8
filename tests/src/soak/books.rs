//! What was written, and where it must be in the end.

use super::client::Client;
use crate::Server;
use opship_record::{Hash, codec};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Contents by their hashes.
#[derive(Default)]
pub(super) struct Books {
    /// Written by the soak: where and as what. Until it is recorded, whoever destroys it where it was written loses it
    /// knowingly.
    written: BTreeMap<Hash, String>,
    /// In the folder of which client, and not yet surely recorded.
    only_at: BTreeMap<Hash, usize>,
    /// Destroyed by the soak itself before it was recorded.
    given_up: BTreeSet<Hash>,
    /// Seen in a folder whose sync had ended with nothing waiting, with the path.
    recorded: BTreeMap<Hash, String>,
    /// Bytes of all that was written.
    bytes: u64,
}

impl Books {
    /// The soak wrote a file.
    pub(super) fn wrote(&mut self, path: &Path, bytes: &[u8], who: usize) {
        let hash = Hash::of(bytes);
        self.bytes += bytes.len() as u64;
        self.written.insert(hash, path.display().to_string());
        self.only_at.insert(hash, who);
        self.given_up.remove(&hash);
    }

    /// The soak is about to destroy what is at a path: a file, or all in a folder.
    pub(super) fn destroys(&mut self, path: &Path, who: usize) {
        visit(path, &mut |_, hash| {
            if self.only_at.get(&hash) == Some(&who) {
                self.given_up.insert(hash);
            }
        });
    }

    /// A sync of the folder has ended, and nothing waits.
    pub(super) fn recorded(&mut self, folder: &Path) {
        visit(folder, &mut |path, hash| {
            self.only_at.remove(&hash);
            self.recorded.insert(hash, path.display().to_string());
        });
    }

    pub(super) fn written(&self) -> u64 {
        self.written.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many contents must be somewhere.
    pub(super) fn required(&self) -> u64 {
        self.must_be().len() as u64
    }

    fn must_be(&self) -> BTreeMap<Hash, String> {
        let written = self.written.iter().filter(|(hash, _)| !self.given_up.contains(hash));
        written.chain(&self.recorded).map(|(hash, path)| (*hash, path.clone())).collect()
    }

    /// Contents that are in no folder and that the workspace does not hold.
    pub(super) fn lost(&self, server: &Server, clients: &[Client]) -> Vec<String> {
        let mut must_be = self.must_be();
        for client in clients {
            visit(&client.folder, &mut |_, hash| drop(must_be.remove(&hash)));
        }
        let hashes: Vec<Hash> = must_be.keys().copied().collect();
        let mut lost = Vec::new();
        for hashes in hashes.chunks(10_000) {
            let path = "/v1/workspaces/main/blobs:missing";
            let (status, body) = server.request("POST", path, &codec::encode(&hashes));
            assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
            let missing: Vec<Hash> = codec::decode(&body, "hashes").unwrap();
            lost.extend(missing.iter().map(|hash| format!("{hash}, once at {}", must_be[hash])));
        }
        lost
    }
}

/// All regular files at and below a path, but opship's own.
fn visit(path: &Path, seen: &mut dyn FnMut(&Path, Hash)) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if metadata.is_file() {
        if let Ok(bytes) = fs::read(path) {
            seen(path, Hash::of(&bytes));
        }
    } else if metadata.is_dir() && !path.ends_with(".opship") {
        for entry in fs::read_dir(path).unwrap() {
            visit(&entry.unwrap().path(), seen);
        }
    }
}
