//! Limits by role, and what replays share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::guest::{Do, module};
use common::{TestServer, WS, client, operation, record, tree};
use http::{Method, StatusCode};
use opship_engine::ModuleLimits;
use opship_record::Hash;
use opship_record::answer::{Answer, Reason, Verdict};
use opship_record::entry::Entry;
use opship_server::ServerConfig;
use serde_json::json;

/// Others than administrators bring modules of up to 1,500 bytes.
fn narrow(config: &mut ServerConfig) {
    config.writer_module_limits = ModuleLimits { module_bytes: 1500, ..ModuleLimits::narrow() };
}

/// A module over that limit.
fn large(name: &str) -> Vec<u8> {
    let module = module(name, &[Do::Write("out", &[b'x'; 2000])]);
    assert!(module.len() > 1500);
    module
}

async fn ship_by(server: &TestServer, token: &str, entry: &Entry) -> Answer {
    let mut body = Vec::new();
    entry.encode_into(&mut body);
    server.by(token, Method::POST, &format!("{WS}/entries"), body).await.answers().remove(0)
}

async fn register(server: &TestServer, token: &str, name: &str, bytes: &[u8]) -> StatusCode {
    let manifest = json!({ "hash": Hash::of(bytes).to_string() }).to_string();
    server.by(token, Method::PUT, &format!("{WS}/modules/{name}"), manifest.into()).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_module_may_need_depends_on_who_brings_it() {
    let (server, eva) = TestServer::with_writer(narrow).await;
    let bytes = large("m");
    server.upload(&bytes).await;
    let (record, _) = record(&bytes, tree(&[]));

    let refused = ship_by(&server, &eva, &operation(client(1), 1, &record, Vec::new())).await;
    assert_eq!((refused.verdict, refused.reason), (None, Some(Reason::ModuleRefused)), "{refused:?}");
    assert!(refused.detail.unwrap().contains("over the limit of 1500"));
    assert_eq!(register(&server, &eva, "m", &bytes).await, StatusCode::UNPROCESSABLE_ENTITY);
    let about = server.by(&eva, Method::GET, "/v1/server", Vec::new()).await.json();
    assert_eq!(about["limits"]["module_bytes"], 1500);

    // What was refused there is no refusal here.
    let taken = server.ship_one(&operation(client(2), 1, &record, Vec::new())).await;
    assert_eq!(taken.verdict, Some(Verdict::Matched), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_module_that_an_administrator_registered_is_for_all_also_after_a_restart() {
    let (server, eva) = TestServer::with_writer(narrow).await;
    let bytes = large("m");
    server.upload(&bytes).await;
    let admin = server.token.clone();
    assert_eq!(register(&server, &admin, "m", &bytes).await, StatusCode::OK);
    let folder = server.stop().await;
    let server = TestServer::open(folder, narrow).await;
    let (record, _) = record(&bytes, tree(&[]));
    let taken = ship_by(&server, &eva, &operation(client(1), 1, &record, Vec::new())).await;
    assert_eq!(taken.verdict, Some(Verdict::Matched), "{taken:?}");
    assert_eq!(register(&server, &eva, "m", &bytes).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replays_share_memory_and_wait_for_it_and_never_get_more_than_there_is() {
    const MIB: u64 = 1 << 20;
    let server = TestServer::with(|config| {
        config.replay_memory_bytes = 100 * MIB;
        config.memory_bytes = 512 * MIB;
    })
    .await;
    // Each needs 120 MiB, of which 64 are free: two at a time do not fit.
    let mut entries = Vec::new();
    for number in 1..=6 {
        let bytes = module(&format!("m{number}"), &[Do::Grow(1920), Do::Write("out", b"same")]);
        server.upload(&bytes).await;
        entries.push(operation(client(number), 1, &record(&bytes, tree(&[])).0, Vec::new()));
    }
    let answers = server.ship(&entries).await;
    let matched = answers.iter().filter(|answer| answer.verdict == Some(Verdict::Matched)).count();
    // All write one file: the others find another's.
    assert!(matched >= 1 && answers.iter().all(|answer| answer.reason != Some(Reason::Limit)), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.replay_micros.is_some()), "{answers:?}");

    let bytes = module("huge", &[Do::Grow(3200)]);
    server.upload(&bytes).await;
    let answer = server.ship_one(&operation(client(9), 1, &record(&bytes, tree(&[])).0, Vec::new())).await;
    assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Shipped), Some(Reason::Limit)), "{answer:?}");
    assert!(answer.detail.unwrap().contains("more memory than the server has"));
}
