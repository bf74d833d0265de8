//! What opship's world promises beyond preview 1: order, numbers and cookies are the same everywhere.

use crate::preview1 as wasi;
use crate::text::{say, tell, yes};
use std::fs;
use std::io;

pub(crate) fn run() -> io::Result<()> {
    fs::create_dir("world")?;
    for name in ["b", "a", "B", "ä", "a.", "10", "9"] {
        fs::write(format!("world/{name}"), "")?;
    }
    let fd = wasi::open(0, "world", wasi::DIRECTORY, wasi::READ, 0)?;
    let (entries, _) = wasi::read_directory(fd, 4096, 0)?;
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    say("order", names.join(" "));
    let counted = entries[2..].windows(2).all(|pair| pair[1].inode == pair[0].inode + 1);
    say("numbers count up", yes(counted));
    remove_while_listing(fd)?;
    let stat = wasi::stat(0, "world")?;
    say("a directory's size and names", format_args!("{} and {}", stat.size, stat.links));
    wasi::close(fd)?;
    odd_values()
}

/// Each name comes once, though what was listed before it is removed at once.
fn remove_while_listing(fd: u32) -> io::Result<()> {
    let (mut cookie, mut seen) = (0, Vec::new());
    loop {
        let (entries, _) = wasi::read_directory(fd, 60, cookie)?;
        let Some(last) = entries.last() else { break };
        cookie = last.next;
        for entry in entries.iter().filter(|entry| entry.kind == 4) {
            wasi::remove_file(&format!("world/{}", entry.name))?;
            seen.push(entry.name.clone());
        }
    }
    say("removed while listing", seen.join(" "));
    let (left, _) = wasi::read_directory(fd, 4096, 0)?;
    say("left", left.len());
    Ok(())
}

/// What POSIX lets succeed and another host does not, and what that host ends the run for.
fn odd_values() -> io::Result<()> {
    tell("sync a directory", wasi::sync(wasi::ROOT));
    fs::create_dir("world/directory")?;
    tell("remove a directory with a slash behind", wasi::remove_directory("world/directory/"));
    fs::write("world/file", "0123456789")?;
    let fd = wasi::open(0, "world/file", 0, wasi::WRITE, 0)?;
    tell("a buffer outside of memory", wasi::read_to_nowhere(fd));
    tell("seek from nowhere", wasi::seek(fd, 0, 3));
    tell("an unknown clock", wasi::clock_time(9));
    wasi::seek(fd, i64::MAX, 0)?;
    tell("seek beyond the last offset", wasi::seek(fd, 1, 1));
    tell("write at the last offset", wasi::write(fd, &[b"x"]));
    say("read there", wasi::read(fd, &mut [&mut [0; 4]])?);
    tell("a size beyond it", wasi::set_size(fd, u64::MAX));
    wasi::seek(fd, 0, 0)?;
    tell("unknown advice", wasi::advise(fd, 0, 0, 6));
    let (mut one, mut two) = ([0; 3], [0; 3]);
    say("both buffers are filled", wasi::read(fd, &mut [&mut one, &mut two])?);
    wasi::close(fd)
}
