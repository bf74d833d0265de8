//! Registered modules.

use crate::StorageError;
use crate::access::check_name;
use opship_record::Hash;
use opship_record::plan::Mount;

/// What the names of the server's own modules start with.
pub const STANDARD_PREFIX: &str = "std/";

/// A module as it is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleInfo {
    /// The name; a standard one's is without [`STANDARD_PREFIX`].
    pub name: String,
    /// Hash of its bytes.
    pub hash: Hash,
    /// Length of its bytes.
    pub length: u64,
    /// Read-only trees that its runs see.
    pub mounts: Vec<Mount>,
    /// The name that it is called by, where that is not its own.
    pub argv0: Option<String>,
    /// Is it one of the server's own?
    pub standard: bool,
}

impl ModuleInfo {
    /// A module of a workspace, without mounts.
    pub fn new(name: impl Into<String>, hash: Hash, length: u64) -> ModuleInfo {
        ModuleInfo { name: name.into(), hash, length, mounts: Vec::new(), argv0: None, standard: false }
    }

    pub(crate) fn check(&self) -> Result<(), StorageError> {
        if self.name.starts_with(STANDARD_PREFIX) || self.standard {
            let detail = "names that start with 'std/' belong to the server; leave it out";
            return Err(StorageError::Name { what: "module", name: self.name.clone(), detail });
        }
        check_name("module", &self.name)?;
        if !self.mounts.is_sorted_by(|a, b| a.path < b.path) {
            let detail = "its mounts must be sorted by path, each path once";
            return Err(StorageError::Name { what: "module", name: self.name.clone(), detail });
        }
        Ok(())
    }
}
