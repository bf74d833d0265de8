//! What was recorded once is replayed to the byte: on this processor, on the least of its kind, and in the interpreter.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_engine::Target;
use opship_record::Hash;
use opship_record::record::Record;
use opship_tests::corpus::cases::cases;
use opship_tests::corpus::{ADVICE, Case, Corpus, Replayed, Replayer, World};
use std::collections::BTreeSet;

/// Replays every case of every profile's corpus, and gives the names of those that the target refuses to run.
fn replay_all(target: Target) -> Vec<String> {
    let mut refused = Vec::new();
    for corpus in Corpus::all() {
        let (replayer, trees) = (Replayer::new(target, &corpus.modules()), corpus.trees());
        let mut wrong = Vec::new();
        for (name, case) in corpus.cases() {
            match replayer.replay(&case, &trees) {
                Replayed::Same => {}
                Replayed::Differs(lines) => wrong.extend(lines.into_iter().map(|line| format!("{name}: {line}"))),
                Replayed::Refused(_) => refused.push(name),
            }
        }
        assert!(wrong.is_empty(), "{}:\n{}\n{ADVICE}", corpus.name(), wrong.join("\n"));
    }
    refused
}

/// What the least x86-64 processor refuses: see the engine's profile.
const RELAXED: [&str; 1] = ["relaxed"];

#[test]
fn this_processor_gives_what_was_recorded() {
    let refused = replay_all(Target::Host);
    // A processor without FMA.
    assert!(refused.is_empty() || refused == RELAXED, "{refused:?}");
}

#[test]
fn the_least_processor_gives_what_was_recorded() {
    let refused = replay_all(Target::Baseline);
    assert_eq!(refused, if cfg!(target_arch = "x86_64") { &RELAXED[..] } else { &[] });
}

#[test]
fn the_interpreter_gives_what_was_recorded() {
    assert!(replay_all(Target::Interpreter).is_empty());
}

#[test]
fn every_case_is_recorded_and_its_modules_are_there_and_needed() {
    let corpus = Corpus::current();
    let (recorded, modules) = (corpus.cases(), corpus.modules());
    let missing: Vec<_> =
        cases().into_iter().filter(|case| !recorded.contains_key(case.name)).map(|c| c.name).collect();
    assert!(missing.is_empty(), "not recorded yet: {missing:?}; run 'cargo run -p opship-tests --bin corpus'");
    let steps = recorded.values().flat_map(|case| case.record().plan.steps);
    let used: BTreeSet<Hash> = steps.map(|step| step.module).collect();
    assert_eq!(used, modules.into_keys().collect());
}

#[test]
fn the_corpus_stays_small() {
    let mut folders = vec![Corpus::root()];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() { folders.push(entry.path()) } else { bytes += metadata.len() }
        }
    }
    assert!(bytes < 5_000_000, "{bytes} bytes");
}

/// A case with the replayer and the world to replay it.
fn recorded(name: &str) -> (Case, Replayer, World) {
    let corpus = Corpus::current();
    let case = corpus.cases().remove(name).unwrap();
    let needed: BTreeSet<Hash> = case.record().plan.steps.iter().map(|step| step.module).collect();
    let modules = corpus.modules().into_iter().filter(|(hash, _)| needed.contains(hash)).collect();
    let world = World::new(corpus.trees(), &case.tree, case.stdin.as_ref().map(|bytes| bytes.to_vec()));
    (case, Replayer::new(Target::Host, &modules), world)
}

fn differences(replayer: &Replayer, case: &Case, world: &World) -> Vec<String> {
    match replayer.replay_in(case, world) {
        Replayed::Differs(lines) => lines,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_digest_that_is_off_by_a_bit_is_noticed_and_named() {
    let (case, replayer, world) = recorded("probe-writes");
    assert_eq!(replayer.replay_in(&case, &world), Replayed::Same);
    let off = |hash: Option<Hash>| {
        let mut bytes = *hash.unwrap().as_bytes();
        bytes[31] ^= 1;
        Some(Hash::from_bytes(bytes))
    };
    let record = case.record();
    let altered: [(&str, Record); 6] = [
        ("exit codes", Record { exits: Some(vec![1]), ..record.clone() }),
        ("observations", Record { observations: off(record.observations), ..record.clone() }),
        ("states before", Record { before: off(record.before), ..record.clone() }),
        ("content and kind after", Record { content: off(record.content), ..record.clone() }),
        ("metadata after", Record { metadata: off(record.metadata), ..record.clone() }),
        ("streams", Record { streams: off(record.streams), ..record.clone() }),
    ];
    for (what, record) in altered {
        let lines = differences(&replayer, &case.with_record(&record), &world);
        assert!(lines[0].contains(what), "{what}: {lines:?}");
    }
}

#[test]
fn a_world_whose_clock_is_one_step_off_is_noticed() {
    let (case, replayer, world) = recorded("clock-random");
    let mut plan = case.record().plan;
    plan.clock_start += opship_world::limits::CLOCK_STEP;
    let lists = replayer.run(&plan, &world).unwrap();
    let off = Case::new(&case.tree, None, &Record::new(case.record().plan, &lists), &lists);
    let lines = differences(&replayer, &off, &world);
    assert!(lines[0].contains("streams") && lines.iter().any(|line| line.contains("recorded:")), "{lines:?}");
}

#[test]
fn a_tree_that_shows_one_byte_more_is_noticed() {
    let (case, replayer, mut world) = recorded("probe-looks");
    world.tree = world.tree.file_with("dir/second", "2\n\n", 0o644, 1_600_000_000_000_000_002);
    assert!(!differences(&replayer, &case, &world).is_empty());
}
