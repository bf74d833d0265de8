//! Moves many bytes or many files; for measuring what the world costs.
//!
//! `write FILE BYTES`, `read FILE`, `make DIR FILES BYTES`, `sum DIR FILES`, `list DIR`. Each prints how many bytes it moved, or
//! how many names it found.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{Error, Read, Result, Write};

/// Bytes of one read or write.
const PIECE: usize = 64 << 10;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let moved = match words[..] {
        ["write", file, bytes] => write(file, number(bytes)?)?,
        ["read", file] => read(file)?,
        ["make", dir, files, bytes] => make(dir, number(files)?, number(bytes)?)?,
        ["sum", dir, files] => sum(dir, number(files)?)?,
        ["list", dir] => fs::read_dir(dir)?.count() as u64,
        _ => {
            return Err(Error::other("write FILE BYTES | read FILE | make DIR FILES BYTES | sum DIR FILES | list DIR"));
        }
    };
    println!("{moved}");
    Ok(())
}

fn number(word: &str) -> Result<u64> {
    word.parse().map_err(|_| Error::other(format!("'{word}' is no number")))
}

/// Bytes that do not compress and are not all alike.
fn pattern(mut seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PIECE);
    while bytes.len() < PIECE {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.extend_from_slice(&(seed ^ (seed >> 29)).to_le_bytes());
    }
    bytes
}

fn write(file: &str, bytes: u64) -> Result<u64> {
    let mut file = File::create(file)?;
    let piece = pattern(bytes);
    let mut left = bytes;
    while left > 0 {
        let count = left.min(PIECE as u64) as usize;
        file.write_all(&piece[..count])?;
        left -= count as u64;
    }
    Ok(bytes)
}

fn read(file: &str) -> Result<u64> {
    let mut file = File::open(file)?;
    let mut piece = vec![0; PIECE];
    let mut all = 0;
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(all),
            count => all += count as u64,
        }
    }
}

fn make(dir: &str, files: u64, bytes: u64) -> Result<u64> {
    fs::create_dir_all(dir)?;
    let piece = pattern(files);
    let count = bytes.min(PIECE as u64) as usize;
    for index in 0..files {
        File::create(format!("{dir}/{index}"))?.write_all(&piece[..count])?;
    }
    Ok(files * count as u64)
}

/// Reads the files that `make` made.
fn sum(dir: &str, files: u64) -> Result<u64> {
    let mut all = 0;
    for index in 0..files {
        all += fs::read(format!("{dir}/{index}"))?.len() as u64;
    }
    Ok(all)
}
