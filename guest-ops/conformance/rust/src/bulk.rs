//! Large files, deep trees, many files.

use crate::text::{Sum, content, say, tell, yes};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const BLOCK: usize = 64 << 10;

/// Bytes that no compressor makes smaller: a linear congruential generator's words.
fn fill(block: &mut [u8], state: &mut u64) {
    for word in block.chunks_exact_mut(8) {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&state.to_le_bytes());
    }
}

pub(crate) fn large(mib: u64) -> io::Result<()> {
    let blocks = (mib << 20) / BLOCK as u64;
    let (mut block, mut state) = (vec![0; BLOCK], 1);
    let mut middle = Vec::new();
    let mut file = File::create("large")?;
    for index in 0..blocks {
        fill(&mut block, &mut state);
        file.write_all(&block)?;
        if index == blocks / 2 {
            middle = block.clone();
        }
    }
    drop(file);
    say("size", fs::metadata("large")?.len());
    let mut file = File::open("large")?;
    let mut sum = Sum::new();
    while let Ok(()) = file.read_exact(&mut block) {
        sum.add(&block);
    }
    say("sum", format_args!("{:016x}", sum.0));
    file.seek(SeekFrom::Start(blocks / 2 * BLOCK as u64))?;
    file.read_exact(&mut block)?;
    say("the middle is what was written", yes(block == middle));
    Ok(())
}

pub(crate) fn deep(levels: usize) -> io::Result<()> {
    let bottom = |top: &str| std::iter::repeat_n("n", levels).fold(PathBuf::from(top), |path, name| path.join(name));
    fs::create_dir_all(bottom("deep"))?;
    let leaf = bottom("deep").join("leaf");
    fs::write(&leaf, "leaf\n")?;
    say("the bottom", content(&leaf)?);
    let mut below = PathBuf::from("deep");
    let mut found = 0;
    while let Some(entry) = fs::read_dir(&below)?.next().transpose()?.filter(|entry| entry.path().is_dir()) {
        below = entry.path();
        found += 1;
    }
    say("levels", found);
    say("up and down again", yes(fs::metadata("deep/n/../../deep/n")?.is_dir()));
    fs::create_dir_all(bottom("gone"))?;
    tell("remove all", fs::remove_dir_all("gone"));
    say("gone", yes(!Path::new("gone").exists()));
    Ok(())
}

pub(crate) fn many(count: u32) -> io::Result<()> {
    fs::create_dir("many")?;
    let path = |number: u32| format!("many/{number:06}");
    for number in 0..count {
        BufWriter::new(File::create_new(path(number))?).write_all(format!("file {number}\n").as_bytes())?;
    }
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir("many")? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    say("listed", format_args!("{}, sum {:016x}", names.len(), Sum::of(names.concat().as_bytes())));
    let mut sum = Sum::new();
    for name in &names {
        let mut bytes = Vec::new();
        BufReader::new(File::open(Path::new("many").join(name))?).read_to_end(&mut bytes)?;
        sum.add(&bytes);
    }
    say("read", format_args!("sum {:016x}", sum.0));
    for number in (0..count).filter(|number| number % 1000 != 0) {
        fs::remove_file(path(number))?;
    }
    say("left", fs::read_dir("many")?.count());
    Ok(())
}
