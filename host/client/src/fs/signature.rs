//! What tells without reading that a file is the one that it was.

use rustix::fs::{Stat, Timespec, Timestamps};
use std::time::{SystemTime, UNIX_EPOCH};

/// Identity, size and times of a file. Equal signatures mean equal content, unless the file was changed within the
/// granularity of the clock ([`is_racy`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub mtime: i64,
    /// Nanoseconds since 1970.
    pub ctime: i64,
}

impl Signature {
    pub(crate) fn of(stat: &Stat) -> Signature {
        Signature {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: nanos(stat.st_mtime, stat.st_mtime_nsec),
            ctime: nanos(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// The same file, neither written to nor touched, though it may have been renamed (which changes its ctime).
    pub(crate) fn is_same_file(&self, other: &Signature) -> bool {
        (self.device, self.inode, self.size, self.mtime) == (other.device, other.inode, other.size, other.mtime)
    }
}

#[allow(clippy::unnecessary_fallible_conversions, clippy::useless_conversion)]
fn nanos(seconds: impl TryInto<i64>, nanos: impl TryInto<i64>) -> i64 {
    let seconds: i64 = seconds.try_into().unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos.try_into().unwrap_or(0))
}

/// A change within this time may leave all times as they are: the kernel's coarse clock ticks every 1 to 10 ms.
const GRANULARITY: i64 = 20_000_000;

/// Was a signature taken so soon after the file's last change that a further change may not show in it? `taken` is
/// [`now_nanos`] before the `stat`.
pub(crate) fn is_racy(signature: &Signature, taken: i64) -> bool {
    taken.saturating_sub(signature.ctime.max(signature.mtime.min(taken))) < GRANULARITY
}

/// What people's clock says, in nanoseconds since 1970. It may be wrong and it may go back, so nothing but what people read
/// may depend on it.
pub(crate) fn clock_nanos() -> i64 {
    now_nanos().saturating_add(clock_error())
}

/// A test may set the clock wrong, by so many seconds.
#[cfg(feature = "failpoints")]
fn clock_error() -> i64 {
    let seconds: Option<i64> = std::env::var("OPSHIP_TEST_CLOCK").ok().and_then(|text| text.parse().ok());
    seconds.unwrap_or(0).saturating_mul(1_000_000_000)
}

#[cfg(not(feature = "failpoints"))]
fn clock_error() -> i64 {
    0
}

/// Now, in nanoseconds since 1970, as the file system's times are.
pub(crate) fn now_nanos() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Leaves the access time alone and sets the modification time.
pub(super) fn times(mtime: i64) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let mtime = Timespec { tv_sec: mtime.div_euclid(1_000_000_000), tv_nsec: mtime.rem_euclid(1_000_000_000) };
    Timestamps { last_access: omit, last_modification: mtime }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changed_just_now_is_racy_and_an_old_one_is_not() {
        let signature = Signature { device: 1, inode: 1, size: 1, mtime: 0, ctime: 1_000_000_000 };
        assert!(is_racy(&signature, 1_000_000_001));
        assert!(is_racy(&signature, 0), "a clock that went back proves nothing");
        assert!(!is_racy(&signature, 1_000_000_000 + GRANULARITY));
    }
}
