//! What fails, and how.

use crate::text::tell;
use opship_guest::files::{stat, symlink};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

pub(crate) fn run() -> io::Result<()> {
    paths();
    removing()?;
    descriptors()
}

fn paths() {
    tell("open nothing", File::open("no"));
    tell("open below nothing", File::open("no/such"));
    tell("open below a file", File::open("input/text.txt/x"));
    tell("open a file with a slash behind", File::open("input/text.txt/"));
    tell("open a directory for writing", OpenOptions::new().write(true).open("input"));
    tell("create where a directory is", File::create("input"));
    tell("create below nothing", File::create("no/such"));
    tell("create with a slash behind", File::create("new/"));
    tell("a name of 300 bytes", File::create("n".repeat(300)));
    tell("list nothing", fs::read_dir("no"));
    tell("list a file", fs::read_dir("input/text.txt"));
    tell("make a directory over a file", fs::create_dir("input/text.txt"));
    tell("make a directory over a directory", fs::create_dir("input"));
    tell("stat nothing", stat("no"));
    tell("target of a file", fs::read_link("input/text.txt"));
    tell("target of a directory", fs::read_link("input"));
    tell("target of nothing", fs::read_link("no"));
    tell("link over a directory", symlink("x", "input"));
    tell("link below nothing", symlink("x", "no/such"));
}

fn removing() -> io::Result<()> {
    tell("remove nothing", fs::remove_file("no"));
    tell("remove a directory as a file", fs::remove_file("input/sub"));
    tell("remove a file as a directory", fs::remove_dir("input/text.txt"));
    tell("remove a directory that is not there", fs::remove_dir("no"));
    tell("remove a full directory", fs::remove_dir("input/sub"));
    tell("rename nothing", fs::rename("no", "yes"));
    tell("rename to below nothing", fs::rename("input/empty", "no/such"));
    tell("rename to below a file", fs::rename("input/empty", "input/text.txt/x"));
    tell("rename a file to a name with a slash behind", fs::rename("input/empty", "input/new/"));
    Ok(())
}

fn descriptors() -> io::Result<()> {
    let mut reading = File::open("input/text.txt")?;
    let mut writing = File::create("written")?;
    tell("write what is open for reading", reading.write(b"x"));
    tell("read what is open for writing", writing.read(&mut [0; 4]));
    tell("seek before the start", reading.seek(SeekFrom::Current(-1)));
    tell("seek far behind the end", reading.seek(SeekFrom::Start(1 << 40)));
    tell("read there", reading.read(&mut [0; 4]));
    Ok(())
}

/// Ways out of the tree, for languages that pass paths on as they are.
pub(crate) fn escapes() -> io::Result<()> {
    tell("the directory above", File::open(".."));
    tell("a file above", File::open("../x"));
    tell("above by way of a directory", File::open("input/../../x"));
    tell("above for a moment", File::open("../input/text.txt"));
    tell("make above", fs::create_dir("../x"));
    tell("remove above", fs::remove_file("../x"));
    tell("rename to above", fs::rename("input/text.txt", "../x"));
    symlink("..", "up")?;
    tell("through a link to above", File::open("up/x"));
    tell("a link to above itself", File::open("up"));
    symlink("../../etc/passwd", "out")?;
    tell("through a link out", File::open("out"));
    tell("make through a link out", File::create("out"));
    tell("a link with an absolute target", symlink("/etc", "absolute"));
    tell("the root's own dots", stat("."));
    Ok(())
}
