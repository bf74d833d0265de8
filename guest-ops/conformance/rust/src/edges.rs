//! Where descriptors, positions and times come to their limits.

use crate::preview1 as wasi;
use crate::text::{content, say, tell, yes};
use std::fs;
use std::io;

pub(crate) fn run() -> io::Result<()> {
    fs::create_dir("edges")?;
    fs::write("edges/file", "0123456789")?;
    streams();
    access()?;
    below_a_directory()?;
    removed_directory()?;
    offsets()?;
    times()
}

fn streams() {
    let mut buffer = [0; 4];
    tell("read standard output", wasi::read(1, &mut [&mut buffer]));
    tell("write standard input", wasi::write(0, &[b"x"]));
    tell("seek in standard input", wasi::seek(0, 0, 1));
    tell("seek in standard output", wasi::seek(1, 0, 0));
    tell("position of standard output", wasi::tell(1));
    tell("read standard input by position", wasi::pread(0, &mut buffer, 0));
    tell("write standard output by position", wasi::pwrite(1, b"x", 0));
    tell("list standard input", wasi::read_directory(0, 100, 0));
    tell("size of standard output", wasi::set_size(1, 0));
    tell("status of standard error", wasi::fstat(2));
    tell("name of standard error", wasi::preopen(2));
    tell("open below standard input", wasi::open_below(0, 0, "x", 0, wasi::READ, 0));
    tell("yield", wasi::yield_now());
}

fn access() -> io::Result<()> {
    let fd = wasi::open(0, "edges/file", 0, wasi::READ, 0)?;
    let mut buffer = [0; 4];
    tell("write without the right", wasi::write(fd, &[b"x"]));
    tell("write by position without the right", wasi::pwrite(fd, b"x", 0));
    tell("set a size without the right", wasi::set_size(fd, 0));
    tell("ask for other rights", wasi::set_rights(fd, wasi::WRITE));
    tell("open below a file", wasi::open_below(fd, 0, "x", 0, wasi::READ, 0));
    tell("list it", wasi::read_directory(fd, 100, 0));
    wasi::close(fd)?;
    let fd = wasi::open(0, "edges/write", wasi::CREATE, wasi::WRITE & !wasi::READ, 0)?;
    tell("read without the right", wasi::read(fd, &mut [&mut buffer]));
    tell("read by position without the right", wasi::pread(fd, &mut buffer, 0));
    tell("write with it", wasi::write(fd, &[b"ok"]));
    wasi::close(fd)?;
    tell("read a directory", wasi::read(wasi::ROOT, &mut [&mut buffer]));
    tell("write a directory", wasi::write(wasi::ROOT, &[b"x"]));
    tell("size of a directory", wasi::set_size(wasi::ROOT, 0));
    tell("append to a directory", wasi::set_flags(wasi::ROOT, wasi::APPEND));
    Ok(())
}

fn below_a_directory() -> io::Result<()> {
    fs::create_dir("edges/sub")?;
    fs::write("edges/sub/leaf", "leaf\n")?;
    let sub = wasi::open(0, "edges/sub", wasi::DIRECTORY, wasi::READ, 0)?;
    tell("open below it", wasi::open_below(sub, 0, "leaf", 0, wasi::READ, 0).and_then(wasi::close));
    tell("open beside it", wasi::open_below(sub, 0, "../file", 0, wasi::READ, 0));
    tell("open it by its dot", wasi::open_below(sub, 0, ".", 0, wasi::READ, 0).and_then(wasi::close));
    opship_guest::files::symlink("../file", "edges/sub/out")?;
    tell("open through a link that leads out of it", wasi::open_below(sub, wasi::FOLLOW, "out", 0, wasi::READ, 0));
    tell("the same from above", wasi::open(wasi::FOLLOW, "edges/sub/out", 0, wasi::READ, 0).and_then(wasi::close));
    tell("move out of it", wasi::rename_below(sub, "leaf", wasi::ROOT, "edges/leaf"));
    tell("move into it", wasi::rename_below(wasi::ROOT, "edges/leaf", sub, "back"));
    fs::rename("edges/sub", "edges/renamed")?;
    tell("after it was renamed", wasi::open_below(sub, 0, "back", 0, wasi::READ, 0).and_then(wasi::close));
    tell("make in it", wasi::open_below(sub, 0, "made", wasi::CREATE, wasi::WRITE, 0).and_then(wasi::close));
    say("what is in it", crate::text::listing("edges/renamed")?);
    wasi::close(sub)
}

fn removed_directory() -> io::Result<()> {
    fs::create_dir("edges/gone")?;
    let gone = wasi::open(0, "edges/gone", wasi::DIRECTORY, wasi::READ, 0)?;
    fs::remove_dir("edges/gone")?;
    tell("open in a removed directory", wasi::open_below(gone, 0, "x", 0, wasi::READ, 0));
    tell("make in a removed directory", wasi::open_below(gone, 0, "x", wasi::CREATE, wasi::WRITE, 0));
    tell("move into it", wasi::rename_below(wasi::ROOT, "edges/file", gone, "x"));
    tell("its status", wasi::fstat(gone));
    wasi::close(gone)
}

fn offsets() -> io::Result<()> {
    let fd = wasi::open(0, "edges/file", 0, wasi::WRITE, 0)?;
    let mut buffer = [0; 4];
    // Far behind the end, and not where file systems have limits of their own.
    say("read at 1 GiB", wasi::pread(fd, &mut buffer, 1 << 30)?);
    say("seek to the last offset", yes(wasi::seek(fd, i64::MAX, 0)? == i64::MAX.cast_unsigned()));
    say("untouched", content("edges/file")?);
    wasi::close(fd)
}

fn times() -> io::Result<()> {
    for (what, time) in [("zero", 0), ("a nanosecond", 1), ("of 2030", 1_893_456_000_000_000_000)] {
        wasi::set_path_times(0, "edges/file", time, wasi::SET_MTIME)?;
        say(what, yes(wasi::stat(0, "edges/file")?.mtime == time));
    }
    Ok(())
}
