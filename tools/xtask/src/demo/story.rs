//! What the demonstration shows: four operations on the project's own files, shipped, replayed, compared; each also by
//! value; then a clone elsewhere that must hold the same tree.

use super::place::{Measured, Place};
use crate::context::Context;
use crate::error::{Error, Result};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// One operation: its name, its arguments for an input folder and an output, the output's path.
struct Operation {
    name: &'static str,
    arguments: fn(&str) -> Vec<String>,
    output: fn(&str) -> String,
}

fn words(text: String) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The input folder is `a` or `b`; `c` and `d` stand for `b` again, with other outputs.
fn input(round: &str) -> &str {
    if matches!(round, "c" | "d") { "b" } else { round }
}

const OPERATIONS: [Operation; 4] = [
    Operation {
        name: "tar",
        arguments: |round| words(format!("run tar -- -cf {round}.tar {}", input(round))),
        output: |round| format!("{round}.tar"),
    },
    Operation {
        name: "gzip",
        arguments: |round| words(format!("run -o {round}.gz gzip -- -c {}/all.txt", input(round))),
        output: |round| format!("{round}.gz"),
    },
    Operation {
        name: "sort",
        arguments: |round| words(format!("run sort -- -u -o {round}.sorted {}/all.txt", input(round))),
        output: |round| format!("{round}.sorted"),
    },
    Operation {
        name: "wordfreq",
        arguments: |round| words(format!("run -o {round}.words wordfreq -- {}/all.txt", input(round))),
        output: |round| format!("{round}.words"),
    },
];

/// A line of the table.
struct Line {
    name: &'static str,
    verdict: String,
    first: u64,
    module_known: u64,
    all_known: u64,
    by_value: u64,
    time: Duration,
}

/// Shows everything; an error names what went differently than it must.
pub(super) fn tell(context: &Context) -> Result<()> {
    let place = Place::new(context)?;
    println!("A server and clients in a temporary folder; the input is this project's own tree.");
    let project = project_files(context)?;
    let module = context.target.join("guests/wordfreq.wasm");
    let mut lines = Vec::new();
    for operation in &OPERATIONS {
        lines.push(show(&place, context, &project, &module, operation)?);
    }
    print_table(&lines);
    println!();
    println!("first ever: inputs and module travel; module known: new inputs travel; all known: the operation alone.");
    println!("Bytes are counted at the socket, both ways, headers included.");
    share(&place)?;
    let (cold, warm) = place.cold_and_warm(&place.path("wordfreq"), (OPERATIONS[3].arguments)("d"))?;
    println!(
        "Cold, with its module compiled first, wordfreq ran in {} ms; warm in {} ms.",
        cold.as_millis(),
        warm.as_millis()
    );
    Ok(())
}

fn show(place: &Place, context: &Context, project: &[PathBuf], module: &Path, operation: &Operation) -> Result<Line> {
    let copy = place.path(operation.name);
    lay_input(context, project, &copy.join("a"), operation, "")?;
    let init = place.opship(Path::new("/"), init(place, &copy, operation.name))?;
    let add = match operation.name {
        "wordfreq" => {
            place.opship(&copy, ["module", "add", &module.display().to_string(), "--name", "wordfreq"])?.bytes
        }
        _ => 0,
    };
    let (first, _) = run_and_sync(place, &copy, operation, "a")?;
    lay_input(context, project, &copy.join("b"), operation, "second round\n")?;
    let (known, _) = run_and_sync(place, &copy, operation, "b")?;
    let (all_known, time) = run_and_sync(place, &copy, operation, "c")?;
    let verdict = verdict_of(&all_known, operation.name)?;
    Ok(Line {
        name: operation.name,
        verdict,
        first: init.bytes + add + first.bytes,
        module_known: known.bytes,
        all_known: all_known.bytes,
        by_value: by_value(place, &copy, operation)?,
        time,
    })
}

fn init(place: &Place, copy: &Path, workspace: &str) -> Vec<String> {
    let (copy, url) = (copy.display().to_string(), place.url());
    vec!["init".into(), copy, "--server".into(), url, "--workspace".into(), workspace.to_owned()]
}

/// Runs the operation and syncs; the time is that of both together.
fn run_and_sync(place: &Place, copy: &Path, operation: &Operation, round: &str) -> Result<(Measured, Duration)> {
    let run = place.opship(copy, (operation.arguments)(round))?;
    let sync = place.opship(copy, ["sync"])?;
    verdict_of(&sync, operation.name)?;
    let time = run.time + sync.time;
    Ok((sync, time))
}

/// The verdict of the operation in what `sync` printed; anything but `matched` is an error.
fn verdict_of(sync: &Measured, name: &str) -> Result<String> {
    let entries = sync.json["entries"].as_array().cloned().unwrap_or_default();
    let operation = entries.iter().find(|entry| entry["kind"] == "operation");
    match operation.and_then(|entry| entry["verdict"].as_str()) {
        Some("matched") => Ok("matched".to_owned()),
        other => Err(Error::Demo(format!("{name} ended {other:?} instead of 'matched': {}", sync.json))),
    }
}

/// What the same result costs as a value, in a workspace that has the same inputs.
fn by_value(place: &Place, copy: &Path, operation: &Operation) -> Result<u64> {
    let name = format!("{}-value", operation.name);
    let other = place.path(&name);
    run(Command::new("cp").arg("-a").arg(copy.join("b")).arg(place.path("input")))?;
    fs::create_dir_all(&other).map_err(Error::io("make", &other))?;
    fs::rename(place.path("input"), other.join("b")).map_err(Error::io("move", &other))?;
    place.opship(Path::new("/"), init(place, &other, &name))?;
    place.opship(&other, ["sync"])?;
    let output = (operation.output)("c");
    fs::copy(copy.join(&output), other.join(&output)).map_err(Error::io("copy", &other))?;
    Ok(place.opship(&other, ["sync"])?.bytes)
}

/// A second client gets everything; both trees must be the same. Then it works, and the first gets that.
fn share(place: &Place) -> Result<()> {
    let (mine, theirs) = (place.path("tar"), place.path("elsewhere"));
    let source = format!("{}/tar", place.url());
    let clone = place.opship(&place.path(""), ["clone", &source, "elsewhere"])?;
    compare(&mine, &theirs)?;
    place.opship(&theirs, ["run", "sort", "--", "-r", "-o", "reversed", "a/README.md"])?;
    place.opship(&theirs, ["sync"])?;
    let pull = place.opship(&mine, ["sync"])?;
    let paths = compare(&mine, &theirs)?;
    println!(
        "A clone elsewhere ({} B), an operation there, a sync here ({} B): both trees hold the same {paths} paths, by hash.",
        clone.bytes, pull.bytes
    );
    Ok(())
}

fn print_table(lines: &[Line]) {
    println!();
    println!(
        "{:<10} {:<9} {:>11} {:>13} {:>10} {:>10} {:>7} {:>8}",
        "operation", "verdict", "first ever", "module known", "all known", "by value", "ratio", "time"
    );
    for line in lines {
        let ratio = line.by_value as f64 / line.all_known as f64;
        println!(
            "{:<10} {:<9} {:>11} {:>13} {:>10} {:>10} {:>6.1}x {:>6} ms",
            line.name,
            line.verdict,
            line.first,
            line.module_known,
            line.all_known,
            line.by_value,
            ratio,
            line.time.as_millis()
        );
    }
}

/// The files that git would have in a fresh clone.
fn project_files(context: &Context) -> Result<Vec<PathBuf>> {
    let mut command = Command::new("git");
    command.current_dir(&context.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = command.output().map_err(Error::io("run git in", &context.root))?;
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let files: Vec<PathBuf> = names.split('\0').filter(|n| !n.is_empty()).map(PathBuf::from).collect();
    let files: Vec<PathBuf> = files.into_iter().filter(|file| context.root.join(file).is_file()).collect();
    if files.is_empty() {
        return Err(Error::Demo("git names no files of this project; run the demo in a clone".to_owned()));
    }
    Ok(files)
}

/// Lays an operation's input into a folder: the project's files with a line added to each, as they are for `tar`, all of
/// them in one as `all.txt` for the others.
fn lay_input(context: &Context, files: &[PathBuf], folder: &Path, operation: &Operation, added: &str) -> Result<()> {
    let mut all = Vec::new();
    fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
    for file in files {
        let (from, to) = (context.root.join(file), folder.join(file));
        let mut content = fs::read(&from).map_err(Error::io("read", &from))?;
        content.extend_from_slice(added.as_bytes());
        if operation.name != "tar" {
            all.extend_from_slice(&content);
            continue;
        }
        let parent = to.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(Error::io("make", parent))?;
        fs::write(&to, content).map_err(Error::io("write", &to))?;
    }
    if operation.name == "tar" {
        return Ok(());
    }
    let to = folder.join("all.txt");
    fs::write(&to, all).map_err(Error::io("write", &to))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(Error::io("run", Path::new("cp")))?;
    if status.success() { Ok(()) } else { Err(Error::Demo(format!("{command:?} ended with {status}"))) }
}

/// Compares two folders by content, permission bits and times; says how many paths they hold.
fn compare(a: &Path, b: &Path) -> Result<usize> {
    let (left, right) = (digest_all(a)?, digest_all(b)?);
    if let Some(differing) = left.iter().chain(&right).find(|line| !left.contains(line) || !right.contains(line)) {
        return Err(Error::Demo(format!("the trees differ: {differing}")));
    }
    Ok(left.len())
}

fn digest_all(folder: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).map_err(Error::io("list", &next))? {
            let path = entry.map_err(Error::io("list", &next))?.path();
            if path.file_name().is_some_and(|name| name == ".opship") {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).map_err(Error::io("look at", &path))?;
            let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
            let mode = metadata.permissions().mode() & 0o7777;
            if metadata.is_dir() {
                lines.push(format!("{name} {mode:o}"));
                folders.push(path);
            } else {
                let content = fs::read(&path).map_err(Error::io("read", &path))?;
                let hash = opship_record::Hash::of(&content);
                lines.push(format!("{name} {mode:o} {}.{:09} {hash}", metadata.mtime(), metadata.mtime_nsec()));
            }
        }
    }
    lines.sort();
    Ok(lines)
}
