//! Fuzz targets: functions of the bytes that fuzzing makes. What must hold is asserted; nothing else may stop them.

/// A bundle from outside: taken as a whole, with no more than it says, or refused.
pub(crate) fn bundle(data: &[u8]) {
    if let Ok(head) = opship_client::bundle::check(data) {
        assert!(head.paths <= 1_000_000 && head.entries + head.contents <= data.len() as u64);
    }
}
