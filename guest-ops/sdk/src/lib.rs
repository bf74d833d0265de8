//! What a module can ask of the opship world beyond what `std` offers on WASI preview 1.
//!
//! Preview 1 has no permission bits and no way to say how far a run is. The world offers both in the
//! import module `opship_1`, which [`mode`], [`set_mode`] and [`progress`] wrap. [`files`] has the calls
//! of preview 1 that `std` offers only on nightly compilers: symbolic links, their times, inode numbers.
//! Built for another target than WASI, the same functions work on the host's files, so that an operation
//! can be tested natively.
//!
//! A module that calls [`mode`] or [`progress`] imports `opship_1` and runs only in hosts that know it.

pub mod files;
#[cfg(target_os = "wasi")]
mod imports;
mod modes;
mod progress;

pub use modes::{fd_mode, mode, set_fd_mode, set_mode, symlink_mode};
pub use progress::{Meter, progress};
