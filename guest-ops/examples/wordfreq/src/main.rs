//! Counts the words of the files named as arguments, or of standard input, and prints the counts, the
//! most frequent word first. Ordinary Rust: nothing here knows about opship.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match count_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("wordfreq: {message}");
            ExitCode::FAILURE
        }
    }
}

fn count_all() -> Result<(), String> {
    let mut counts = HashMap::new();
    let mut named = false;
    for path in std::env::args_os().skip(1) {
        named = true;
        let text = fs::read(&path).map_err(|e| format!("{}: {e}", path.to_string_lossy()))?;
        count(&String::from_utf8_lossy(&text), &mut counts);
    }
    if !named {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text).map_err(|e| format!("standard input: {e}"))?;
        count(&String::from_utf8_lossy(&text), &mut counts);
    }
    print(counts).map_err(|e| format!("standard output: {e}"))
}

/// A word is a run of letters and digits, in lower case.
fn count(text: &str, counts: &mut HashMap<String, u64>) {
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
}

fn print(counts: HashMap<String, u64>) -> io::Result<()> {
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut out = BufWriter::new(io::stdout().lock());
    for (word, n) in sorted {
        writeln!(out, "{n:7} {word}")?;
    }
    out.flush()
}
