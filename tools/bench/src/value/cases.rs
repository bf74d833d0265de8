//! The cases: what a folder begins with, and how it changes.

use super::content::{Numbers, files, noise, read, write};
use crate::error::{BenchError, Result};
use crate::place::succeed;
use crate::text;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The repository's own text.
type Text = [(String, Vec<u8>)];

/// One case.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Of the first sync, the change, and its pull.
    pub(super) goals: [&'static str; 3],
    pub(super) begin: fn(&Path, &Text) -> Result<()>,
    pub(super) change: fn(&Path, &Text) -> Result<()>,
}

/// Bytes of the file that edits are made in.
const LARGE: usize = 8 << 20;
/// Files of the case of many.
const MANY: usize = 1000;
/// Of which so many are edited.
const EDITED: usize = 50;
/// Rows of the database, and how many change.
const ROWS: u32 = 20_000;
const CHANGED_ROWS: u32 = 200;

macro_rules! case {
    ($name:literal, $begin:expr, $change:expr) => {
        Case {
            name: $name,
            goals: [
                concat!($name, ": first sync, opship's bytes to rsync's"),
                concat!($name, ": change, opship's bytes to rsync's"),
                concat!($name, ": pull of the change, opship's bytes to rsync's"),
            ],
            begin: $begin,
            change: $change,
        }
    };
}

/// All cases.
pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("start", large, |here, _| edit(here, |bytes| bytes[10..20].fill(b'#'))),
        case!("middle", large, |here, _| edit(here, |bytes| bytes[LARGE / 2..LARGE / 2 + 10].fill(b'#'))),
        case!("end", large, |here, _| edit(here, |bytes| bytes.extend_from_slice(b"one line more at the end\n"))),
        case!("insertions", large, |here, _| edit(here, insert)),
        case!("small-files", many, change_some),
        case!("moves", media, move_and_copy),
        case!("database", database, change_rows),
        case!("sources-tar", |here, text| tar(here, text, false), |here, text| tar(here, text, true)),
        case!("compressed", |here, text| compressed(here, text, false), |here, text| compressed(here, text, true)),
        case!("media", media, |here, _| write(&here.join("another.bin"), &noise(99, 2 << 20))),
        case!("mode-only", many_and_large, change_modes),
        case!("mtime-only", many_and_large, touch_some),
    ]
}

/// One large file: the repository's text, each line told from all others.
fn large(here: &Path, text: &Text) -> Result<()> {
    let all = text::joined(text, LARGE);
    let mut bytes = Vec::with_capacity(LARGE + (1 << 20));
    for (number, line) in all.split(|byte| *byte == b'\n').enumerate() {
        bytes.extend_from_slice(format!("{:08x} ", Numbers(number as u64).next() as u32).as_bytes());
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    bytes.truncate(LARGE);
    write(&here.join("large.txt"), &bytes)
}

fn edit(here: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let path = here.join("large.txt");
    let mut bytes = read(&path)?;
    change(&mut bytes);
    write(&path, &bytes)
}

/// Twenty lines more, all over the file.
fn insert(bytes: &mut Vec<u8>) {
    let mut numbers = Numbers(7);
    for number in 0..20 {
        let at = numbers.below(bytes.len());
        let line = format!("// inserted line {number}, {:x}\n", numbers.next());
        bytes.splice(at..at, line.into_bytes());
    }
}

/// Small files of the repository's text, of 1 to 9 KiB.
fn many(here: &Path, text: &Text) -> Result<()> {
    let all = text::joined(text, 12 << 20);
    let mut numbers = Numbers(3);
    for number in 0..MANY {
        let length = (1 << 10) + numbers.below(8 << 10);
        let at = numbers.below(all.len() - length);
        write(&here.join(format!("d{:02}/file{number:04}.txt", number % 40)), &all[at..at + length])?;
    }
    Ok(())
}

/// A line more in some of them.
fn change_some(here: &Path, _: &Text) -> Result<()> {
    let mut numbers = Numbers(5);
    for path in files(here)?.iter().step_by(MANY / EDITED) {
        let mut bytes = read(path)?;
        let at = numbers.below(bytes.len());
        let line = format!("\nchanged: {:x}\n", numbers.next());
        bytes.splice(at..at, line.into_bytes());
        write(path, &bytes)?;
    }
    Ok(())
}

/// Media: what does not compress, in files of some MiB.
fn media(here: &Path, _: &Text) -> Result<()> {
    (0..4).try_for_each(|n| write(&here.join(format!("album/{n}.bin")), &noise(n, (2 << 20) + 12_345 * n as usize)))
}

/// The folder gets another name, a file goes elsewhere, and another is copied.
fn move_and_copy(here: &Path, _: &Text) -> Result<()> {
    let failed = || BenchError::io("move files");
    fs::rename(here.join("album"), here.join("holiday")).map_err(failed())?;
    fs::create_dir(here.join("best")).map_err(failed())?;
    fs::rename(here.join("holiday/1.bin"), here.join("best/one.bin")).map_err(failed())?;
    fs::copy(here.join("holiday/2.bin"), here.join("best/two.bin")).map(drop).map_err(failed())
}

/// Many small files, and a large one.
fn many_and_large(here: &Path, text: &Text) -> Result<()> {
    many(here, text)?;
    large(here, text)
}

/// Some of the small files and the large one.
fn some_and_large(here: &Path) -> Result<Vec<PathBuf>> {
    let is_large = |path: &PathBuf| path.ends_with("large.txt");
    let (large, small): (Vec<PathBuf>, Vec<PathBuf>) = files(here)?.into_iter().partition(is_large);
    Ok(small.into_iter().step_by(MANY / EDITED).chain(large).collect())
}

/// They become executable; their bytes stay.
fn change_modes(here: &Path, _: &Text) -> Result<()> {
    some_and_large(here)?.iter().try_for_each(|path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(BenchError::io("set a mode"))
    })
}

/// They get the time of now; their bytes stay.
fn touch_some(here: &Path, _: &Text) -> Result<()> {
    let now = SystemTime::now();
    some_and_large(here)?.iter().try_for_each(|path| {
        let touched = fs::File::options().write(true).open(path).and_then(|file| file.set_modified(now));
        touched.map_err(BenchError::io("set a time"))
    })
}

fn sqlite(error: rusqlite::Error) -> BenchError {
    BenchError::Failed(format!("SQLite: {error}"))
}

/// A database of 20,000 rows with an index.
fn database(here: &Path, text: &Text) -> Result<()> {
    let all = text::joined(text, 8 << 20);
    let db = rusqlite::Connection::open(here.join("data.db")).map_err(sqlite)?;
    let make = || {
        db.execute_batch("PRAGMA journal_mode=DELETE; CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, note TEXT); CREATE INDEX by_name ON item (name); BEGIN")?;
        let mut insert = db.prepare("INSERT INTO item VALUES (?1, ?2, ?3)")?;
        let mut numbers = Numbers(11);
        for row in 0..ROWS {
            let at = numbers.below(all.len() - 200);
            let note = String::from_utf8_lossy(&all[at..at + 150]).into_owned();
            insert.execute(rusqlite::params![row, format!("{:016x}", numbers.next()), note])?;
        }
        db.execute_batch("COMMIT")
    };
    make().map_err(sqlite)
}

/// Rows chosen at random get another note.
fn change_rows(here: &Path, _: &Text) -> Result<()> {
    let db = rusqlite::Connection::open(here.join("data.db")).map_err(sqlite)?;
    let change = || {
        db.execute_batch("BEGIN")?;
        let mut numbers = Numbers(13);
        for _ in 0..CHANGED_ROWS {
            let note = format!("changed to {:032x}", numbers.next());
            db.execute(
                "UPDATE item SET note = ?2 WHERE id = ?1",
                rusqlite::params![numbers.below(ROWS as usize) as i64, note],
            )?;
        }
        db.execute_batch("COMMIT")
    };
    change().map_err(sqlite)
}

/// A tar of the repository's sources, or of their next version: in each tenth file a line changed, and one file more.
fn tar(here: &Path, text: &Text, next: bool) -> Result<()> {
    sources(here, text, next)?;
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@1700000000", "--owner=0", "--group=0", "--numeric-owner"]);
    succeed(tar.arg("-C").arg(here).args(["-cf"]).arg(here.join("sources.tar")).arg("sources"))?;
    fs::remove_dir_all(here.join("sources")).map_err(BenchError::io("remove the sources"))
}

fn sources(here: &Path, text: &Text, next: bool) -> Result<()> {
    for (number, (path, bytes)) in text.iter().enumerate() {
        let mut bytes = bytes.clone();
        if next && number % 10 == 0 {
            let at = bytes.len() / 2;
            bytes.splice(at..at, format!("\n// The next version has this line, number {number}.\n").into_bytes());
        }
        write(&here.join("sources").join(path), &bytes)?;
    }
    if next {
        write(&here.join("sources/host/new.rs"), &text::joined(text, 3000))?;
    }
    Ok(())
}

/// The same compressed, as a release is.
fn compressed(here: &Path, text: &Text, next: bool) -> Result<()> {
    tar(here, text, next)?;
    let plain = here.join("sources.tar");
    let packed = zstd::bulk::compress(&read(&plain)?, 9).map_err(BenchError::io("compress"))?;
    write(&here.join("sources.tar.zst"), &packed)?;
    fs::remove_file(plain).map_err(BenchError::io("remove the tar"))
}
