//! Runs programs in directories of their own and shows what they left.
#![allow(dead_code)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_tar");
pub(crate) const SYSTEM: &str = "/usr/bin/tar";

/// What makes the system's archives as ours always are.
pub(crate) const DETERMINISTIC: &[&str] =
    &["--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-f", "-"];

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

pub(crate) fn script(dir: &Path, text: &str) {
    let status = Command::new("sh").args(["-ec", text]).current_dir(dir).status().unwrap();
    assert!(status.success(), "{text}");
}

/// A directory in which a script was run.
pub(crate) fn prepare(text: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    script(dir.path(), text);
    dir
}

pub(crate) fn run(program: &str, dir: &Path, args: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TZ", "UTC")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let bytes = stdin.to_vec();
    // The program may end without reading; that is its own business.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&bytes)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// All files below a directory, each as a line: kind, mode, time, links, content.
pub(crate) fn tree(dir: &Path) -> String {
    let mut lines = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_str().unwrap().escape_debug();
            let meta = path.symlink_metadata().unwrap();
            let mode = meta.permissions().mode() & 0o7777;
            // What is as old as the test has no time to compare.
            let recent = meta.modified().unwrap().elapsed().is_ok_and(|age| age.as_secs() < 10_000);
            let time = if recent { "now".to_owned() } else { format!("{}.{:09}", meta.mtime(), meta.mtime_nsec()) };
            let links = if meta.is_dir() { 1 } else { meta.nlink() };
            let what = if meta.is_dir() {
                folders.push(path.clone());
                "directory".to_owned()
            } else if meta.is_symlink() {
                format!("-> {:?}", fs::read_link(&path).unwrap())
            } else {
                let bytes = fs::read(&path).unwrap();
                let sum = bytes.iter().fold(7u64, |sum, &b| sum.wrapping_mul(31).wrapping_add(b.into()));
                // Archives are compared on their own.
                let archive = path.extension().is_some_and(|e| e == "tar" || e == "tgz");
                if archive { "archive".to_owned() } else { format!("{} bytes {sum:x}", bytes.len()) }
            };
            lines.push(format!("{name} {mode:04o} {time} {links} {what}"));
        }
    }
    lines.sort();
    lines.join("\n")
}
