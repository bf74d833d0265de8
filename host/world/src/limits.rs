//! Constants of engine profile 1. A guest can observe every one of them, so changing one raises the profile.

/// Most open descriptors; opening more gives `EMFILE`.
pub const DESCRIPTORS: usize = 1024;
/// Most buffers in one read or write; more give `EINVAL`.
pub const IOVECS: u32 = 1024;
/// Most subscriptions of one `poll_oneoff`; more give `EINVAL`.
pub const SUBSCRIPTIONS: u32 = 1024;
/// Longest path that a call takes, in bytes; a longer one gives `ENAMETOOLONG`.
pub const PATH: u32 = 4096;
/// Most symbolic links followed in one lookup; more give `ELOOP`.
pub const LINKS: u32 = 40;
/// Longest file in bytes; beyond it is `EFBIG`.
pub const FILE_SIZE: u64 = 1 << 40;
/// Most random bytes of one call; more give `EINVAL`.
pub const RANDOM: u32 = 64 << 20;
/// Most bytes that one read or write moves; it is short beyond that.
pub const TRANSFER: u32 = 64 << 20;
/// Virtual nanoseconds that pass with each clock call.
pub const CLOCK_STEP: u64 = 1_000;
/// Resolution of all clocks in nanoseconds.
pub const CLOCK_RESOLUTION: u64 = 1_000;
/// Where the monotonic clock starts, in nanoseconds: not 0, since programs subtract from their first reading.
pub const MONOTONIC_BASE: u64 = 1_000_000_000;
/// The device number of every file.
pub const DEVICE: u64 = 1;
