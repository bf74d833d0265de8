//! Does harm to whoever runs it, one kind for each subcommand; for tests of the limits.
//!
//! `hostile COMMAND ARGS…`. Most commands never end by themselves: a limit must end them. One that an error of the world
//! stops prints it and exits 1. `if PATH COMMAND…` does nothing unless PATH is there, so that a run can be harmless in one
//! tree and not in another. `hole`, `copies` and `first-write` return, or try to: what they leave to do is the world's.
#![forbid(unsafe_code)]

use opship_guest::files;
use std::fs::{self, File, ReadDir};
use std::hint::black_box;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "commands: if PATH COMMAND…, loop, recurse, grow, output, errors, own-output PATH, files, large-files, \
sparse, hole MIB, copies COUNT, first-write PATH, far-byte, names, links, targets, listings, maze, sleep, random, deep";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> io::Result<()> {
    match words {
        ["if", path, rest @ ..] if Path::new(path).try_exists()? => run(rest),
        ["if", _, _, ..] => Ok(()),
        ["loop"] => loop {
            black_box(());
        },
        ["recurse"] => {
            black_box(recurse(0));
            Ok(())
        }
        ["grow"] => grow(),
        ["output"] => print_without_end(&mut io::stdout().lock()),
        ["errors"] => print_without_end(&mut io::stderr().lock()),
        ["own-output", path] => own_output(Path::new(path)),
        ["sparse"] => File::create("sparse")?.set_len(1 << 40),
        ["hole", mib] => File::create("hole")?.set_len(number(mib)? << 20),
        ["copies", count] => copies(number(count)?),
        ["first-write", path] => first_write(Path::new(path)),
        ["far-byte"] => far_byte(),
        ["sleep"] => sleep(),
        ["random"] => random(),
        ["files"] => many(|number| fs::write(name(number), b"x")),
        ["large-files"] => many(|number| File::create(name(number))?.set_len((1 << 20) + 1)),
        _ => directories(words),
    }
}

/// The commands that make or read directories.
fn directories(words: &[&str]) -> io::Result<()> {
    match words {
        ["names"] => names(),
        ["links"] => links(),
        ["targets"] => targets(),
        ["listings"] => listings(),
        ["maze"] => maze(),
        ["deep"] => deep(),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, USAGE)),
    }
}

fn number(word: &str) -> io::Result<u64> {
    word.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, USAGE))
}

/// Does something for 0, 1, 2 and so on, until it fails.
fn many(each: impl Fn(u64) -> io::Result<()>) -> io::Result<()> {
    (0..).try_for_each(each)
}

fn name(number: u64) -> String {
    format!("f{number}")
}

/// A name as long as names may be.
fn long_name(number: u64) -> String {
    format!("{number:0>250}")
}

fn recurse(depth: u64) -> u64 {
    let below = if black_box(true) { recurse(depth + 1) } else { 0 };
    black_box(below) + depth
}

/// Takes memory and touches it; what was refused is asked for again.
fn grow() -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(PIECE).is_ok() && held.try_reserve(1).is_ok() {
            piece.resize(PIECE, 1);
            held.push(black_box(piece));
        }
    }
}

fn print_without_end(to: &mut dyn Write) -> io::Result<()> {
    let line = [b'x'; 64 << 10];
    loop {
        to.write_all(&line)?;
    }
}

/// Copies a file to standard output, which is that file.
fn own_output(path: &Path) -> io::Result<()> {
    let mut to = io::stdout().lock();
    to.write_all(&[b'y'; 64 << 10])?;
    to.flush()?;
    let mut from = File::open(path)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            from.seek(SeekFrom::Start(0))?;
            continue;
        }
        to.write_all(&buffer[..count])?;
        to.flush()?;
    }
}

/// One byte at the far end of the longest file that there may be.
fn far_byte() -> io::Result<()> {
    let mut file = File::create("far")?;
    file.seek(SeekFrom::Start((1 << 40) - 1))?;
    file.write_all(b"x")
}

/// One file of 16 MiB with so many further names: each is a copy in what the run leaves.
fn copies(count: u64) -> io::Result<()> {
    let mut file = File::create("copied")?;
    let line = [b'x'; 64 << 10];
    (0..256).try_for_each(|_| file.write_all(&line))?;
    (0..count).try_for_each(|number| files::hard_link("copied", name(number)))
}

/// Writes a byte into a file that was there before, which makes all of it the run's own, and does not end.
fn first_write(path: &Path) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(b"x")?;
    loop {
        black_box(());
    }
}

/// Sleeps longer than anybody lives, often.
fn sleep() -> io::Result<()> {
    (0..1000).for_each(|_| std::thread::sleep(Duration::from_nanos(u64::MAX)));
    Ok(())
}

fn random() -> io::Result<()> {
    let mut bytes = vec![0; 32 << 20];
    loop {
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    }
}

/// Renames one file again and again; the world remembers each name that was taken away.
fn names() -> io::Result<()> {
    fs::write(long_name(0), b"x")?;
    many(|number| fs::rename(long_name(number), long_name(number + 1)))
}

/// Gives one file ever more names.
fn links() -> io::Result<()> {
    fs::write("one", b"x")?;
    many(|number| files::hard_link("one", long_name(number)))
}

/// Symbolic links with targets as long as they may be.
fn targets() -> io::Result<()> {
    let target = "t/".repeat(2000);
    many(|number| files::symlink(&target, name(number)))
}

/// Lists a large directory on as many descriptors as there are, again and again.
fn listings() -> io::Result<()> {
    fs::create_dir("listed")?;
    (0..10_000).try_for_each(|number| fs::write(Path::new("listed").join(long_name(number)), b""))?;
    loop {
        let mut open: Vec<ReadDir> = Vec::new();
        while let Ok(mut listing) = fs::read_dir("listed") {
            black_box(listing.next());
            open.push(listing);
        }
    }
}

/// Links that lead through links, each to the one below it twice; and a ring. Both are walked without end.
fn maze() -> io::Result<()> {
    fs::create_dir("maze")?;
    fs::create_dir("maze/0")?;
    for number in 1..200_u32 {
        let below = number - 1;
        files::symlink(format!("{below}/../{below}"), format!("maze/{number}"))?;
    }
    files::symlink("b", "maze/a")?;
    files::symlink("a", "maze/b")?;
    loop {
        for number in 0..200_u32 {
            black_box(fs::metadata(format!("maze/{number}")).is_ok());
        }
        black_box(fs::metadata("maze/a").is_ok());
    }
}

/// Directories in each other, and each such chain moved below the next: deeper than any path is long.
fn deep() -> io::Result<()> {
    const LEVELS: usize = 400;
    const CHAINS: u64 = 12;
    for number in 0..CHAINS {
        let mut bottom = PathBuf::from(name(number));
        fs::create_dir(&bottom)?;
        for _ in 0..LEVELS {
            bottom.push("d");
            fs::create_dir(&bottom)?;
        }
        if number > 0 {
            fs::rename(name(number - 1), bottom.join("m"))?;
        }
    }
    Ok(())
}
