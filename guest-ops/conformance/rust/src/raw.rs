//! What only the functions of preview 1 themselves show.

use crate::preview1::{self as wasi, Wait};
use crate::text::{content, quoted, say, tell, yes};
use std::fs;
use std::io;

pub(crate) fn run() -> io::Result<()> {
    fs::create_dir("raw")?;
    fs::write("raw/file", "0123456789")?;
    opening()?;
    flags()?;
    buffers()?;
    positions()?;
    sizes_and_times()?;
    renumbering()?;
    listing()?;
    waiting()?;
    others()
}

fn opening() -> io::Result<()> {
    say("the root's name", wasi::preopen(wasi::ROOT)?);
    tell("no further one", wasi::preopen(wasi::ROOT + 1));
    tell("a file as a directory", wasi::open(0, "raw/file", wasi::DIRECTORY, wasi::READ, 0));
    tell("a directory as one", wasi::open(0, "raw", wasi::DIRECTORY, wasi::READ, 0).and_then(wasi::close));
    tell("a directory as one, for writing", wasi::open(0, "raw", wasi::DIRECTORY, wasi::WRITE, 0));
    tell("create a directory by opening", wasi::open(0, "raw/d", wasi::CREATE | wasi::DIRECTORY, wasi::WRITE, 0));
    tell("create exclusively", wasi::open(0, "raw/file", wasi::CREATE | wasi::EXCLUSIVE, wasi::WRITE, 0));
    opship_guest::files::symlink("file", "raw/link")?;
    tell("a link that is not followed", wasi::open(0, "raw/link", 0, wasi::READ, 0));
    tell("a link that is", wasi::open(wasi::FOLLOW, "raw/link", 0, wasi::READ, 0).and_then(wasi::close));
    let fd = wasi::open(0, "raw/new", wasi::CREATE | wasi::TRUNCATE, wasi::WRITE, 0)?;
    let lowest = wasi::open(0, "raw/file", 0, wasi::READ, 0)?;
    wasi::close(fd)?;
    let again = wasi::open(0, "raw/file", 0, wasi::READ, 0)?;
    say("the lowest free descriptor is taken", yes(again == fd));
    wasi::close(again)?;
    wasi::close(lowest)?;
    tell("close again", wasi::close(lowest));
    tell("close what never was", wasi::close(1_000_000));
    tell("an absolute path", wasi::open(0, "/raw/file", 0, wasi::READ, 0));
    tell("an empty path", wasi::open(0, "", 0, wasi::READ, 0));
    tell("a path with a NUL", wasi::open(0, "raw/fi\0le", 0, wasi::READ, 0));
    tell("dots that stay inside", wasi::open(0, "raw/../raw/./file", 0, wasi::READ, 0).and_then(wasi::close));
    tell("slashes", wasi::open(0, "raw//file", 0, wasi::READ, 0).and_then(wasi::close));
    Ok(())
}

fn flags() -> io::Result<()> {
    let fd = wasi::open(0, "raw/new", 0, wasi::WRITE, wasi::APPEND)?;
    say("type and flags of a file", format_args!("{:?}", wasi::fdstat(fd)?));
    wasi::write(fd, &[b"one"])?;
    wasi::seek(fd, 0, 0)?;
    wasi::write(fd, &[b"two"])?;
    say("appended", content("raw/new")?);
    say("position", wasi::tell(fd)?);
    wasi::set_flags(fd, 0)?;
    wasi::seek(fd, 0, 0)?;
    wasi::write(fd, &[b"THREE"])?;
    say("no longer", content("raw/new")?);
    wasi::set_flags(fd, wasi::APPEND)?;
    wasi::write(fd, &[b"!"])?;
    say("and again", content("raw/new")?);
    say("type and flags of a directory", format_args!("{:?}", wasi::fdstat(wasi::ROOT)?));
    wasi::close(fd)
}

fn buffers() -> io::Result<()> {
    let fd = wasi::open(0, "raw/buffers", wasi::CREATE, wasi::WRITE, 0)?;
    // A host may take the first of several buffers only; what it did not take goes again.
    let mut rest: &[&[u8]] = &[b"ab", b"cde", b"", b"f"];
    while !rest.is_empty() {
        let count = wasi::write(fd, rest)?;
        let taken = rest
            .iter()
            .scan(0, |sum, part| {
                *sum += part.len();
                Some(*sum)
            })
            .take_while(|sum| *sum <= count);
        rest = &rest[taken.count()..];
    }
    say("written from four", content("raw/buffers")?);
    wasi::seek(fd, 0, 0)?;
    let (mut one, mut two) = ([0; 2], [0; 9]);
    let mut count = wasi::read(fd, &mut [&mut [], &mut one, &mut two])?;
    if count == one.len() {
        count += wasi::read(fd, &mut [&mut two])?;
    }
    say("read into three", format_args!("{count} bytes, {}", quoted([&one[..], &two].concat())));
    say("read no buffers", wasi::read(fd, &mut [])?);
    say("written from none", wasi::write(fd, &[])?);
    wasi::close(fd)
}

fn positions() -> io::Result<()> {
    let fd = wasi::open(0, "raw/file", 0, wasi::WRITE, 0)?;
    say("from the start", wasi::seek(fd, 4, 0)?);
    say("from here", wasi::seek(fd, -1, 1)?);
    say("from the end", wasi::seek(fd, -2, 2)?);
    say("behind the end", wasi::seek(fd, 5, 2)?);
    tell("before the start", wasi::seek(fd, -11, 2));
    say("it stayed", wasi::tell(fd)?);
    tell("seek in a directory", wasi::seek(wasi::ROOT, 0, 0));
    let mut buffer = [0; 4];
    say("read by position", wasi::pread(fd, &mut buffer, 8)?);
    say("read behind the end", wasi::pread(fd, &mut buffer, 80)?);
    say("write by position", wasi::pwrite(fd, b"X", 12)?);
    say("what it left", content("raw/file")?);
    wasi::close(fd)
}

fn sizes_and_times() -> io::Result<()> {
    let fd = wasi::open(0, "raw/file", 0, wasi::WRITE, 0)?;
    tell("set the size", wasi::set_size(fd, 4));
    let stat = wasi::fstat(fd)?;
    say("type, names, size", format_args!("{}, {}, {}", stat.kind, stat.links, stat.size));
    say("the same file by its path", yes(wasi::stat(0, "raw/file")?.inode == stat.inode));
    tell("set its time", wasi::set_times(fd, 0, 1_234_567_890_123_456_789, wasi::SET_MTIME));
    say("its time", wasi::fstat(fd)?.mtime);
    tell("set no time", wasi::set_times(fd, 5, 5, 0));
    say("its time still", wasi::fstat(fd)?.mtime);
    tell("set it twice", wasi::set_times(fd, 0, 0, wasi::SET_MTIME | wasi::SET_MTIME_NOW));
    tell("set the other twice", wasi::set_times(fd, 0, 0, wasi::SET_ATIME | wasi::SET_ATIME_NOW));
    tell("set to now", wasi::set_times(fd, 0, 0, wasi::SET_MTIME_NOW));
    say("that is later", yes(wasi::fstat(fd)?.mtime > 1_234_567_890_123_456_789));
    tell("by path", wasi::set_path_times(0, "raw/file", 1_000_000_001, wasi::SET_MTIME));
    tell("through a link", wasi::set_path_times(wasi::FOLLOW, "raw/link", 2_000_000_002, wasi::SET_MTIME));
    say("it led to the file", wasi::stat(0, "raw/file")?.mtime);
    tell("of a link itself", wasi::set_path_times(0, "raw/link", 3_000_000_003, wasi::SET_MTIME));
    say("the link's", wasi::stat(0, "raw/link")?.mtime);
    say("the file's", wasi::stat(wasi::FOLLOW, "raw/link")?.mtime);
    tell("of nothing", wasi::set_path_times(0, "raw/no", 1, wasi::SET_MTIME));
    wasi::close(fd)
}

fn renumbering() -> io::Result<()> {
    let one = wasi::open(0, "raw/file", 0, wasi::READ, 0)?;
    let two = wasi::open(0, "raw/new", 0, wasi::READ, 0)?;
    tell("renumber", wasi::renumber(one, two));
    let mut buffer = [0; 4];
    let count = wasi::read(two, &mut [&mut buffer])?;
    say("it is the other file", quoted(&buffer[..count]));
    tell("the old number", wasi::fstat(one));
    tell("renumber again", wasi::renumber(one, two));
    tell("to what is not open", wasi::renumber(two, 1_000_000));
    wasi::close(two)
}

fn listing() -> io::Result<()> {
    fs::create_dir("raw/list")?;
    for name in ["b", "a", "C", "longer name"] {
        fs::write(format!("raw/list/{name}"), "")?;
    }
    let fd = wasi::open(0, "raw/list", wasi::DIRECTORY, wasi::READ, 0)?;
    let (all, full) = wasi::read_directory(fd, 4096, 0)?;
    let mut names: Vec<_> = all.iter().map(|entry| format!("{} {}", entry.kind, quoted(&entry.name))).collect();
    names.sort();
    say("listed", names.join(", "));
    say("all of it", yes(!full));
    // As many calls as there are entries: each continues where the one before ended.
    let (mut cookie, mut pieces) = (0, Vec::new());
    loop {
        let (entries, _) = wasi::read_directory(fd, 40, cookie)?;
        let Some(last) = entries.last() else { break };
        cookie = last.next;
        pieces.extend(entries);
    }
    say("the same in pieces", yes(pieces == all));
    let (entries, full) = wasi::read_directory(fd, 20, 0)?;
    say("a piece too small", format_args!("{} entries, filled {}", entries.len(), yes(full)));
    tell("list a file", wasi::open(0, "raw/file", 0, wasi::READ, 0).and_then(|fd| wasi::read_directory(fd, 99, 0)));
    wasi::close(fd)
}

fn waiting() -> io::Result<()> {
    let fd = wasi::open(0, "raw/file", 0, wasi::WRITE, 0)?;
    tell("wait for nothing", wasi::poll(&[]));
    let hour = 3_600_000_000_000;
    say("the first of two clocks", format_args!("{:?}", wasi::poll(&[Wait::Nanos(hour), Wait::Nanos(1_000_000)])?));
    let ready = [Wait::Nanos(hour), Wait::Readable(fd), Wait::Writable(fd)];
    // Which of the files that are ready are told at once is up to the host.
    let ended = wasi::poll(&ready)?;
    say("only files are ready", yes(!ended.is_empty() && ended.iter().all(|(index, errno)| *index > 0 && *errno == 0)));
    let before = wasi::clock_time(1)?;
    wasi::poll(&[Wait::Nanos(5_000_000)])?;
    say("5 ms have passed", yes(wasi::clock_time(1)? - before >= 5_000_000));
    wasi::close(fd)
}

fn others() -> io::Result<()> {
    let fd = wasi::open(0, "raw/file", 0, wasi::WRITE, 0)?;
    tell("allocate", wasi::allocate(fd, 0, 100));
    tell("advise", wasi::advise(fd, 0, 100, 2));
    tell("advise a directory", wasi::advise(wasi::ROOT, 0, 100, 2));
    tell("sync", wasi::sync(fd));
    tell("sync data", wasi::datasync(fd));
    tell("shut a file down", wasi::shut_down(fd));
    tell("shut nothing down", wasi::shut_down(1_000_000));
    say("clocks have a resolution", yes(wasi::clock_resolution(0)? > 0 && wasi::clock_resolution(1)? > 0));
    tell("no random bytes", wasi::random(&mut []));
    tell("link", wasi::link(0, "raw/file", "raw/second"));
    tell("link a link", wasi::link(0, "raw/link", "raw/third"));
    say("it is one", wasi::stat(0, "raw/third")?.kind);
    tell("link what a link leads to", wasi::link(wasi::FOLLOW, "raw/link", "raw/fourth"));
    tell("link with a slash behind", wasi::link(0, "raw/file", "raw/fifth/"));
    tell("make with a slash behind", wasi::make_directory("raw/sixth/"));
    tell("remove without", wasi::remove_directory("raw/sixth"));
    tell("remove a file with a slash behind", wasi::remove_file("raw/file/"));
    tell("remove the dot", wasi::remove_directory("raw/."));
    tell("make the dot", wasi::make_directory("."));
    wasi::close(fd)
}
