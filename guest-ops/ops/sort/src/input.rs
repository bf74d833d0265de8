//! Reads what is to be sorted, whole.

use crate::options::Job;
use opship_ops_common::{os_string, reason};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Said where the module's memory does not hold the input.
pub(crate) fn exhausted() -> String {
    "memory exhausted: sort the input in parts, then merge them with --merge".to_owned()
}

/// All files in one buffer, each line terminated.
pub(crate) fn read_all(job: &Job) -> Result<Vec<u8>, String> {
    let mut buffer = Vec::new();
    for name in files(job)? {
        append(&name, job.rules.terminator, &mut buffer)?;
    }
    Ok(buffer)
}

/// The files to be read; standard input if none is named.
pub(crate) fn files(job: &Job) -> Result<Vec<OsString>, String> {
    let Some(list) = &job.files_from else {
        let default = || vec![OsString::from("-")];
        return Ok(if job.files.is_empty() { default() } else { job.files.clone() });
    };
    if let Some(extra) = job.files.first() {
        return Err(format!(
            "extra operand '{}': file operands cannot be combined with --files0-from",
            extra.display()
        ));
    }
    let mut names = Vec::new();
    append(list, 0, &mut names)?;
    if names.is_empty() {
        return Err(format!("no input from '{}'", list.display()));
    }
    names.pop();
    let names: Vec<_> = names.split(|&b| b == 0).map(|name| os_string(name.to_vec())).collect();
    match names.iter().position(|name| name.is_empty()) {
        Some(at) => Err(format!("{}:{}: invalid zero-length file name", list.display(), at + 1)),
        None => Ok(names),
    }
}

/// Adds a file's bytes, and a terminator if its last line lacks one.
pub(crate) fn append(name: &OsStr, terminator: u8, buffer: &mut Vec<u8>) -> Result<(), String> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::OutOfMemory => exhausted(),
        _ => format!("cannot read: {}: {}", name.display(), reason(&error)),
    };
    let before = buffer.len();
    if name == "-" {
        read(io::stdin().lock(), buffer).map_err(failed)?;
    } else {
        let file = File::open(name).map_err(failed)?;
        let room = usize::try_from(length(&file)).map_err(|_| exhausted())?;
        // One more for a terminator, one to see the end.
        buffer.try_reserve(room.saturating_add(2)).map_err(|_| exhausted())?;
        read(file, buffer).map_err(failed)?;
    }
    if buffer.len() > before && buffer.last() != Some(&terminator) {
        buffer.try_reserve(1).map_err(|_| exhausted())?;
        buffer.push(terminator);
    }
    Ok(())
}

/// Length of a file, 0 where it cannot be told. By seeking: asking for metadata would make the run depend
/// on the file's time.
fn length(mut file: &File) -> u64 {
    let end = file.seek(SeekFrom::End(0)).unwrap_or(0);
    match file.rewind() {
        Ok(()) => end,
        Err(_) => 0,
    }
}

/// Reads to the end; an error, not the run's end, where memory is refused.
fn read(input: impl Read, buffer: &mut Vec<u8>) -> io::Result<()> {
    // By way of `Take`, since a file itself would ask for its metadata first.
    input.take(u64::MAX).read_to_end(buffer).map(drop)
}
