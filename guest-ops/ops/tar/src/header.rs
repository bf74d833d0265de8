//! Headers of members, written as GNU tar writes them.

use crate::member::{Kind, Member};
use crate::options::Format;
use std::io::{self, Write};
use tar::{EntryType, Header};

pub(crate) const BLOCK: usize = 512;

/// The largest size that fits the header's eleven octal digits.
const LARGEST_OCTAL: u64 = (1 << 33) - 1;

/// The room for a name in a header.
const NAME: usize = 100;

/// Writes the header of a member, after the blocks for what does not fit in.
pub(crate) fn write(out: &mut impl Write, member: &Member, format: Format) -> io::Result<()> {
    match format {
        Format::Gnu => {
            if let Some(link) = member.link.as_deref().filter(|l| l.len() > NAME) {
                write_long(out, b'K', link)?;
            }
            if member.name.len() > NAME {
                write_long(out, b'L', &member.name)?;
            }
        }
        Format::Pax => write_extended(out, member)?,
    }
    out.write_all(header(member, format).as_bytes())
}

fn header(member: &Member, format: Format) -> Header {
    let mut header = if format == Format::Gnu { Header::new_gnu() } else { Header::new_ustar() };
    put(&mut header, 0, &member.name);
    put(&mut header, 157, member.link.as_deref().unwrap_or_default());
    header.set_entry_type(match member.kind {
        Kind::Directory => EntryType::Directory,
        Kind::Symlink => EntryType::Symlink,
        Kind::HardLink => EntryType::Link,
        Kind::File | Kind::Other(_) => EntryType::Regular,
    });
    header.set_mode(member.mode);
    header.set_size(match format {
        // Given in the extended header then.
        Format::Pax if member.size > LARGEST_OCTAL => 0,
        _ => member.size,
    });
    header.set_mtime(u64::try_from(member.mtime.seconds).unwrap_or(0));
    finish(header)
}

/// Sets what all headers have, at last the checksum.
fn finish(mut header: Header) -> Header {
    header.set_uid(0);
    header.set_gid(0);
    let bytes = header.as_mut_bytes();
    bytes[148..156].fill(b' ');
    let sum: u32 = bytes.iter().map(|&b| u32::from(b)).sum();
    // Six digits, NUL, blank: so does GNU tar, unlike the crate.
    bytes[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

/// As much of a name as fits. The crate would turn backslashes into slashes on WASI.
fn put(header: &mut Header, at: usize, name: &[u8]) {
    let length = name.len().min(NAME);
    header.as_mut_bytes()[at..at + length].copy_from_slice(&name[..length]);
}

/// A name that has no room in the header, in a member of its own before it.
fn write_long(out: &mut impl Write, kind: u8, name: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    put(&mut header, 0, b"././@LongLink");
    header.set_entry_type(EntryType::new(kind));
    header.set_mode(0o644);
    header.set_size(name.len() as u64 + 1);
    header.set_mtime(0);
    out.write_all(finish(header).as_bytes())?;
    out.write_all(name)?;
    out.write_all(&[0])?;
    pad(out, name.len() as u64 + 1)
}

/// POSIX's extended header (IEEE 1003.1, "pax Extended Header"), if anything does not fit.
fn write_extended(out: &mut impl Write, member: &Member) -> io::Result<()> {
    let mut records = Vec::new();
    if member.name.len() > NAME {
        record(&mut records, "path", &member.name);
    }
    if let Some(link) = member.link.as_deref().filter(|l| l.len() > NAME) {
        record(&mut records, "linkpath", link);
    }
    if member.size > LARGEST_OCTAL {
        record(&mut records, "size", member.size.to_string().as_bytes());
    }
    if member.mtime.nanos != 0 {
        let fraction = format!("{:09}", member.mtime.nanos);
        let text = format!("{}.{}", member.mtime.seconds, fraction.trim_end_matches('0'));
        record(&mut records, "mtime", text.as_bytes());
    }
    if records.is_empty() {
        return Ok(());
    }
    let mut header = Header::new_ustar();
    put(&mut header, 0, &[b"PaxHeaders/", &member.name[..]].concat());
    header.set_entry_type(EntryType::XHeader);
    header.set_mode(0o644);
    header.set_size(records.len() as u64);
    header.set_mtime(u64::try_from(member.mtime.seconds).unwrap_or(0));
    out.write_all(finish(header).as_bytes())?;
    out.write_all(&records)?;
    pad(out, records.len() as u64)
}

/// `LENGTH KEY=VALUE\n`, where the length counts itself.
fn record(records: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} {key}=").as_bytes());
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// Zeros up to the next block, after `length` bytes.
pub(crate) fn pad(out: &mut impl Write, length: u64) -> io::Result<()> {
    let over = (length % BLOCK as u64) as usize;
    if over == 0 { Ok(()) } else { out.write_all(&[0; BLOCK][over..]) }
}
