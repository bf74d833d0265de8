//! A member of an archive, whichever format it is stored in.

use crate::names::quoted;
use opship_guest::files::Time;
use opship_ops_common::date;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
    /// Anything else, by its letter in the header.
    Other(u8),
}

#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    /// A symbolic link's target, or the member that a hard link is another name of.
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) kind: Kind,
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) mtime: Time,
    /// Length of the content in bytes.
    pub(crate) size: u64,
    /// `USER/GROUP`, by name or number.
    pub(crate) owner: String,
}

impl Member {
    /// A line as of `tar -tv`. `width` is that of owner and size together; it grows with the widest.
    pub(crate) fn line(&self, width: &mut usize) -> String {
        let size = self.size.to_string();
        *width = (*width).max(self.owner.len() + 1 + size.len());
        let room = *width - self.owner.len();
        let at = date::civil(self.mtime.seconds);
        let link = match (self.kind, &self.link) {
            (Kind::Symlink, Some(link)) => format!(" -> {}", quoted(link)),
            (Kind::HardLink, Some(link)) => format!(" link to {}", quoted(link)),
            _ => String::new(),
        };
        format!(
            "{} {}{size:>room$} {}-{:02}-{:02} {:02}:{:02} {}{link}",
            self.permissions(),
            self.owner,
            at.year,
            at.month,
            at.day,
            at.hour,
            at.minute,
            quoted(&self.name)
        )
    }

    fn permissions(&self) -> String {
        let kind = match self.kind {
            Kind::File => '-',
            Kind::Directory => 'd',
            Kind::Symlink => 'l',
            Kind::HardLink => 'h',
            Kind::Other(b'3') => 'c',
            Kind::Other(b'4') => 'b',
            Kind::Other(b'6') => 'p',
            Kind::Other(b'V') => 'V',
            Kind::Other(_) => '?',
        };
        let bit = |bit: u32, letter: char| if self.mode & bit == 0 { '-' } else { letter };
        // A special bit shows in the place of the right to execute, in capitals without that right.
        let execute = |bit: u32, special: u32, letter: char| match (self.mode & bit != 0, self.mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        };
        [
            kind,
            bit(0o400, 'r'),
            bit(0o200, 'w'),
            execute(0o100, 0o4000, 's'),
            bit(0o040, 'r'),
            bit(0o020, 'w'),
            execute(0o010, 0o2000, 's'),
            bit(0o004, 'r'),
            bit(0o002, 'w'),
            execute(0o001, 0o1000, 't'),
        ]
        .iter()
        .collect()
    }
}

/// The least width of owner and size together in a list.
pub(crate) const WIDTH: usize = 19;
