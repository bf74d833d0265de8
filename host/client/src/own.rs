//! The caller's own standard output and error, where they are files of the tree.

use crate::fs::{Found, Signature};

/// Files that descriptors 1 and 2 of this process write to, as they were at the start of a run. The shell has opened
/// (and truncated) them already; our own writing to them is no change by another.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnOutputs(Vec<Found>);

impl OwnOutputs {
    /// Looks at the descriptors.
    pub(crate) fn of_process() -> OwnOutputs {
        let found = [rustix::fs::fstat(rustix::stdio::stdout()), rustix::fs::fstat(rustix::stdio::stderr())];
        let found = found.iter().flatten().map(Found::of);
        OwnOutputs(found.filter(|found| found.kind == Some(opship_record::node::Kind::File)).collect())
    }

    /// If a file is one of them: how it was at the start.
    pub(crate) fn at_start(&self, signature: &Signature) -> Option<Found> {
        self.0
            .iter()
            .find(|own| (own.signature.device, own.signature.inode) == (signature.device, signature.inode))
            .copied()
    }
}
