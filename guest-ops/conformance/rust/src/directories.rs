//! Directories: made, listed, renamed, removed.

use crate::text::{content, listing, say, tell};
use std::fs;
use std::io;

pub(crate) fn run() -> io::Result<()> {
    make()?;
    rename()?;
    tell("remove", fs::remove_dir("dirs/empty"));
    tell("remove again", fs::remove_dir("dirs/empty"));
    tell("remove with all in it", fs::remove_dir_all("dirs/full"));
    say("left", listing("dirs")?);
    Ok(())
}

fn make() -> io::Result<()> {
    tell("make", fs::create_dir("dirs"));
    tell("make again", fs::create_dir("dirs"));
    tell("make below nothing", fs::create_dir("dirs/no/such"));
    fs::write("dirs/file", "in a file\n")?;
    tell("make below a file", fs::create_dir("dirs/file/x"));
    fs::create_dir("dirs/a")?;
    fs::create_dir("dirs/Z")?;
    fs::write("dirs/a/below", "below\n")?;
    say("list", listing("dirs")?);
    say("list input", listing("input")?);
    tell("remove non-empty", fs::remove_dir("dirs/a"));
    fs::create_dir("dirs/empty")?;
    say("list empty", listing("dirs/empty")?);
    Ok(())
}

fn rename() -> io::Result<()> {
    tell("rename", fs::rename("dirs/a", "dirs/b"));
    say("list after renaming", listing("dirs")?);
    say("what is in it", content("dirs/b/below")?);
    tell("rename over an empty directory", fs::rename("dirs/b", "dirs/empty"));
    say("list after replacing", listing("dirs")?);
    fs::create_dir("dirs/full")?;
    fs::create_dir("dirs/full/inner")?;
    fs::write("dirs/full/inner/leaf", "leaf\n")?;
    tell("rename over a non-empty directory", fs::rename("dirs/Z", "dirs/full"));
    tell("rename into itself", fs::rename("dirs/full", "dirs/full/inner/x"));
    tell("rename a file over a directory", fs::rename("dirs/file", "dirs/full"));
    tell("rename a directory over a file", fs::rename("dirs/full", "dirs/file"));
    tell("rename a directory up", fs::rename("dirs/full/inner", "dirs/inner"));
    tell("rename it down again", fs::rename("dirs/inner", "dirs/full/inner"));
    tell("move what was in a directory", fs::rename("dirs/empty/below", "dirs/below"));
    Ok(())
}
