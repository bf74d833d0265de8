//! The subcommands.

use opship_guest::files::{self, Kind, Time};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

const USAGE: &str = "unknown command or wrong number of arguments; commands:
write|append PATH TEXT, overwrite-at PATH OFFSET TEXT, truncate PATH LENGTH, touch-exclusive PATH,
copy SRC DST, cat PATH|-..., list DIR, stat|lstat PATH, exists PATH, mode PATH, chmod OCTAL PATH,
set-mtime PATH SECONDS NANOS, mkdir|rmdir|rm PATH, mv FROM TO, ln -s TARGET PATH, ln FROM TO, readlink PATH,
unlink-open PATH, write-many DIR N, read-many DIR, print TEXT, eprint TEXT, exit CODE, trap, loop, grow, sleep MS";

/// Runs one command; a code ends the run with it.
pub(crate) fn run(words: &[&str]) -> io::Result<Option<u8>> {
    match words {
        ["exit", code] => return Ok(Some(number(code)?)),
        ["trap"] => std::process::abort(),
        ["loop"] => forever(),
        ["grow"] => grow()?,
        ["sleep", ms] => std::thread::sleep(Duration::from_millis(number(ms)?)),
        ["print", text] => print_all(text.as_bytes())?,
        ["eprint", text] => io::stderr().write_all(text.as_bytes())?,
        ["cat", paths @ ..] => paths.iter().try_for_each(|path| cat(path))?,
        ["list", dir] => list(dir)?,
        ["stat", path] => show(&files::stat(path)?)?,
        ["lstat", path] => show(&files::lstat(path)?)?,
        ["exists", path] => print_line(&Path::new(path).try_exists()?.to_string())?,
        ["mode", path] => print_line(&format!("{:04o}", opship_guest::mode(path)?))?,
        ["readlink", path] => print_line(&fs::read_link(path)?.to_string_lossy())?,
        ["read-many", dir] => read_many(dir)?,
        _ => change(words)?,
    }
    Ok(None)
}

/// The commands that write.
fn change(words: &[&str]) -> io::Result<()> {
    match words {
        ["write", path, text] => File::create(path)?.write_all(text.as_bytes()),
        ["append", path, text] => OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes()),
        ["overwrite-at", path, offset, text] => overwrite_at(path, number(offset)?, text),
        ["truncate", path, len] => OpenOptions::new().write(true).open(path)?.set_len(number(len)?),
        ["touch-exclusive", path] => File::create_new(path).map(drop),
        ["copy", from, to] => copy(from, to),
        ["chmod", mode, path] => opship_guest::set_mode(path, octal(mode)?),
        ["set-mtime", path, seconds, nanos] => {
            files::set_mtime(path, Time { seconds: number(seconds)?, nanos: number(nanos)? })
        }
        ["mkdir", path] => fs::create_dir(path),
        ["rmdir", path] => fs::remove_dir(path),
        ["rm", path] => fs::remove_file(path),
        ["mv", from, to] => fs::rename(from, to),
        ["ln", "-s", target, path] => files::symlink(target, path),
        ["ln", from, to] => files::hard_link(from, to),
        ["unlink-open", path] => unlink_open(path),
        ["write-many", dir, count] => write_many(dir, number(count)?),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, USAGE)),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> io::Result<T> {
    text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not a number in range"))
}

fn octal(text: &str) -> io::Result<u32> {
    u32::from_str_radix(text, 8).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not an octal number"))
}

fn print_all(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

fn print_line(line: &str) -> io::Result<()> {
    print_all(format!("{line}\n").as_bytes())
}

fn cat(path: &str) -> io::Result<()> {
    let mut bytes = Vec::new();
    if path == "-" {
        io::stdin().read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.read_to_end(&mut bytes)?;
    }
    print_all(&bytes)
}

/// In the order of the world's listing, with a letter for the kind.
fn list(dir: &str) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let letter = if kind.is_dir() {
            'd'
        } else if kind.is_symlink() {
            'l'
        } else {
            'f'
        };
        print_line(&format!("{letter} {}", entry.file_name().to_string_lossy()))?;
    }
    Ok(())
}

fn show(meta: &files::Meta) -> io::Result<()> {
    let kind = match meta.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Other => "other",
    };
    let (dev, ino) = meta.id;
    print_line(&format!(
        "{kind} len={} mtime={}.{:09} links={} dev={dev} ino={ino}",
        meta.len, meta.mtime.seconds, meta.mtime.nanos, meta.links
    ))
}

fn copy(from: &str, to: &str) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = File::create(to)?;
    io::copy(&mut from, &mut to).map(drop)
}

fn overwrite_at(path: &str, offset: u64, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(text.as_bytes())
}

/// Removes a file's only name while it is open, writes on and shows what it then holds.
fn unlink_open(path: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    fs::remove_file(path)?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(b"+more")?;
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    print_line(&format!("{text} exists={}", Path::new(path).try_exists()?))
}

fn write_many(dir: &str, count: u32) -> io::Result<()> {
    for n in 0..count {
        fs::write(Path::new(dir).join(format!("{n:06}")), format!("file {n}\n"))?;
    }
    Ok(())
}

/// Reads each file of a directory, prints how many and how many bytes.
fn read_many(dir: &str) -> io::Result<()> {
    let (mut count, mut bytes) = (0u64, 0u64);
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_file() {
            count += 1;
            bytes += fs::read(&path)?.len() as u64;
        }
    }
    print_line(&format!("{count} files {bytes} bytes"))
}

fn forever() -> ! {
    let mut turns = 0u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

/// Takes memory, 16 MiB at a time and at last a page at a time, until it is refused; prints the pages held.
#[cfg(target_arch = "wasm32")]
fn grow() -> io::Result<()> {
    use std::arch::wasm32::{memory_grow, memory_size};
    for step in [256, 1] {
        while memory_grow::<0>(step) != usize::MAX {}
    }
    print_line(&format!("{} pages", memory_size::<0>()))
}

#[cfg(not(target_arch = "wasm32"))]
fn grow() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only a module has a memory of its own"))
}
