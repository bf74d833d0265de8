//! `scale`: what large trees, large files and many entries cost.

mod adopting;
mod edits;
mod offline;
mod pending;
mod unchanged;

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::report::Report;
use crate::value::content::Numbers;
use std::fs;
use std::io::Write;
use std::path::Path;

/// The parts, in the order in which they run.
const PARTS: [&str; 5] = ["unchanged", "offline", "pending", "edits", "adopting"];

/// Files in a folder of many.
const IN_A_FOLDER: u64 = 500;

/// Runs the parts named, or all of them.
pub(crate) fn run(named: &[&str]) -> Result<()> {
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(name)) {
        return Err(BenchError::Failed(format!("no part '{unknown}'; there are: {}", PARTS.join(", "))));
    }
    let place = Place::new()?;
    let server = place.serve()?;
    let mut report = Report::begin("scale");
    for part in PARTS.iter().filter(|part| named.is_empty() || named.contains(part)) {
        match *part {
            "unchanged" => unchanged::measure(&place, &server, &mut report)?,
            "offline" => offline::measure(&place, &server, &mut report)?,
            "pending" => pending::measure(&place, &server, &mut report)?,
            "edits" => edits::measure(&place, &server, &mut report)?,
            _ => adopting::measure(&place, &server, &mut report)?,
        }
    }
    report.finish(&place.results())
}

/// Makes small files, 500 in a folder.
fn many_files(folder: &Path, files: u64) -> Result<()> {
    let failed = || BenchError::io("make the files");
    for number in 0..files {
        let below = folder.join(format!("d{:03}", number / IN_A_FOLDER));
        if number % IN_A_FOLDER == 0 {
            fs::create_dir_all(&below).map_err(failed())?;
        }
        let text = format!("{number} {:x}\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(4);
        fs::write(below.join(format!("file-{number:06}.txt")), text).map_err(failed())?;
    }
    Ok(())
}

/// Makes a file of bytes that do not compress.
fn noise_file(path: &Path, length: usize) -> Result<()> {
    let failed = || BenchError::io("make a large file");
    let mut file = fs::File::create(path).map_err(failed())?;
    let (mut numbers, mut left) = (Numbers(length as u64), length);
    let mut block = vec![0; 1 << 20];
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&numbers.next().to_le_bytes());
        }
        let count = left.min(block.len());
        file.write_all(&block[..count]).map_err(failed())?;
        left -= count;
    }
    Ok(())
}
