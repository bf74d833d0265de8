//! Getting contents that are not here: many small ones in one request, large ones so that they go on where they were cut.

use super::Sync;
use super::pull::State;
use crate::ClientError;
use crate::fs::copy_content;
use crate::remote::Files;
use crate::transfer::{Base, download, finished, keep_finished, unpack_small};
use opship_record::node::Node;
use opship_record::{Hash, TreePath};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use tempfile::{NamedTempFile, TempPath};

/// Longest content that is fetched together with others.
const SMALL: u64 = 64 << 10;
/// Least length of a content that is fetched as its difference to the one before.
const WITH_BASE: u64 = 2 << 10;
/// Bytes of small contents asked for in one request.
const FETCH_BYTES: u64 = 8 << 20;

/// A small content, and what is here that it is likely like.
type Different = (Hash, u64, Base);

/// A content's length, and what is here that it is likely like.
type Alone = (Hash, u64, Option<Base>);

impl Sync<'_> {
    /// Is a content here, or did a replay make it?
    pub(super) fn is_here(&self, hash: &Hash) -> Result<bool, ClientError> {
        Ok(self.replayed.contains_key(hash) || self.copy.blob_source(hash)?.is_some())
    }

    /// Gets the contents that are not here, into files of their own. What has come is in `files` also after an error.
    pub(super) async fn download(&mut self, batch: &[State], files: &mut Files) -> Result<(), ClientError> {
        let (mut together, mut with_base, mut alone) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        let folder = self.workplace()?;
        for (path, node) in batch {
            let Some(Node::File { hash, length, .. }) = node else { continue };
            if self.is_here(hash)? || !seen.insert(*hash) {
                continue;
            }
            if let Some(file) = self.of_unindexed(hash, &folder)? {
                files.insert(*hash, file);
                continue;
            }
            let base = if *length >= WITH_BASE { self.base_at(path)? } else { None };
            match base {
                Some(base) if *length <= SMALL => with_base.push((*hash, *length, base)),
                None if *length <= SMALL => drop(together.insert(*hash, *length)),
                base => alone.push((*hash, *length, base)),
            }
        }
        let total = (files.len() + together.len() + with_base.len() + alone.len()) as u64;
        for group in difference_groups(&with_base) {
            self.progress.step("downloading files", files.len() as u64, total);
            for (hash, content) in self.fetch_differences(group).await? {
                files.insert(hash, write_small(&folder, &content)?);
            }
        }
        let left_out = with_base.into_iter().filter(|(hash, ..)| !files.contains_key(hash));
        together.extend(left_out.map(|(hash, length, _)| (hash, length)));
        for hashes in groups(&together) {
            self.progress.step("downloading files", files.len() as u64, total);
            for (hash, bytes) in self.api.fetch_blobs(&hashes).await? {
                files.insert(hash, write_small(&folder, &bytes)?);
            }
        }
        let left_out = together.into_iter().filter(|(hash, _)| !files.contains_key(hash)).collect::<Vec<_>>();
        alone.extend(left_out.into_iter().map(|(hash, length)| (hash, length, None)));
        for alone in alone {
            self.progress.step("downloading files", files.len() as u64, total);
            files.insert(alone.0, self.fetch_alone(alone, &folder).await?);
        }
        Ok(())
    }

    /// One content by a request of its own. Once it is complete, whoever is killed finds it again.
    async fn fetch_alone(&mut self, (hash, length, base): Alone, folder: &Path) -> Result<TempPath, ClientError> {
        let own = self.copy.own_folder();
        if let Some(file) = finished(&own, &hash) {
            return Ok(file);
        }
        let mut file = new_file(folder)?;
        if !download(&mut self.api, &own, (&hash, length), base, file.as_file_mut()).await? {
            file = new_file(folder)?;
            self.api.get_blob(&hash, length, file.as_file_mut() as &mut File).await?;
        }
        keep_finished(&own, &hash, file)
    }

    /// A copy of a content that the folder held before its first pull, at a path that is not in the index.
    fn of_unindexed(&self, hash: &Hash, folder: &Path) -> Result<Option<TempPath>, ClientError> {
        let Some(content) = self.unindexed.get(hash).and_then(|path| self.copy.content_at(path, hash)) else {
            return Ok(None);
        };
        let mut file = new_file(folder)?;
        // Another content by now: then it is downloaded.
        let copied = copy_content(content.as_ref(), file.as_file_mut()).map_err(ClientError::io("copying a file"))?;
        Ok((copied == *hash).then(|| file.into_temp_path()))
    }

    /// Small contents that the server gives as their difference to what is here, verified.
    async fn fetch_differences(&mut self, wanted: &[Different]) -> Result<Vec<(Hash, Vec<u8>)>, ClientError> {
        let pairs: Vec<(Hash, Hash)> = wanted.iter().map(|(hash, _, base)| (*hash, base.0)).collect();
        let documents: BTreeMap<Hash, Vec<u8>> = self.api.fetch_documents(&pairs).await?.into_iter().collect();
        let made = wanted
            .iter()
            .filter_map(|(hash, length, base)| Some((*hash, unpack_small(documents.get(hash)?, hash, *length, base)?)));
        Ok(made.collect())
    }

    /// The content that a path has here, if it is large enough to be worth copying from.
    fn base_at(&self, path: &TreePath) -> Result<Option<Base>, ClientError> {
        let Some(Node::File { hash, length, .. }) = self.copy.node(path)? else { return Ok(None) };
        if length < WITH_BASE {
            return Ok(None);
        }
        Ok(self.copy.blob_source(&hash)?.map(|content| (hash, content)))
    }
}

fn new_file(folder: &Path) -> Result<NamedTempFile, ClientError> {
    NamedTempFile::new_in(folder).map_err(ClientError::io("making a file to download into"))
}

/// A small content as a file of its own.
fn write_small(folder: &Path, content: &[u8]) -> Result<TempPath, ClientError> {
    let mut file = new_file(folder)?;
    file.write_all(content).map_err(ClientError::io("writing a download"))?;
    Ok(file.into_temp_path())
}

/// Small contents with their bases in groups for one request each.
fn difference_groups(wanted: &[Different]) -> Vec<&[Different]> {
    let (mut groups, mut rest) = (Vec::new(), wanted);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|(_, length, _)| {
            bytes += length;
            bytes <= FETCH_BYTES
        });
        let (group, others) = rest.split_at(fits.count().max(1));
        groups.push(group);
        rest = others;
    }
    groups
}

/// Small contents in groups for one request each.
fn groups(wanted: &BTreeMap<Hash, u64>) -> Vec<Vec<Hash>> {
    let (mut groups, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (hash, length) in wanted.iter().filter(|(_, length)| **length <= SMALL) {
        if bytes + length > FETCH_BYTES {
            groups.push(std::mem::take(&mut group));
            bytes = 0;
        }
        bytes += length;
        group.push(*hash);
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}
