//! What is remembered of native runs beside the log.

use crate::db::native;
use crate::{ClientError, WorkingCopy};
use opship_record::answer::Reason;

/// Why a native run went by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeNote {
    /// The command line.
    pub command: String,
    /// The reason.
    pub reason: Reason,
    /// The same for people.
    pub detail: String,
}

impl WorkingCopy {
    /// The native runs of which an entry has the results by value, the oldest first.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn native_notes(&self, entry: u64) -> Result<Vec<NativeNote>, ClientError> {
        Ok(native::notes(&self.shared.db.read(), entry)?)
    }

    /// What the contents of an operation's module lack to be the program's, as it travels.
    pub(crate) fn residual(&self, entry: u64) -> Result<Option<Vec<u8>>, ClientError> {
        Ok(native::residual(&self.shared.db.read(), entry)?)
    }
}
