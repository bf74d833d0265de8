//! The API: access, blobs, trees, modules, versions, and requests that are not what they should be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::guest::{Do, module, stranger};
use common::{TestServer, WS, client, created, path, value};
use http::{Method, StatusCode};
use opship_engine::Compiler;
use opship_record::answer::{Status, Verdict};
use opship_record::node::Node;
use opship_record::version::Version;
use opship_record::{Hash, TreePath, codec, tree};
use opship_server::{Server, ServerConfig, ServerError};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_answered_without_a_valid_token_but_health() {
    let server = TestServer::start().await;
    for path in ["/v1/server", "/v1/workspaces", WS, "/v1/nothing", &format!("{WS}/entries")] {
        let none = server.request(Method::GET, path, &[("authorization", "")], Vec::new()).await;
        assert_eq!((none.status, none.problem().as_str()), (StatusCode::UNAUTHORIZED, "no-token"), "{path}");
        assert_eq!(none.headers["www-authenticate"], "Bearer");
        let wrong = [("authorization", "Bearer 0123456789abcdef")];
        let wrong = server.request(Method::GET, path, &wrong, Vec::new()).await;
        assert_eq!((wrong.status, wrong.problem().as_str()), (StatusCode::UNAUTHORIZED, "bad-token"), "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        let reply = server.request(Method::GET, path, &[("authorization", "")], Vec::new()).await;
        assert_eq!(reply.status, StatusCode::OK);
    }
    assert_eq!(server.get("/v1/nothing").await.problem(), "not-found");
    assert_eq!(server.post("/v1/server", Vec::new()).await.problem(), "method");
    let about = server.get("/v1/server").await.json();
    assert_eq!((&about["format"], &about["replay"]), (&json!(1), &json!(true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_says_where_its_token_is_and_takes_it_back() {
    let server = TestServer::start().await;
    let file = server.folder.path().join("servers").join(format!("127.0.0.1_{}", server.address.port()));
    let said: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let token = std::fs::read_to_string(said["token_file"].as_str().unwrap()).unwrap();
    assert_eq!(token.trim(), server.token);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let folder = server.stop().await;
    assert_eq!(std::fs::read_dir(folder.path().join("servers")).unwrap().count(), 0);
}

#[tokio::test]
async fn beyond_loopback_it_listens_only_when_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = ServerConfig::new(folder.path(), "0.0.0.0:0".parse().unwrap(), Compiler::InProcess);
    config.announce = None;
    let refused = Server::bind(config).await;
    assert!(matches!(refused, Err(ServerError::NotLoopback { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workspaces_are_made_once() {
    let server = TestServer::start().await;
    let again = server.post("/v1/workspaces", br#"{"name":"w"}"#.to_vec()).await;
    assert_eq!((again.status, again.problem().as_str()), (StatusCode::CONFLICT, "exists"));
    let bad = server.post("/v1/workspaces", br#"{"name":"../w"}"#.to_vec()).await;
    assert_eq!(bad.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(server.post("/v1/workspaces", b"{".to_vec()).await.problem(), "malformed");
    assert_eq!(server.get("/v1/workspaces").await.json()["workspaces"][0]["name"], "w");
    assert_eq!(server.get("/v1/workspaces/other").await.problem(), "not-found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_workspace_are_shown_and_changed_by_its_administrators() {
    let (server, writer) = TestServer::with_writer(|_| ()).await;
    assert_eq!(server.get(WS).await.json()["settings"]["retention.all-days"], "30");
    let change = br#"{"settings":{"rebase":"forbid","retention.all-days":7}}"#.to_vec();
    let refused = server.by(&writer, Method::PATCH, WS, change.clone()).await;
    assert_eq!((refused.status, refused.problem().as_str()), (StatusCode::FORBIDDEN, "forbidden"));
    let changed = server.request(Method::PATCH, WS, &[], change).await;
    assert_eq!(changed.json()["settings"]["rebase"], "forbid");
    // One that is wrong keeps the others from being set.
    let wrong = br#"{"settings":{"rebase":"allow","retention.all-days":"soon"}}"#.to_vec();
    assert_eq!(server.request(Method::PATCH, WS, &[], wrong).await.problem(), "setting");
    let seen = server.by(&writer, Method::GET, WS, Vec::new()).await.json();
    assert_eq!((&seen["settings"]["rebase"], &seen["settings"]["retention.all-days"]), (&"forbid".into(), &"7".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_are_checked_and_come_back_whole_in_parts_and_compressed() {
    let server = TestServer::start().await;
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i / 5) as u8).collect();
    let at = format!("{WS}/blobs/{}", Hash::of(&bytes));
    let wrong = server.put(&at, b"other".to_vec()).await;
    assert_eq!((wrong.status, wrong.problem().as_str()), (StatusCode::UNPROCESSABLE_ENTITY, "hash-mismatch"));
    assert_eq!(server.get(&at).await.status, StatusCode::NOT_FOUND);
    let zstd = [("content-encoding", "zstd")];
    let packed = zstd::bulk::compress(&bytes, 3).unwrap();
    let cut = server.request(Method::PUT, &at, &zstd, packed[..packed.len() - 9].to_vec()).await;
    assert_eq!(cut.status, StatusCode::BAD_REQUEST, "{cut:?}");
    assert_eq!(server.request(Method::PUT, &at, &zstd, packed).await.status, StatusCode::CREATED);
    assert_eq!(server.put(&at, bytes.clone()).await.status, StatusCode::OK);

    let whole = server.get(&at).await;
    assert!(whole.body == bytes && whole.headers["content-length"] == "300000");
    let part = server.request(Method::GET, &at, &[("range", "bytes=1000-1999")], Vec::new()).await;
    assert_eq!(part.status, StatusCode::PARTIAL_CONTENT);
    assert_eq!(part.body, &bytes[1000..2000]);
    let outside = server.request(Method::GET, &at, &[("range", "bytes=300000-")], Vec::new()).await;
    assert_eq!(outside.status, StatusCode::RANGE_NOT_SATISFIABLE);
    let small = server.request(Method::GET, &at, &[("accept-encoding", "zstd")], Vec::new()).await;
    assert!(small.headers["content-encoding"] == "zstd" && small.body.len() < bytes.len() / 2);
    assert_eq!(zstd::bulk::decompress(&small.body, bytes.len()).unwrap(), bytes);
    let tag = whole.headers["etag"].to_str().unwrap();
    let same = server.request(Method::GET, &at, &[("if-none-match", tag)], Vec::new()).await;
    assert_eq!((same.status, same.body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(server.get(&format!("{WS}/blobs/xyz")).await.problem(), "malformed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_of_another_workspace_looks_as_if_it_did_not_exist() {
    let server = TestServer::start().await;
    server.post("/v1/workspaces", br#"{"name":"other"}"#.to_vec()).await;
    let (secret, never) = (server.upload(b"secret").await, Hash::of(b"never"));
    let there = "/v1/workspaces/other";
    let (a, b) =
        (server.get(&format!("{there}/blobs/{secret}")).await, server.get(&format!("{there}/blobs/{never}")).await);
    assert_eq!(a.status, StatusCode::NOT_FOUND);
    let text =
        |reply: &common::Reply| String::from_utf8_lossy(&reply.body).replace(&secret.to_string(), &never.to_string());
    assert_eq!(text(&a), text(&b));
    let asked = codec::encode(&vec![secret, never]);
    let missing: Vec<Hash> =
        minicbor::decode(&server.post(&format!("{there}/blobs:missing"), asked.clone()).await.body).unwrap();
    assert_eq!(missing, [secret, never]);
    assert!(server.post(&format!("{there}/blobs:fetch"), asked.clone()).await.body.is_empty());
    let here = server.post(&format!("{WS}/blobs:fetch"), asked).await.body;
    let (hash, bytes): (Hash, minicbor::bytes::ByteVec) = minicbor::decode(&here).unwrap();
    assert_eq!((hash, bytes.as_slice()), (secret, &b"secret"[..]));
    // Naming it in a value does not reach it either.
    let entry = value(client(1), 1, vec![created("x", b"secret")], []);
    let mut body = Vec::new();
    entry.encode_into(&mut body);
    let answer = server.post(&format!("{there}/entries"), body).await.answers().remove(0);
    assert!(common::needs_blob(&answer, b"secret"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_refused_and_what_came_before_stands() {
    let server = TestServer::start().await;
    let entries = format!("{WS}/entries");
    let (mut good, mut second) = (Vec::new(), Vec::new());
    value(client(1), 1, vec![created("a", b"1")], [&b"1"[..]]).encode_into(&mut good);
    value(client(1), 2, vec![created("b", b"2")], [&b"2"[..]]).encode_into(&mut second);
    for bad in [&b""[..], b"\xff", b"not cbor", &good[..good.len() - 1], &good[1..]] {
        let reply = server.post(&entries, bad.to_vec()).await;
        assert_eq!((reply.status, reply.problem().as_str()), (StatusCode::BAD_REQUEST, "malformed"), "{bad:?}");
    }
    let answers = server.post(&entries, [&good[..], &second[..second.len() - 3]].concat()).await.answers();
    let ended: Vec<_> = answers.iter().map(|a| (a.sequence, a.status)).collect();
    assert_eq!(ended, [(1, Status::Ended), (0, Status::Failed)]);
    assert_eq!(server.head().await, 1);

    let huge = server.post(&entries, vec![0; opship_record::limits::MAX_REQUEST + 1]).await;
    assert_eq!((huge.status, huge.problem().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "too-large"));
    assert_eq!(server.post(&format!("{WS}/trees"), b"\x00".to_vec()).await.problem(), "malformed");
    assert_eq!(server.post(&format!("{WS}/blobs:missing"), b"\x81\x40".to_vec()).await.problem(), "malformed");
    for odd in
        ["files/../../etc/passwd", "files/.opship/x", "versions/-1", "versions/99", "entries/zz/1", "changes?from=x"]
    {
        let reply = server.get(&format!("{WS}/{odd}")).await;
        assert!(matches!(reply.status.as_u16(), 400 | 404), "{odd}: {reply:?}");
    }
    assert_eq!(server.head().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_speaks_no_http_or_breaks_off_does_no_harm() {
    let server = TestServer::start().await;
    let head = format!("POST {WS}/entries HTTP/1.1\r\nauthorization: Bearer {}\r\n", server.token);
    let oversized = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(64 << 10));
    let many: String = (0..200).map(|i| format!("x{i}: 1\r\n")).collect();
    for sent in [
        "\x16\x03\x01 not http\r\n\r\n".to_owned(),
        format!("{head}content-length: 100\r\n\r\nshort"),
        format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n"),
        oversized,
        format!("GET / HTTP/1.1\r\n{many}\r\n"),
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // The server may close while it is being written to.
        let _ = stream.write_all(sent.as_bytes()).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(server.head().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modules_are_checked_listed_and_removed() {
    let standard = module("std", &[Do::Exit(0)]);
    let own = standard.clone();
    let server = TestServer::with(move |config| config.standard_modules = vec![("sort".to_owned(), own)]).await;
    let listed = server.get("/v1/modules").await.json();
    assert_eq!(listed["modules"][0]["name"], "sort");
    // Its bytes can be had in any workspace.
    assert_eq!(server.get(&format!("{WS}/blobs/{}", Hash::of(&standard))).await.body, standard);

    let good = module("mine", &[Do::Exit(0)]);
    let (good_hash, bad_hash) = (server.upload(&good).await, server.upload(&stranger()).await);
    let at = format!("{WS}/modules/mine");
    let manifest = |hash: Hash| {
        json!({"name": "mine", "length": 1, "hash": hash.to_string(), "mounts": []}).to_string().into_bytes()
    };
    let refused = server.put(&at, manifest(bad_hash)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (StatusCode::UNPROCESSABLE_ENTITY, "module-refused"));
    assert_eq!(refused.json()["wanted"], json!(["env.launch"]));
    assert_eq!(server.put(&at, manifest(Hash::of(b"none"))).await.status, StatusCode::NOT_FOUND);
    assert!(server.put(&format!("{WS}/modules/sort"), manifest(good_hash)).await.status.is_client_error());
    assert_eq!(server.put(&at, manifest(good_hash)).await.status, StatusCode::OK);
    assert_eq!(server.get(&at).await.json()["hash"], good_hash.to_string());
    assert_eq!(server.get(&format!("{WS}/modules/std/sort")).await.json()["standard"], true);
    assert_eq!(server.request(Method::DELETE, &at, &[], Vec::new()).await.status, StatusCode::NO_CONTENT);
    assert_eq!(server.get(&at).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trees_say_what_they_lack() {
    let server = TestServer::start().await;
    let node = Node::File { mode: 0o644, mtime: 0, length: 4, hash: Hash::of(b"text") };
    let mut nodes = Nodes::default();
    let change = opship_record::effect::Change {
        after: opship_record::effect::After::File { length: 4, hash: Hash::of(b"text"), mode: Some(0o644), mtime: 0 },
        ..created("f", b"text")
    };
    tree::NodeStore::keep(&mut nodes, tree::empty(), tree::empty_node()).unwrap();
    let root = tree::apply(&mut nodes, &tree::empty(), &[change]).unwrap();
    let found = tree::lookup(&nodes, &root, &path("f")).unwrap().unwrap();
    assert_eq!(found.node, node);
    let body = codec::encode(&minicbor::bytes::ByteVec::from(nodes.0[&root].clone()));
    let refused = server.post(&format!("{WS}/trees"), body.clone()).await;
    assert_eq!((refused.status, refused.problem().as_str()), (StatusCode::CONFLICT, "tree-incomplete"));
    assert_eq!(refused.json()["missing"], json!([Hash::of(b"text").to_string()]));
    server.upload(b"text").await;
    let made = server.post(&format!("{WS}/trees"), body).await;
    assert_eq!((made.status, made.json()), (StatusCode::CREATED, json!({"root": root.to_string()})));
    let again = server.get(&format!("{WS}/trees/{root}")).await;
    assert_eq!(again.body, codec::encode(&minicbor::bytes::ByteVec::from(nodes.0[&root].clone())));
    assert_eq!(server.get(&format!("{WS}/trees/{}", Hash::of(b"none"))).await.problem(), "not-found");
}

#[derive(Default)]
struct Nodes(std::collections::BTreeMap<Hash, Vec<u8>>);

impl tree::NodeStore for Nodes {
    type Error = std::convert::Infallible;

    fn node(&self, hash: &Hash) -> Result<Option<Vec<u8>>, Self::Error> {
        Ok(self.0.get(hash).cloned())
    }

    fn keep(&mut self, hash: Hash, bytes: Vec<u8>) -> Result<(), Self::Error> {
        self.0.insert(hash, bytes);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_listings_files_and_the_feed_of_changes_agree() {
    let server = TestServer::start().await;
    server.put_files(1, &[("a", b"1"), ("b", b"2")]).await;
    let change = common::replaced("a", b"1", b"one");
    assert_eq!(
        server.ship_one(&value(client(1), 1, vec![change], [&b"one"[..]])).await.verdict,
        Some(Verdict::Shipped)
    );
    let versions = server.get(&format!("{WS}/versions?limit=2")).await.json();
    let numbers: Vec<_> = versions["versions"].as_array().unwrap().iter().map(|v| v["number"].clone()).collect();
    assert_eq!(numbers, [json!(2), json!(1)]);
    let listing = server.get(&format!("{WS}/versions/head/tree")).await.json();
    let names: Vec<_> = listing.as_array().unwrap().iter().map(|e| (e["name"].clone(), e["length"].clone())).collect();
    assert_eq!(names, [(json!("a"), json!(3)), (json!("b"), json!(1))]);
    let old = server.get(&format!("{WS}/files/a?version=1")).await;
    assert_eq!(old.body, b"1");
    assert_eq!(old.headers["x-content-type-options"], "nosniff");
    assert_eq!(old.headers["content-disposition"], "attachment");

    let feed = server.get(&format!("{WS}/changes?from=1")).await;
    let names = feed.headers.keys().map(|name| name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["content-length"], "a head holds what the client uses");
    let told = server.get(&format!("{WS}/changes?from=1&ops")).await;
    assert_eq!((&told.headers["operations"], &told.body), (&"0".parse().unwrap(), &feed.body));
    let mut decoder = minicbor::Decoder::new(&feed.body);
    let head: Version = decoder.decode().unwrap();
    assert_eq!(head.number, 2);
    let (path, node): (TreePath, Option<Node>) = decoder.decode().unwrap();
    assert_eq!((path.as_str(), node.unwrap().content().kind().name()), ("a", "file"));
    assert_eq!(decoder.position(), feed.body.len());

    let asked = codec::encode(&vec![common::path("b"), common::path("none")]);
    let nodes = server.post(&format!("{WS}/nodes"), asked).await.body;
    let mut decoder = minicbor::Decoder::new(&nodes);
    let found: [(TreePath, Option<Node>); 2] = [decoder.decode().unwrap(), decoder.decode().unwrap()];
    assert_eq!(
        found.map(|(path, node)| (path.to_string(), node.is_some())),
        [("b".into(), true), ("none".into(), false)]
    );

    let listed = server.get(&format!("{WS}/entries?verdict=shipped&client={}", client(1))).await.json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1);
    assert_eq!(server.get(&format!("{WS}/entries?verdict=maybe")).await.problem(), "malformed");
    let shown = server.get(&format!("{WS}/entries/{}/1", client(1))).await.json();
    assert_eq!(shown["changes"][0]["path"], "a");
}
