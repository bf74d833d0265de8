//! What takes room.

use crate::packs::MAGIC;
use crate::packs::list::unpack;
use crate::sqlite::nodes::ReadNodes;
use crate::sqlite::{Result, upkeep};
use crate::store::Inner;
use crate::visible::Bits;
use crate::{Principal, StorageError, Store};
use opship_record::{Hash, tree};
use std::collections::HashMap;
use std::path::Path;

/// What a workspace takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceUsage {
    /// Its name.
    pub name: String,
    /// Files at the head.
    pub files: u64,
    /// Their bytes.
    pub head_bytes: u64,
    /// Versions whose trees are kept.
    pub versions: u64,
    /// Versions that were forgotten.
    pub forgotten: u64,
    /// Bytes of different contents that only earlier versions, entries and modules name.
    pub history_bytes: u64,
    /// Bytes on disk of all contents, after chunks were shared and compressed. What several workspaces share counts in each.
    pub stored_bytes: u64,
}

/// What a store takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Each workspace, by name.
    pub workspaces: Vec<WorkspaceUsage>,
    /// Bytes of packs.
    pub packs: u64,
    /// Bytes in packs that nothing needs.
    pub unneeded: u64,
    /// Bytes of the database, small contents included.
    pub database: u64,
    /// Bytes of contents in files, from before there were packs.
    pub files: u64,
    /// Bytes of uploads under way.
    pub uploads: u64,
}

impl Store {
    /// Counts what takes room.
    ///
    /// # Errors
    /// [`StorageError::AdminOnly`]; [`StorageError`] if the store cannot be read.
    pub fn usage(&self, by: &Principal) -> Result<Usage> {
        by.needs_admin()?;
        let inner = &self.0;
        let mut usage = Usage::default();
        for (workspace, name) in inner.database.read(upkeep::workspaces)? {
            usage.workspaces.push(workspace_usage(inner, workspace, name)?);
        }
        for (_, length, used) in inner.database.read(upkeep::pack_use)? {
            usage.packs += length;
            usage.unneeded += length.saturating_sub(used + MAGIC.len() as u64);
        }
        let database = inner.data.database();
        let beside = |suffix: &str| size(Path::new(&format!("{}{suffix}", database.display())));
        usage.database = size(&database) + beside("-wal") + beside("-shm");
        usage.files = inner.files.files().iter().map(|file| size(file)).sum();
        let uploads = std::fs::read_dir(self.uploads_folder()).into_iter().flatten().flatten();
        usage.uploads = uploads.map(|file| size(&file.path())).sum();
        Ok(usage)
    }
}

fn size(file: &Path) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

fn workspace_usage(inner: &Inner, workspace: i64, name: String) -> Result<WorkspaceUsage> {
    let (versions, mut lengths) = inner
        .database
        .read(|connection| Ok((upkeep::versions(connection, workspace)?, upkeep::lengths(connection, workspace)?)))?;
    let mut usage = WorkspaceUsage { name, ..WorkspaceUsage::default() };
    usage.forgotten = versions.iter().filter(|(version, _)| version.is_forgotten).count() as u64;
    usage.versions = versions.len() as u64 - usage.forgotten;
    if let Some((head, _)) = versions.last() {
        at_head(inner, &head.root, &mut usage, &mut lengths)?;
    }
    usage.history_bytes = lengths.values().sum();
    usage.stored_bytes = stored(inner, workspace)?;
    Ok(usage)
}

/// Counts what is at the head and takes it out of `lengths`.
fn at_head(inner: &Inner, root: &Hash, usage: &mut WorkspaceUsage, lengths: &mut HashMap<Hash, u64>) -> Result<()> {
    let nodes = ReadNodes(&inner.database);
    tree::diff(&nodes, &tree::empty(), root, &mut |_, _, now| -> Result<()> {
        if let Some(opship_record::node::Node::File { hash, length, .. }) = now {
            usage.files += 1;
            usage.head_bytes += length;
            lengths.remove(hash);
        }
        Ok(())
    })
}

fn stored(inner: &Inner, workspace: i64) -> Result<u64> {
    inner.database.read(|connection| {
        let (mut stored, large) = upkeep::workspace_bytes(connection, workspace)?;
        let mut counted = Bits::default();
        for (hash, length, packed) in large {
            let Some(packed) = packed else {
                stored += length;
                continue;
            };
            for run in unpack(&hash, length, &packed)? {
                for (chunk, bytes) in upkeep::stored_in(connection, &run)? {
                    if counted.insert(chunk) {
                        stored += bytes;
                    }
                }
            }
        }
        Ok::<u64, StorageError>(stored)
    })
}
