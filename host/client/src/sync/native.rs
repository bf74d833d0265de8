//! What travels with the operation of a native run: the list of changes, since no replay gives its modes and times, and what
//! the module's contents lack to be the program's.

use super::Sync;
use crate::log::LogEntry;
use crate::{ClientError, WorkingCopy};
use opship_record::effect;
use opship_record::entry::{Body, Part, PartKind};
use opship_record::record::Record;

impl Sync<'_> {
    /// The parts that go with an operation at first: none, unless a program of the user's own ran.
    pub(super) async fn operation_parts(&mut self, entry: &LogEntry) -> Result<Vec<Part>, ClientError> {
        match Body::decode(entry.kind, &entry.body)? {
            Body::Operation(record) if record.is_native() => {
                let changes = self.copy.lists(entry.number)?.changes;
                let mut parts = vec![self.list_part(PartKind::Changes, effect::encode_list(&changes)).await?];
                if let Some(residual) = self.copy.residual(entry.number)? {
                    parts.push(self.list_part(PartKind::Residual, residual).await?);
                }
                Ok(parts)
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Bytes of the parts that go with an operation at first.
pub(super) fn parts_bytes(copy: &WorkingCopy, entry: &LogEntry, record: &Record) -> Result<u64, ClientError> {
    if !record.is_native() {
        return Ok(0);
    }
    let changes = effect::encode_list(&copy.lists(entry.number)?.changes).len();
    let residual = copy.residual(entry.number)?.map_or(0, |residual| residual.len());
    Ok((changes + residual) as u64)
}
