//! Measures small operations on loopback: how many a second in batches, and how long one takes.
//!
//! `cargo run --release -p opship-server --example throughput`
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use common::guest::{Do, module};
use common::{TestServer, client, operation, record, tree};
use opship_record::answer::Verdict;
use opship_record::entry::Entry;
use std::time::Instant;

const BATCH: u64 = 250;
const BATCHES: u64 = 8;
const SINGLES: u64 = 300;

#[tokio::main]
async fn main() {
    let server = TestServer::start().await;
    server.put_files(1, &[("in", b"input")]).await;
    let module = module("small", &[Do::Read("in"), Do::Print(b"seen\n")]);
    server.upload(&module).await;
    let (record, _) = record(&module, tree(&[("in", b"input")]));
    let entry = |sequence| -> Entry {
        let mut own = record.clone();
        own.plan.clock_start += sequence;
        operation(client(1), sequence, &own, Vec::new())
    };
    assert_eq!(server.ship_one(&entry(1)).await.verdict, Some(Verdict::Matched));

    let mut sequence = 2;
    let begun = Instant::now();
    for _ in 0..BATCHES {
        let batch: Vec<Entry> = (sequence..sequence + BATCH).map(entry).collect();
        sequence += BATCH;
        let answers = server.ship(&batch).await;
        assert!(answers.iter().all(|answer| answer.verdict == Some(Verdict::Matched)));
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("batches of {BATCH}: {:.0} operations a second", (BATCH * BATCHES) as f64 / seconds);

    let mut times = Vec::new();
    let mut replays = Vec::new();
    for _ in 0..SINGLES {
        let begun = Instant::now();
        let answer = server.ship_one(&entry(sequence)).await;
        times.push(begun.elapsed());
        replays.push(answer.replay_micros.unwrap_or_default());
        sequence += 1;
    }
    times.sort();
    replays.sort_unstable();
    println!(
        "one operation, new connection each: p50 {:?}, p99 {:?}; replay p50 {} us",
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        replays[replays.len() / 2]
    );
    server.stop().await;
}
