//! Limits by role, and what replays share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::guest::{Do, module};
use common::{TestServer, WS, client, operation, record, tree};
use http::{Method, StatusCode};
use opship_engine::ModuleLimits;
use opship_record::answer::{Answer, Reason, Verdict};
use opship_record::entry::Entry;
use opship_record::{Hash, codec};
use opship_server::ServerConfig;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

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

/// Begins a request with a body of so many bytes, and sends the first of them.
async fn begin(server: &TestServer, token: &str, path: &str, length: usize, first: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST {WS}/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![0; first]).await.unwrap();
    stream
}

/// Answers in time: what hangs instead fails here.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("the server is blocked")
}

async fn asks_and_gets(server: &TestServer, token: &str) {
    let nothing = codec::encode(&Vec::<Hash>::new());
    for _ in 0..20 {
        let path = format!("{WS}/blobs:missing");
        let reply = in_time(server.by(token, Method::POST, &path, nothing.clone())).await;
        assert_eq!(reply.status, StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_only_announced_take_no_memory() {
    let (server, eva) = TestServer::with_writer(|_| {}).await;
    let mut held = Vec::new();
    for _ in 0..70 {
        held.push(begin(&server, &eva, "chunks:known", 8 << 20, 1).await);
    }
    asks_and_gets(&server, &server.token).await;
    asks_and_gets(&server, &eva).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_one_person_leave_memory_for_others_and_come_to_their_end() {
    const LENGTH: usize = 8 << 20;
    let (server, eva) = TestServer::with_writer(|_| {}).await;
    // Together more than a person's share; what does not fit waits in the connection. They are read whole and then refused.
    let sending: Vec<_> = (0..12)
        .map(|_| {
            let (address, eva) = (server.address, eva.clone());
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let head = format!("POST {WS}/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {eva}\r\n");
                let head = format!("{head}Content-Length: {LENGTH}\r\nConnection: close\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(&vec![0; LENGTH]).await.unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.unwrap();
                answer
            })
        })
        .collect();
    asks_and_gets(&server, &server.token).await;
    for answer in sending {
        let answer = in_time(answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer[..100.min(answer.len())]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_one_person_hardly_reads_leave_places_for_others() {
    let (server, eva) = TestServer::with_writer(|_| {}).await;
    // Bytes that do not compress (xorshift, Marsaglia 2003).
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let bytes: Vec<u8> = (0..(12 << 20) / 8).flat_map(|_| next()).collect();
    let path = format!("{WS}/blobs/{}/document", server.upload(&bytes).await);
    let mut held = Vec::new();
    for _ in 0..70 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(server.address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {eva}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        held.push(stream);
    }
    let reply = in_time(server.get(&path)).await;
    assert_eq!(reply.status, StatusCode::OK);
}
