//! The server is killed at named points while an entry is under way. Afterwards the entry is either held whole or not at
//! all, and sending it again gives one version, whichever it was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::guest::{Do, module};
use common::{TestServer, WS, client, operation, record, tree};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use opship_engine::Compiler;
use opship_record::answer::Verdict;
use opship_record::entry::Entry;
use opship_server::{Server, ServerConfig};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tokio::net::TcpStream;

const DATA: &str = "OPSHIP_TEST_SERVER_DATA";
const SAYS: &str = "listening on ";
const SIGKILL: i32 = 9;

/// The server of the child processes: does nothing in an ordinary test run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serve_in_a_process_of_its_own() {
    let Some(data) = std::env::var_os(DATA) else { return };
    let mut config = ServerConfig::new(data, "127.0.0.1:0".parse().unwrap(), Compiler::InProcess);
    config.announce = None;
    let server = Server::bind(config).await.unwrap();
    println!("\n{SAYS}{}", server.local_addr());
    server.run(std::future::pending()).await.unwrap();
}

fn start_child(data: &Path, failpoint: &str) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serve_in_a_process_of_its_own", "--nocapture"])
        .env(DATA, data)
        .env("OPSHIP_FAILPOINT", failpoint)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.map(|line| line.unwrap()).find_map(|line| Some(line.strip_prefix(SAYS)?.to_owned()));
    let address = said.expect("the child says where it listens").parse().unwrap();
    (child, address)
}

/// Sends an entry; the bytes of the answer, as far as they came.
async fn send(address: SocketAddr, token: &str, entry: &Entry) -> Vec<u8> {
    let mut body = Vec::new();
    entry.encode_into(&mut body);
    let request = Request::post(format!("{WS}/entries"))
        .header("host", "test")
        .header("authorization", format!("Bearer {token}"))
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    match sender.send_request(request).await {
        Ok(response) => response.into_body().collect().await.map(|b| b.to_bytes().to_vec()).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_named_points_an_entry_is_held_whole_or_not_at_all() {
    let points = [
        ("server-received", false),
        ("server-replayed", false),
        ("storage-commit", false),
        ("storage-committed", true),
        ("server-committed", true),
    ];
    let module = module("copy", &[Do::Read("in"), Do::WriteRead("out"), Do::Print(b"done\n")]);
    let (record, _) = record(&module, tree(&[("in", b"input")]));
    let entry = operation(client(1), 1, &record, Vec::new());
    for (point, held) in points {
        let server = TestServer::start().await;
        server.put_files(1, &[("in", b"input")]).await;
        server.upload(&module).await;
        let token = server.token.clone();
        let folder = server.stop().await;

        let (mut child, address) = start_child(&folder.path().join("data"), point);
        let answer = send(address, &token, &entry).await;
        assert!(answer.is_empty(), "{point}: nothing may be acknowledged");
        let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
        assert_eq!(status.signal(), Some(SIGKILL), "{point}");

        let server = TestServer::open(folder, |_| {}).await;
        assert_eq!(server.head().await, if held { 2 } else { 1 }, "{point}");
        assert_eq!(server.file("out").await.is_some(), held, "{point}");
        let answer = server.ship_one(&entry).await;
        assert_eq!((answer.verdict, answer.version), (Some(Verdict::Matched), Some(2)), "{point}");
        assert_eq!(server.head().await, 2, "{point}");
        assert_eq!(server.file("out").await.unwrap(), b"input", "{point}");
        server.stop().await;
    }
}
