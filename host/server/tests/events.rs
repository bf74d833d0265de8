//! The stream of a workspace's events.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{TestServer, WS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Follows over a connection of its own.
struct Stream {
    stream: TcpStream,
    text: String,
}

impl Stream {
    async fn open(server: &TestServer, token: &str, query: &str, header: &str) -> Stream {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head =
            format!("GET {WS}/events{query} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\n{header}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Stream { stream, text: String::new() }
    }

    /// Reads until the text so far holds `wanted`; `false` if the stream ends before.
    async fn until(&mut self, wanted: &str) -> bool {
        while !self.text.contains(wanted) {
            let mut buffer = [0; 1000];
            let count = self.stream.read(&mut buffer).await.unwrap_or(0);
            if count == 0 {
                return false;
            }
            self.text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_move_of_the_head_is_told_and_nothing_that_is_known() {
    let server = TestServer::start().await;
    server.put_files(1, &[("a", b"1")]).await;
    let mut new = Stream::open(&server, &server.token, "", "").await;
    assert!(new.until("id: 1\ndata: 1\n\n").await, "{}", new.text);
    assert!(new.text.contains("text/event-stream"));
    let mut knows = Stream::open(&server, &server.token, "?after=1&beat=1", "").await;
    assert!(knows.until(":\n").await);
    assert!(!knows.text.contains("data:"), "{}", knows.text);
    let mut again = Stream::open(&server, &server.token, "?after=0", "last-event-id: 1\r\n").await;
    server.put_files(2, &[("b", b"2")]).await;
    for stream in [&mut new, &mut knows, &mut again] {
        assert!(stream.until("data: 2\n\n").await, "{}", stream.text);
    }
    assert!(!again.text.contains("data: 1\n"), "{}", again.text);
    // A stream does not keep a server from stopping, and ends with it.
    server.stop().await;
    assert!(!new.until("never").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_when_access_is_taken_away() {
    let (server, eva) = TestServer::with_writer(|_| {}).await;
    let invite = br#"{"name":"max","role":"read","expires":60}"#.to_vec();
    let secret = server.post(&format!("{WS}/invites"), invite).await.json()["secret"].as_str().unwrap().to_owned();
    let max = "c".repeat(64);
    let join = format!(r#"{{"workspace":"w","secret":"{secret}","token":"{max}"}}"#).into_bytes();
    let length = join.len().to_string();
    let headers = [("authorization", ""), ("content-length", length.as_str())];
    server.request(http::Method::POST, "/v1/join", &headers, join).await;
    let mut follows = Stream::open(&server, &max, "?beat=1", "").await;
    let mut other = Stream::open(&server, &eva, "?beat=1", "").await;
    assert!(follows.until("data: 0\n\n").await, "{}", follows.text);
    server.by(&server.token, http::Method::DELETE, &format!("{WS}/invites/1"), Vec::new()).await;
    // The last chunk.
    assert!(follows.until("\r\n0\r\n\r\n").await, "{}", follows.text);
    assert!(other.until(":\n").await, "others go on");
    let mut refused = Stream::open(&server, &max, "", "").await;
    assert!(refused.until("401 Unauthorized").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_leave_connections_for_requests() {
    let server = TestServer::with(|config| config.connections = 4).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = Stream::open(&server, &server.token, "", "").await;
        assert!(stream.until("data: 0\n\n").await);
        streams.push(stream);
    }
    let busy = server.get(&format!("{WS}/events")).await;
    assert_eq!(busy.problem(), "busy");
    streams.pop();
    // The server notices that one has left when it next says something.
    server.put_files(1, &[("a", b"1")]).await;
    loop {
        let mut stream = Stream::open(&server, &server.token, "", "connection: close\r\n").await;
        if stream.until("data: 1\n\n").await {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_workspaces_are_not_heard_of() {
    let (server, eva) = TestServer::with_writer(|_| {}).await;
    server.post("/v1/workspaces", br#"{"name":"other"}"#.to_vec()).await;
    let hidden = server.by(&eva, http::Method::GET, "/v1/workspaces/other/events", Vec::new()).await;
    let absent = server.by(&eva, http::Method::GET, "/v1/workspaces/absent/events", Vec::new()).await;
    assert_eq!((hidden.problem(), absent.problem()), ("not-found".to_owned(), "not-found".to_owned()));
}
