//! Limits of the wire format. A decoder refuses what is over them.

/// Longest path in bytes.
pub const MAX_PATH: usize = 4096;
/// Longest component of a path in bytes.
pub const MAX_COMPONENT: usize = 255;
/// Longest symbolic link target in bytes.
pub const MAX_LINK_TARGET: usize = 4095;
/// Most steps of an operation.
pub const MAX_STEPS: usize = 64;
/// Most mounts of a step.
pub const MAX_MOUNTS: usize = 16;
/// Most bytes of a step's arguments and environment together.
pub const MAX_ARGUMENTS: usize = 1 << 20;
/// Most bytes of an encoded record or value.
pub const MAX_RECORD: usize = 2 << 20;
/// Most bytes of an encoded envelope.
pub const MAX_ENVELOPE: usize = 64 << 10;
/// Most entries that one entry waits for. A client that would need more names the newest; they are ordered.
pub const MAX_WAITS: usize = 1024;
/// Most bytes of a part that travels inside a request. A larger one is uploaded as a blob first.
pub const MAX_INLINE_PART: usize = 64 << 10;
/// Most parts of an entry in a request.
pub const MAX_PARTS: usize = 4096;
/// Most bytes of one list (observations, effects) and of a tree node.
pub const MAX_LIST: usize = 256 << 20;
/// Most bytes of one request's body.
pub const MAX_REQUEST: usize = 16 << 20;
/// Most items that a `needs` answer names at once; the client is asked again for the rest.
pub const MAX_NEEDS: usize = 1024;
/// Most items in a divergence report.
pub const MAX_REPORT: usize = 1000;

/// Most pages (64 KiB each) of a module's memory: what 32-bit addresses reach.
pub const MAX_MEMORY_PAGES: u32 = 65_536;

/// May a symbolic link hold this target? It is data, but no file system holds an empty one or a NUL.
pub(crate) fn is_link_target(target: &[u8]) -> bool {
    !target.is_empty() && target.len() <= MAX_LINK_TARGET && !target.contains(&0)
}

/// Refuses a size over its limit.
pub(crate) fn check(what: &'static str, actual: usize, limit: usize) -> Result<(), crate::Error> {
    if actual > limit {
        return Err(crate::Error::TooLarge { what, actual: actual as u64, limit: limit as u64 });
    }
    Ok(())
}
