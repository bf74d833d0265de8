//! The table of `--list`.

use crate::files::settled;
use crate::names;
use crate::options::Mode;
use crate::session::Session;
use crate::stream::{self, Summary};
use flate2::Crc;
use opship_guest::files::Meta;
use opship_ops_common::{date, print, reason};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Width of method, checksum, date and time in a verbose table.
const VERBOSE_COLUMNS: usize = 28;

/// What was listed so far.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    files: u64,
    compressed: u64,
    plain: u64,
    overhead: u64,
}

/// Takes a checksum of what is written to it.
struct Checked(Crc);

impl Write for &mut Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints the line of one file, after the head of the table.
pub(crate) fn treat(session: &mut Session, input: impl Read, meta: Option<&Meta>, path: Option<&Path>) {
    let mut checked = Checked(Crc::new());
    let result = stream::decompress(input, |_| Ok(&mut checked), false, meta.map(|m| m.len));
    let told = path.unwrap_or(Path::new("stdin"));
    let Some(summary) = settled(session, told, result) else {
        return;
    };
    let mut text = head(session);
    if session.options.verbose {
        text.push_str(&details(session, &summary, checked.0.sum(), meta));
    }
    let name = content_name(session, &summary, path);
    text.push_str(&columns(summary.read, summary.written, summary.overhead, &name.to_string_lossy()));
    let totals = &mut session.totals;
    totals.files += 1;
    totals.compressed += summary.read;
    totals.plain += summary.written;
    totals.overhead = summary.overhead;
    show(session, &text);
}

/// The sums, where more than one file was named.
pub(crate) fn finish(session: &mut Session, operands: usize) {
    let Totals { files, compressed, plain, overhead } = session.totals;
    if session.options.mode != Mode::List || session.options.quiet || files == 0 || operands < 2 {
        return;
    }
    let mut text = String::new();
    if session.options.verbose {
        text.push_str(&" ".repeat(VERBOSE_COLUMNS));
    }
    text.push_str(&columns(compressed, plain, overhead, "(totals)"));
    show(session, &text);
}

fn show(session: &mut Session, text: &str) {
    if let Err(error) = print(text) {
        session.error(Path::new("stdout"), &reason(&error));
    }
}

/// The head of the table, before its first line.
fn head(session: &Session) -> String {
    if session.totals.files > 0 || session.options.quiet {
        return String::new();
    }
    let verbose = if session.options.verbose { "method  crc     date  time  " } else { "" };
    format!("{verbose}{:>19} {:>19}  ratio uncompressed_name\n", "compressed", "uncompressed")
}

fn columns(compressed: u64, plain: u64, overhead: u64, name: &str) -> String {
    let ratio = ratio(compressed.saturating_sub(overhead), plain);
    format!("{compressed:>19} {plain:>19} {ratio} {name}\n")
}

/// Method, checksum, and the file's time, or with `--name` the time that was saved.
fn details(session: &Session, summary: &Summary, crc: u32, meta: Option<&Meta>) -> String {
    let seconds = match summary.saved.mtime {
        saved if saved != 0 && session.options.name == Some(true) => saved.into(),
        _ => meta.map_or(0, |m| m.mtime.seconds),
    };
    let at = date::civil(seconds);
    let month = MONTHS[at.month as usize - 1];
    format!("defla {crc:08x} {month} {:>2} {:02}:{:02} ", at.day, at.hour, at.minute)
}

fn content_name(session: &Session, summary: &Summary, path: Option<&Path>) -> PathBuf {
    let saved = summary.saved.name.as_deref().filter(|_| session.options.name == Some(true));
    if let Some(name) = saved.and_then(names::saved_name) {
        return path.map_or_else(|| name.to_owned(), |p| p.with_file_name(name));
    }
    match path {
        None => PathBuf::from("stdout"),
        Some(path) => match names::cut(path, &session.options.suffix) {
            Some(cut) => cut.decompressed(),
            None => path.to_owned(),
        },
    }
}

/// How much is saved by `compressed` bytes standing for `plain` ones, as a percentage of width 6.
pub(crate) fn ratio(compressed: u64, plain: u64) -> String {
    if plain == 0 {
        return "  0.0%".to_owned();
    }
    let saved = plain as f64 - compressed as f64;
    format!("{:5.1}%", 100.0 * saved / plain as f64)
}
