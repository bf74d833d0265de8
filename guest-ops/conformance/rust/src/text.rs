//! The text form of what was seen: the same on every host.

use opship_guest::files::{Kind, Meta};
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Errnos of preview 1, by number.
const NAMES: &[(i32, &str)] = &[
    (2, "EACCES"),
    (8, "EBADF"),
    (10, "EBUSY"),
    (20, "EEXIST"),
    (21, "EFAULT"),
    (22, "EFBIG"),
    (25, "EILSEQ"),
    (28, "EINVAL"),
    (29, "EIO"),
    (31, "EISDIR"),
    (32, "ELOOP"),
    (33, "EMFILE"),
    (34, "EMLINK"),
    (37, "ENAMETOOLONG"),
    (44, "ENOENT"),
    (51, "ENOSPC"),
    (52, "ENOSYS"),
    (54, "ENOTDIR"),
    (55, "ENOTEMPTY"),
    (57, "ENOTSOCK"),
    (58, "ENOTSUP"),
    (61, "EOVERFLOW"),
    (63, "EPERM"),
    (69, "EROFS"),
    (70, "ESPIPE"),
    (75, "EXDEV"),
    (76, "ENOTCAPABLE"),
];

/// Prints `WHAT: RESULT`.
pub(crate) fn say(what: &str, result: impl Display) {
    println!("{what}: {result}");
}

/// Prints `WHAT: ok` or the errno's name.
pub(crate) fn tell<T>(what: &str, result: io::Result<T>) {
    match result {
        Ok(_) => say(what, "ok"),
        Err(error) => say(what, name(&error)),
    }
}

/// `yes` or `no`.
pub(crate) fn yes(truth: bool) -> &'static str {
    if truth { "yes" } else { "no" }
}

/// `ENOENT` and its like; what has no errno is shown in words.
pub(crate) fn name(error: &io::Error) -> String {
    let Some(errno) = error.raw_os_error() else { return error.to_string() };
    match NAMES.iter().find(|(known, _)| *known == errno) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("E{errno}"),
    }
}

/// Bytes in quotes: printable ASCII as it is, the rest escaped.
pub(crate) fn quoted(bytes: impl AsRef<[u8]>) -> String {
    let mut text = String::from('"');
    for byte in bytes.as_ref() {
        match byte {
            b'\n' => text.push_str("\\n"),
            0 => text.push_str("\\0"),
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text + "\""
}

/// The content of a file, in quotes.
pub(crate) fn content(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(quoted(std::fs::read(path)?))
}

/// `file of 3 bytes`; a directory's size is the host's own and not shown.
pub(crate) fn kind(meta: &Meta) -> String {
    match meta.kind {
        Kind::File => format!("file of {} bytes", meta.len),
        Kind::Symlink => format!("symbolic link of {} bytes", meta.len),
        Kind::Directory => "directory".to_owned(),
        Kind::Other => "other".to_owned(),
    }
}

/// The names in a directory in byte order, each with its kind; `nothing` if there are none.
pub(crate) fn listing(path: impl AsRef<Path>) -> io::Result<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name().to_string_lossy().into_owned(), entry.file_type()?);
        let kind = if kind.is_dir() {
            "directory"
        } else if kind.is_symlink() {
            "link"
        } else {
            "file"
        };
        all.push((name, kind));
    }
    all.sort();
    let words: Vec<String> = all.iter().map(|(name, kind)| format!("{kind} {name}")).collect();
    Ok(if words.is_empty() { "nothing".to_owned() } else { words.join(", ") })
}

/// FNV-1a with 64 bits, over any number of pieces.
pub(crate) struct Sum(pub(crate) u64);

impl Sum {
    pub(crate) fn new() -> Sum {
        Sum(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut sum = Sum::new();
        sum.add(bytes);
        sum.0
    }
}
