//! What people and programs read.

use opship_client::ClientError;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// opship itself failed.
pub(crate) const FAILURE: u8 = 125;
/// What was asked for was refused.
pub(crate) const REFUSAL: u8 = 126;
/// No such module.
pub(crate) const UNKNOWN_MODULE: u8 = 127;

/// Was something that was to be said lost, for example on a full disk?
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes a line. A reader that has left needs none; any other failure is told by the exit code ([`is_lost`]).
fn say(to: &mut dyn Write, text: &str) {
    match writeln!(to, "{text}").and_then(|()| to.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => LOST.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// Was something that was to be said lost?
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Prints an error for people.
pub(crate) fn error(text: &str) {
    say(&mut anstream::stderr(), &format!("\x1b[31mopship:\x1b[0m {}", printable(text)));
}

/// Prints a remark for people.
pub(crate) fn note(text: &str) {
    say(&mut anstream::stderr(), &format!("opship: {}", name(text)));
}

/// Prints a line of the answer.
pub(crate) fn line(text: &str) {
    say(&mut anstream::stdout(), text);
}

/// Prints the answer as JSON.
pub(crate) fn json(value: &serde_json::Value) {
    say(&mut anstream::stdout(), &format!("{value:#}"));
}

/// Prints JSON beside a module's own output: one line on standard error.
pub(crate) fn note_json(value: &serde_json::Value) {
    say(&mut anstream::stderr(), &value.to_string());
}

/// Prints an error, as JSON if that was asked for, and gives the exit code for it.
pub(crate) fn failed(error: &ClientError, as_json: bool) -> ExitCode {
    let refused = matches!(
        error,
        ClientError::Refused(_) | ClientError::Busy | ClientError::Run(opship_engine::RunError::Module(_))
    );
    let code = if refused { REFUSAL } else { FAILURE };
    if as_json {
        say(&mut anstream::stderr(), &serde_json::json!({ "error": error.to_string(), "exit_code": code }).to_string());
    } else {
        self::error(&error.to_string());
    }
    ExitCode::from(code)
}

/// A count with its noun: `1 path`, `2 paths`, `2 entries`.
pub(crate) fn count(count: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("1 {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {noun}s"),
    }
}

/// Text from files and servers with everything escaped that a terminal would take for a command.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let harmless = c == '\n' || c == '\t' || !(c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c));
        if harmless {
            shown.push(c);
        } else {
            let _ = write!(shown, "{}", c.escape_default());
        }
    }
    shown
}

/// As [`printable`], on one line: a name with a line break must not look like a line of our own.
pub(crate) fn name(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

/// Bytes for people: `512 B`, `3.4 kB`, `1.2 MB`.
pub(crate) fn bytes(count: u64) -> String {
    if count < 1000 {
        return format!("{count} B");
    }
    let (mut value, mut unit) = (count as f64, "");
    for next in ["kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// Columns padded to the widest cell; the first row is the heading. `right`: which columns are numbers.
pub(crate) fn table(rows: &[Vec<String>], right: &[usize]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut text = String::new();
        for (column, cell) in row.iter().enumerate() {
            let cell = name(cell);
            let padding = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            let gap = if column == 0 { "" } else { "  " };
            let _ = match right.contains(&column) {
                true => write!(text, "{gap}{padding}{cell}"),
                false => write!(text, "{gap}{cell}{padding}"),
            };
        }
        line(text.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_command_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\u{202e}c\r"), "a\\u{1b}[31mb\\u{202e}c\\r");
        assert_eq!(printable("é\n\t✓"), "é\n\t✓");
    }

    #[test]
    fn bytes_are_short() {
        let shown: Vec<String> = [0, 999, 1000, 12_345, 7_000_000_000].into_iter().map(bytes).collect();
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "12.3 kB", "7.0 GB"]);
    }
}
