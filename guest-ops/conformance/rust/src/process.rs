//! Arguments, environment, standard streams and exit codes.

use crate::text::{Sum, say};
use std::io::{self, BufWriter, Read, Write};

pub(crate) fn arguments(words: &[&str]) -> io::Result<()> {
    for (index, word) in words.iter().enumerate() {
        println!("argument {}: {} bytes, {word}", index + 1, word.len());
    }
    let mut variables: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    variables.sort();
    for variable in variables {
        println!("variable {variable}");
    }
    Ok(())
}

/// Reads all of standard input, in pieces of no round size.
pub(crate) fn stdin() -> io::Result<()> {
    let (mut sum, mut length) = (Sum::new(), 0);
    let mut buffer = vec![0; 10_007];
    let mut input = io::stdin().lock();
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        sum.add(&buffer[..count]);
        length += count;
    }
    say("standard input", format_args!("{length} bytes, sum {:016x}", sum.0));
    Ok(())
}

pub(crate) fn output(lines: u32) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in 1..=lines {
        writeln!(out, "line {line}")?;
        if line % 10 == 0 {
            writeln!(io::stderr(), "error line {line}")?;
        }
    }
    out.flush()
}

pub(crate) fn exit(code: u8) -> io::Result<u8> {
    say("leaving with", code);
    Ok(code)
}
