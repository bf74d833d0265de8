//! What a folder looked like: enough to know without cargo that nothing changed.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::error::{Error, Result};

/// One line a file below `folder`, sorted: path, length, modification time in nanoseconds.
/// The folder `target` directly in it is build output and left out.
pub(crate) fn of_folder(folder: &Path) -> Result<String> {
    let mut files = Vec::new();
    collect(folder, folder, &mut files)?;
    files.sort();
    Ok(files.concat())
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<()> {
    let listing = fs::read_dir(folder).map_err(Error::io("list", folder))?;
    for item in listing {
        let item = item.map_err(Error::io("list", folder))?;
        let path = item.path();
        let metadata = item.metadata().map_err(Error::io("look at", &path))?;
        if metadata.is_dir() {
            if folder != root || item.file_name() != "target" {
                collect(root, &path, files)?;
            }
            continue;
        }
        let shown = path.strip_prefix(root).unwrap_or(&path).display();
        let mut line = String::new();
        let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
        // Writing to a String cannot fail.
        let _ = writeln!(line, "{shown}\t{}\t{seconds}.{nanos:09}", metadata.len());
        files.push(line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn changes_with_a_source_and_not_with_build_output() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("op/src")).unwrap();
        fs::create_dir_all(at("target")).unwrap();
        fs::write(at("op/src/main.rs"), "fn main() {}").unwrap();
        let before = of_folder(folder.path()).unwrap();
        assert!(before.starts_with("op/src/main.rs\t12\t"), "{before}");

        fs::write(at("target/out"), "x").unwrap();
        assert_eq!(of_folder(folder.path()).unwrap(), before);

        fs::write(at("op/src/main.rs"), "fn main() { }").unwrap();
        assert_ne!(of_folder(folder.path()).unwrap(), before);
    }
}
