//! `cargo xtask fuzz TARGET SECONDS`: runs a fuzz target from what is kept for it, and keeps what it finds.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::{process, tools};

/// Runs libFuzzer by cargo.
const CARGO_FUZZ: &str = "0.13.2";
/// The targets that need the engine: the others are built without.
const WITH_ENGINE: [&str; 2] = ["bundle", "module_check"];
/// Most bytes of the inputs that are kept for a target.
const KEPT_BYTES: usize = 64_000;

/// Runs the target for so long. A failure leaves the input in `fuzz/artifacts` and keeps nothing new.
pub(crate) fn run(context: &Context, target: &str, seconds: u64) -> Result<()> {
    let program = tools::cargo_tool(context, "cargo-fuzz", CARGO_FUZZ)?;
    let kept = context.root.join(format!("fuzz/corpora/{target}.hex"));
    let work = context.target.join("fuzz").join(target);
    let (corpus, smallest) = (work.join("corpus"), work.join("smallest"));
    unpack(&kept, &corpus)?;
    let fuzz = |folders: &[&Path], options: &[String]| {
        let mut command = cargo_fuzz(context, &program, target);
        command.args(folders).arg("--").args(["-rss_limit_mb=2048", "-timeout=30"]).args(options);
        process::run(&mut command)
    };
    fuzz(&[&corpus], &[format!("-max_total_time={seconds}")])?;
    empty(&smallest)?;
    fuzz(&[&smallest, &corpus], &["-set_cover_merge=1".to_owned()])?;
    let count = pack(&smallest, &kept)?;
    eprintln!("{count} inputs are kept in {}; commit them if they reach more", kept.display());
    Ok(())
}

fn cargo_fuzz(context: &Context, program: &Path, target: &str) -> Command {
    let mut command = process::clean(program);
    command.current_dir(&context.root);
    // Code without unsafe blocks has nothing for a sanitizer to find, and is ten times faster without.
    command.args(["fuzz", "run", "--fuzz-dir", "fuzz", "--sanitizer", "none"]);
    if WITH_ENGINE.contains(&target) {
        command.args(["--features", "engine"]);
    }
    // Coverage is counted by flags of the compiler that stable has, but does not offer.
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", context.target.join("fuzz/build"));
    command.arg(target);
    command
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Error::io("remove", folder))?;
    }
    fs::create_dir_all(folder).map_err(Error::io("make", folder))
}

/// Adds what is kept to a folder with a file for each input, as libFuzzer wants it. What it found before stays there.
fn unpack(kept: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
    let text = match fs::read_to_string(kept) {
        Ok(text) => text,
        // A new target starts from nothing; cargo-fuzz says so if there is none of that name.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("read", kept)(error)),
    };
    for (index, line) in text.lines().enumerate() {
        let Some(bytes) = from_hex(line) else {
            let detail = format!("line {} is not hexadecimal; take the file from git again", index + 1);
            return Err(Error::Missing(format!("{}: {detail}", kept.display())));
        };
        let file = folder.join(format!("kept-{index}"));
        fs::write(&file, bytes).map_err(Error::io("write", &file))?;
    }
    Ok(())
}

/// Writes the inputs of a folder as lines, the shortest first; of more than fit every second, third and so on, so that
/// inputs of all lengths are kept. Says how many.
fn pack(folder: &Path, kept: &Path) -> Result<usize> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let file: PathBuf = entry.map_err(Error::io("read", folder))?.path();
        inputs.push(fs::read(&file).map_err(Error::io("read", &file))?);
    }
    inputs.retain(|input| !input.is_empty() && input.len() <= KEPT_BYTES);
    inputs.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    inputs.dedup();
    let fits = |step: &usize| inputs.iter().step_by(*step).map(Vec::len).sum::<usize>() <= KEPT_BYTES;
    let step = (1..=inputs.len()).find(fits).unwrap_or(1);
    let (mut text, mut count) = (String::new(), 0);
    for input in inputs.iter().step_by(step) {
        for byte in input {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
        count += 1;
    }
    fs::write(kept, text).map_err(Error::io("write", kept))?;
    Ok(count)
}

fn from_hex(line: &str) -> Option<Vec<u8>> {
    let digits = line.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(byte).collect())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_all_lengths_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (inputs, kept, again) = (folder.path().join("in"), folder.path().join("kept"), folder.path().join("out"));
        empty(&inputs).unwrap();
        let half = [7; KEPT_BYTES / 2];
        let all: [&[u8]; 6] = [b"\x00\xff", b"", b"one", b"one", &half, &[8; KEPT_BYTES / 2]];
        for (index, input) in all.iter().enumerate() {
            fs::write(inputs.join(index.to_string()), input).unwrap();
        }
        assert_eq!(pack(&inputs, &kept).unwrap(), 2, "all are four, and too long");
        unpack(&kept, &again).unwrap();
        let read = |name: &str| fs::read(again.join(name)).unwrap();
        assert_eq!([read("kept-0"), read("kept-1")], [all[0], &half]);
        fs::write(&kept, "0g\n").unwrap();
        assert!(unpack(&kept, &again).unwrap_err().to_string().contains("line 1"));
    }
}
