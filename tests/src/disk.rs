//! A disk that is soon full.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system in memory; unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of `size` (as mount takes it) at a folder. `None` where this user may not, and nobody insists
    /// (`OPSHIP_REQUIRE_ALL`).
    pub fn mount(folder: &Path, size: &str) -> Option<SmallDisk> {
        let options = format!("size={size},mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder).status();
        let done = mounted.is_ok_and(|status| status.success());
        assert!(done || std::env::var_os("OPSHIP_REQUIRE_ALL").is_none(), "cannot mount; these tests run as root");
        done.then(|| SmallDisk(folder.to_owned()))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server of the same test may still hold files there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
