//! Disks of a test's own: one that is soon full, one whose files can share blocks.

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

/// A file system (Btrfs) in an image, whose files can share blocks; unmounted when dropped.
#[derive(Debug)]
pub struct SharingDisk(SmallDisk);

impl SharingDisk {
    /// Mounts a new one at a folder, its image beside that. `None` where this user may not or there is no `mkfs.btrfs`, and
    /// nobody insists (`OPSHIP_REQUIRE_ALL`).
    pub fn mount(folder: &Path) -> Option<SharingDisk> {
        let image = folder.with_extension("image");
        let sparse = std::fs::File::create(&image).and_then(|file| file.set_len(512 << 20));
        let run = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let done = sparse.is_ok()
            && run(Command::new("mkfs.btrfs").arg("--quiet").arg(&image))
            && run(Command::new("mount").args(["-t", "btrfs", "-o", "loop"]).arg(&image).arg(folder));
        assert!(done || std::env::var_os("OPSHIP_REQUIRE_ALL").is_none(), "these tests need root and btrfs-progs");
        done.then(|| SharingDisk(SmallDisk(folder.to_owned())))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Bytes that are taken, once all is written.
    pub fn used(&self) -> u64 {
        let folder = std::fs::File::open(self.path()).unwrap();
        rustix::fs::syncfs(&folder).unwrap();
        let found = rustix::fs::fstatvfs(&folder).unwrap();
        (found.f_blocks - found.f_bfree) * found.f_frsize
    }
}
