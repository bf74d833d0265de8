//! Debian's rdiff (librsync), and reed-solomon-erasure in a program of its own.

use super::Measured;
use crate::error::{BenchError, Result};
use crate::place::{Place, succeed};
use crate::stats::{Times, timed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs that a median is of.
const RUNS: usize = 7;

/// What the program for erasures says: how much was repaired of the trials, in percent, with bytes and times.
pub(super) fn erasure(place: &Place, count: usize, trials: usize) -> Result<(f64, Measured)> {
    let program = place.peer("erasure");
    let mut command = Command::new(&program);
    let output = command.args([count.to_string(), trials.to_string()]).output();
    let output = output.map_err(BenchError::io(format!("start '{}'; the benchmark builds it", program.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [bytes, repaired, making, repairing] = numbers[..] else {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(BenchError::Failed(format!("'{}' ended with {}: {said}", program.display(), output.status)));
    };
    let all = repaired as usize == trials;
    let measured = Measured { bytes: bytes as usize, making: making / 1e6, repairing: repairing / 1e6, repaired: all };
    Ok((repaired * 100.0 / trials as f64, measured))
}

/// Signature and delta, both of which travel, one each way; the times are of its processes.
pub(super) fn rdiff(place: &Place, recorded: &[u8], replayed: &[u8]) -> Result<Measured> {
    let [old, new, signature, delta, made] = ["old", "new", "signature", "delta", "made"].map(|name| place.path(name));
    let failed = |path: &Path| BenchError::io(format!("write '{}'", path.display()));
    fs::write(&old, replayed).map_err(failed(&old))?;
    fs::write(&new, recorded).map_err(failed(&new))?;
    let (mut making, mut repairing) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        making.push(timed(|| {
            run("signature", &[&old, &signature])?;
            run("delta", &[&signature, &new, &delta])
        })?);
        repairing.push(timed(|| run("patch", &[&old, &delta, &made]))?);
    }
    let read = |path: &Path| fs::read(path).map_err(BenchError::io(format!("read '{}'", path.display())));
    let repaired = read(&made)? == recorded;
    let bytes = read(&signature)?.len() + read(&delta)?.len();
    let [making, repairing] = [making, repairing].map(|times| Times::new(times).median());
    Ok(Measured { bytes, making, repairing, repaired })
}

fn run(what: &str, files: &[&PathBuf]) -> Result<()> {
    succeed(Command::new("rdiff").arg("--force").arg(what).args(files))
}

/// rdiff's name and version.
pub(super) fn rdiff_version() -> Result<String> {
    let output = Command::new("rdiff").arg("--version").output().map_err(BenchError::io("start rdiff; install it"))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}
