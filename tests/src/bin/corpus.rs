//! Adds to the replay corpus of the current engine profile what it lacks: `cargo run -p opship-tests --bin corpus`, after
//! `cargo xtask guests`. Cases that are there are never written again.
#![forbid(unsafe_code)]

use opship_tests::corpus::cases::cases;
use opship_tests::corpus::{Corpus, Recorder};
use std::process::ExitCode;

fn main() -> ExitCode {
    let corpus = Corpus::current();
    let known = corpus.cases();
    let new: Vec<_> = cases().into_iter().filter(|definition| !known.contains_key(definition.name)).collect();
    let recorder = Recorder::new(&new);
    let mut failed = 0;
    for definition in &new {
        match recorder.add(definition) {
            Ok(case) => {
                let lists = case.lists();
                let streams: u64 = lists.streams.iter().map(|s| s.stdout_length + s.stderr_length).sum();
                println!(
                    "{}: exit codes {:?}, {} observations, {} changes, {streams} bytes of streams",
                    definition.name,
                    lists.exits,
                    lists.observations.len(),
                    lists.changes.len()
                );
            }
            Err(error) => {
                eprintln!("{} is not added:\n{error}", definition.name);
                failed += 1;
            }
        }
    }
    println!("{}: {} cases were there, {} are new", corpus.name(), known.len(), new.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
