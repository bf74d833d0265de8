//! One file after the other: made, changed, renamed, removed.

use crate::text::{Sum, content, quoted, say, tell, yes};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

pub(crate) fn run() -> io::Result<()> {
    fs::create_dir("files")?;
    change("files/a")?;
    sparse("files/sparse")?;
    rename()?;
    unlink_while_open("files/open")?;
    copy()
}

fn change(path: &str) -> io::Result<()> {
    tell("create", File::create(path)?.write_all(b"first\n"));
    tell("create again, exclusive", File::create_new(path));
    say("content", content(path)?);
    OpenOptions::new().append(true).open(path)?.write_all(b"second\n")?;
    say("append", content(path)?);

    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    file.set_len(3)?;
    say("truncate to 3", content(path)?);
    file.set_len(6)?;
    say("extend to 6", content(path)?);
    file.seek(SeekFrom::Start(10))?;
    file.write_all(b"end")?;
    say("write at 10 after seeking", content(path)?);
    say("position", file.stream_position()?);
    say("size", file.metadata()?.len());
    by_position(&mut file, path)?;
    let mut rest = Vec::new();
    say("read at the end", format_args!("{} bytes", file.read_to_end(&mut rest)?));

    let mut input = OpenOptions::new().write(true).open("input/text.txt")?;
    input.seek(SeekFrom::Start(4))?;
    input.write_all(b"TWO")?;
    say("overwrite in the middle", content("input/text.txt")?);
    Ok(())
}

#[cfg(target_os = "wasi")]
fn by_position(file: &mut File, path: &str) -> io::Result<()> {
    use crate::preview1;
    use std::os::fd::AsRawFd;

    let fd = file.as_raw_fd().unsigned_abs();
    let mut buffer = [0; 16];
    let count = preview1::pread(fd, &mut buffer, 10)?;
    say("read at 10", quoted(&buffer[..count]));
    preview1::pwrite(fd, b"F", 0)?;
    say("write at 0", content(path)?);
    say("position is kept", yes(file.stream_position()? == 13));
    Ok(())
}

#[cfg(not(target_os = "wasi"))]
fn by_position(file: &mut File, path: &str) -> io::Result<()> {
    use std::os::unix::fs::FileExt;

    let mut buffer = [0; 16];
    let count = file.read_at(&mut buffer, 10)?;
    say("read at 10", quoted(&buffer[..count]));
    file.write_all_at(b"F", 0)?;
    say("write at 0", content(path)?);
    say("position is kept", yes(file.stream_position()? == 13));
    Ok(())
}

fn sparse(path: &str) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.seek(SeekFrom::Start(1 << 20))?;
    file.write_all(b"x")?;
    let bytes = fs::read(path)?;
    say("sparse", format_args!("{} bytes, sum {:016x}", bytes.len(), Sum::of(&bytes)));
    Ok(())
}

fn rename() -> io::Result<()> {
    fs::write("files/b", "old")?;
    tell("rename over existing", fs::rename("files/a", "files/b"));
    say("replaced", content("files/b")?);
    tell("old name", File::open("files/a"));
    tell("rename onto itself", fs::rename("files/b", "files/b"));
    say("still there", content("files/b")?);
    Ok(())
}

fn unlink_while_open(path: &str) -> io::Result<()> {
    fs::write(path, "going")?;
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    tell("unlink while open", fs::remove_file(path));
    tell("its name", File::open(path));
    file.seek(SeekFrom::End(0))?;
    file.write_all(b", gone")?;
    file.rewind()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    say("still readable and writable", quoted(text));
    fs::write(path, "new")?;
    say("a new file of that name", content(path)?);
    say("the old one", format_args!("{} bytes", file.metadata()?.len()));
    Ok(())
}

fn copy() -> io::Result<()> {
    let count = io::copy(&mut File::open("input/bytes.bin")?, &mut File::create("files/copy")?)?;
    say("copy", format_args!("{count} bytes, sum {:016x}", Sum::of(&fs::read("files/copy")?)));
    fs::copy("files/copy", "files/other")?;
    tell("remove", fs::remove_file("files/other"));
    tell("remove again", fs::remove_file("files/other"));
    Ok(())
}
