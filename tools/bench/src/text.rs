//! Real input: the repository's own text.

use crate::error::{BenchError, Result};
use std::fs;
use std::path::Path;

/// Folders whose text is taken.
const FOLDERS: [&str; 6] = ["docs", "guest-ops", "host", "storage", "tests", "tools"];
/// What of them is text.
const ENDINGS: [&str; 4] = ["rs", "md", "toml", "lock"];

/// The repository's text files, in order of their paths, with paths relative to its root, which is the current folder.
pub(crate) fn files() -> Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        collect(Path::new(folder), &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let failed = |path: &Path| BenchError::io(format!("read '{}' of the repository's root", path.display()));
    for item in fs::read_dir(folder).map_err(failed(folder))? {
        let item = item.map_err(failed(folder))?;
        let path = folder.join(item.file_name());
        let kind = item.file_type().map_err(failed(&path))?;
        if kind.is_dir() && item.file_name() != "target" {
            collect(&path, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
        {
            let bytes = fs::read(&path).map_err(failed(&path))?;
            found.push((path.display().to_string(), bytes));
        }
    }
    Ok(())
}

/// All text in one, repeated until it has `length` bytes.
pub(crate) fn joined(files: &[(String, Vec<u8>)], length: usize) -> Vec<u8> {
    let all = files.iter().flat_map(|(_, bytes)| bytes);
    all.cycle().take(length).copied().collect()
}

/// `count` different pieces of the text of about 1 KiB each, each ending with a line.
pub(crate) fn pieces(files: &[(String, Vec<u8>)], count: usize) -> Vec<Vec<u8>> {
    const PIECE: usize = 1024;
    let text = joined(files, PIECE * count);
    let chunks = text.chunks(PIECE).enumerate();
    chunks
        .map(|(number, chunk)| {
            let mut piece = format!("piece {number:06}\n").into_bytes();
            piece.extend_from_slice(&chunk[..chunk.len().saturating_sub(piece.len() + 1)]);
            piece.push(b'\n');
            piece
        })
        .collect()
}
