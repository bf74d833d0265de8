//! The archive that is being read, compressed or not, in any format.

use crate::member::{Kind, Member};
use crate::options::Job;
use crate::sparse::Description;
use flate2::bufread::MultiGzDecoder;
use opship_guest::Meter;
use opship_guest::files::Time;
use opship_ops_common::reason;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use tar::{Archive, EntryType};

/// Bytes that are read by one call of the world.
const BUFFER: usize = 128 << 10;

/// What is done with each member. An error ends the run; content that is not read is skipped.
pub(crate) trait Visitor {
    fn visit(&mut self, member: &Member, content: &mut dyn Read) -> Result<(), String>;
}

/// Reads the whole archive.
pub(crate) fn all(job: &Job, visitor: &mut impl Visitor) -> Result<(), String> {
    let (input, name): (Box<dyn Read>, _) = match &job.archive {
        None => (Box::new(io::stdin().lock()), "stdin".to_owned()),
        Some(path) => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|e| format!("{name}: Cannot open: {}", reason(&e)))?;
            (Box::new(file), name)
        }
    };
    let input = Metered { inner: input, meter: Meter::new(None) };
    let failed = |e: io::Error| format!("{name}: Cannot read: {}", reason(&e));
    let mut input = BufReader::with_capacity(BUFFER, input);
    let mut head = Vec::new();
    (&mut input).take(2).read_to_end(&mut head).map_err(failed)?;
    let is_gzip = head == [0x1f, 0x8b];
    if job.gzip && !is_gzip {
        return Err(format!("{name}: not in gzip format"));
    }
    let mut input = (&head[..]).chain(input);
    if !is_gzip {
        return members(job, &mut input, visitor);
    }
    let mut decoder = BufReader::with_capacity(BUFFER, MultiGzDecoder::new(input));
    members(job, &mut decoder, visitor)?;
    // The checksum stands at the end: only now is it known that all was right.
    io::copy(&mut decoder, &mut io::sink()).map(drop).map_err(failed)
}

fn members(job: &Job, input: &mut impl BufRead, visitor: &mut impl Visitor) -> Result<(), String> {
    if input.fill_buf().is_ok_and(<[u8]>::is_empty) {
        return Err("This does not look like a tar archive".to_owned());
    }
    let mut archive = Archive::new(input);
    archive.set_ignore_zeros(job.ignore_zeros);
    let entries = archive.entries().map_err(|e| reason(&e))?;
    for (n, entry) in entries.enumerate() {
        let mut entry = entry.map_err(|e| no_member(&e, n))?;
        if entry.header().entry_type() == EntryType::XGlobalHeader {
            continue;
        }
        let (member, sparse) = describe(&mut entry).map_err(|e| no_member(&e, n))?;
        let size = entry.size();
        match sparse {
            Some(sparse) => {
                let mut content = sparse.expand(entry, size).map_err(|e| no_member(&e, n))?;
                visitor.visit(&member, &mut content)?;
            }
            None => visitor.visit(&member, &mut entry)?,
        }
    }
    Ok(())
}

/// What cannot be read, in the words that people look for.
pub(crate) fn unreadable(error: &io::Error) -> String {
    let text = error.to_string();
    if error.kind() == io::ErrorKind::UnexpectedEof || text.contains("EOF") || text.contains("failed to read entire") {
        return "Unexpected EOF in archive".to_owned();
    }
    format!("Archive is damaged: {}", reason(error))
}

/// The same for the `n`th member: if the first is none, the whole is no archive.
fn no_member(error: &io::Error, n: usize) -> String {
    let text = error.to_string();
    if n == 0 && (text.contains("checksum") || text.contains("numeric field")) {
        return "This does not look like a tar archive".to_owned();
    }
    unreadable(error)
}

fn describe<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<(Member, Option<Description>)> {
    let mut mtime = header_time(entry.header());
    let mut sparse = Description::default();
    let mut is_sparse = false;
    if let Some(records) = entry.pax_extensions()? {
        for record in records {
            let record = record?;
            let (key, value) = (record.key_bytes(), record.value_bytes());
            if key == b"mtime" {
                mtime = decimal_time(value).unwrap_or(mtime);
            }
            is_sparse |= key.starts_with(b"GNU.sparse.");
            sparse.take(key, value)?;
        }
    }
    let header = entry.header();
    let mut name = entry.path_bytes().into_owned();
    let mut size = entry.size();
    if is_sparse {
        name = sparse.name.take().unwrap_or(name);
        size = sparse.size.unwrap_or(size);
    }
    let kind = kind(header.entry_type(), &name);
    let link = matches!(kind, Kind::Symlink | Kind::HardLink).then(|| entry.link_name_bytes()).flatten();
    let member = Member {
        link: link.map(|l| l.into_owned()),
        kind,
        mode: header.mode()? & 0o7777,
        mtime,
        size: if matches!(kind, Kind::File | Kind::Other(_)) { size } else { 0 },
        owner: format!(
            "{}/{}",
            owner(header.username_bytes(), header.uid()),
            owner(header.groupname_bytes(), header.gid())
        ),
        name,
    };
    Ok((member, is_sparse.then_some(sparse)))
}

fn kind(entry_type: EntryType, name: &[u8]) -> Kind {
    match entry_type {
        // The oldest format has no directories, but names that say so.
        EntryType::Regular if name.ends_with(b"/") => Kind::Directory,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Kind::File,
        EntryType::Directory => Kind::Directory,
        EntryType::Symlink => Kind::Symlink,
        EntryType::Link => Kind::HardLink,
        other => match other.as_byte() {
            // A directory with a list of what was in it, of an incremental archive.
            b'D' => Kind::Directory,
            0 if name.ends_with(b"/") => Kind::Directory,
            0 => Kind::File,
            letter => Kind::Other(letter),
        },
    }
}

fn owner(name: Option<&[u8]>, id: io::Result<u64>) -> String {
    match name {
        Some(name) if !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
        _ => id.unwrap_or(0).to_string(),
    }
}

fn header_time(header: &tar::Header) -> Time {
    // Times before 1970 come as two's complement.
    Time { seconds: header.mtime().map_or(0, u64::cast_signed), nanos: 0 }
}

/// A time like `-12.5`: seconds with a fraction.
fn decimal_time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0, |n, digit| n * 10 + u32::from(digit - b'0'));
    if whole.starts_with('-') && nanos > 0 {
        return Some(Time { seconds: seconds.checked_sub(1)?, nanos: 1_000_000_000 - nanos });
    }
    Some(Time { seconds, nanos })
}

/// Tells how far the reading is.
struct Metered<R> {
    inner: R,
    meter: Meter,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.meter.add(n as u64);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_fractions() {
        let time = |text: &str| decimal_time(text.as_bytes()).map(|t| (t.seconds, t.nanos));
        assert_eq!(time("12"), Some((12, 0)));
        assert_eq!(time("12.5"), Some((12, 500_000_000)));
        assert_eq!(time("1.1234567899"), Some((1, 123_456_789)));
        assert_eq!(time("-1.25"), Some((-2, 750_000_000)));
        for text in ["", "x", "1.x", "1.-5"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
