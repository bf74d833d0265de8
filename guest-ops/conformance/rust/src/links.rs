//! Symbolic links and second names.

use crate::text::{content, kind, listing, quoted, say, tell, yes};
use opship_guest::files::{hard_link, lstat, stat, symlink};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

pub(crate) fn run() -> io::Result<()> {
    fs::create_dir("links")?;
    to_files()?;
    to_nothing()?;
    to_directories()?;
    second_names()
}

fn target(path: &str) -> io::Result<String> {
    Ok(quoted(fs::read_link(path)?.as_os_str().as_encoded_bytes()))
}

fn to_files() -> io::Result<()> {
    tell("make", symlink("../input/sub/leaf.txt", "links/leaf"));
    tell("make over existing", symlink("elsewhere", "links/leaf"));
    say("target", target("links/leaf")?);
    say("itself", kind(&lstat("links/leaf")?));
    say("followed", kind(&stat("links/leaf")?));
    say("through it", content("links/leaf")?);
    tell("rename it", fs::rename("links/leaf", "links/moved"));
    say("target after renaming", target("links/moved")?);
    symlink("moved", "links/second")?;
    say("through two", content("links/second")?);
    tell("remove it", fs::remove_file("links/second"));
    say("what it led to", kind(&lstat("links/moved")?));
    Ok(())
}

fn to_nothing() -> io::Result<()> {
    symlink("nothing", "links/dangling")?;
    say("dangling, itself", kind(&lstat("links/dangling")?));
    tell("dangling, followed", stat("links/dangling"));
    tell("dangling, opened", File::open("links/dangling"));
    tell("dangling, made exclusively", File::create_new("links/dangling"));
    tell("dangling, made", File::create("links/dangling")?.write_all(b"made\n"));
    say("what was made", content("links/nothing")?);
    symlink("loop-b", "links/loop-a")?;
    symlink("loop-a", "links/loop-b")?;
    tell("loop", File::open("links/loop-a"));
    tell("below a loop", File::open("links/loop-a/x"));
    Ok(())
}

fn to_directories() -> io::Result<()> {
    symlink("../input", "links/dir")?;
    say("list through it", listing("links/dir")?);
    say("read through it", content("links/dir/sub/leaf.txt")?);
    tell("remove it as a directory", fs::remove_dir("links/dir"));
    tell("make a directory over it", fs::create_dir("links/dir"));
    fs::write("links/dir/new", "new\n")?;
    say("made through it", content("input/new")?);
    tell("remove through it", fs::remove_file("links/dir/new"));
    Ok(())
}

fn second_names() -> io::Result<()> {
    fs::write("links/one", "one\n")?;
    tell("second name", hard_link("links/one", "links/two"));
    let (one, two) = (stat("links/one")?, stat("links/two")?);
    say("names", format_args!("{} and {}", one.links, two.links));
    say("the same file", yes(one.id == two.id));
    OpenOptions::new().append(true).open("links/one")?.write_all(b"more\n")?;
    say("written by one, read by the other", content("links/two")?);
    tell("rename one over the other", fs::rename("links/one", "links/two"));
    say("both are still there", yes(Path::new("links/one").exists() && Path::new("links/two").exists()));
    tell("remove one", fs::remove_file("links/one"));
    say("names left", stat("links/two")?.links);
    say("content", content("links/two")?);
    tell("second name of a directory", hard_link("input", "links/three"));
    tell("second name over existing", hard_link("links/two", "links/moved"));
    tell("second name of nothing", hard_link("links/no", "links/four"));
    Ok(())
}
