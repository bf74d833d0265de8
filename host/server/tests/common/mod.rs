//! What the tests share: a real server on a free port, an HTTP client, modules written on the spot, and a recorder.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod guest;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use opship_engine::{Compiler, Engine, EngineConfig, Run};
use opship_record::answer::{Answer, Need};
use opship_record::effect::{self, After, Before, Change};
use opship_record::entry::{Body, ClientId, Entry, Part, PartKind, Value};
use opship_record::node::Kind;
use opship_record::plan::{PROFILE, Plan, Step};
use opship_record::record::{Lists, Record};
use opship_record::{FORMAT_VERSION, Hash, TreePath, codec, observation};
use opship_server::{Server, ServerConfig};
use opship_storage::{Role, Store};
use opship_world::{Budget, Fixtures, MemoryTree, Outcome, Spill, SpillFile, WorldConfig};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const WS: &str = "/v1/workspaces/w";

/// A server with a data directory of its own and the workspace `w`.
pub struct TestServer {
    pub address: SocketAddr,
    pub token: String,
    pub folder: tempfile::TempDir,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

/// A response, read whole.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: http::HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The last part of a problem's type.
    pub fn problem(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        self.json()["type"].as_str().unwrap().trim_start_matches("urn:opship:problem:").to_owned()
    }

    pub fn answers(&self) -> Vec<Answer> {
        assert_eq!(self.status, StatusCode::OK, "{}", String::from_utf8_lossy(&self.body));
        let mut rest = &self.body[..];
        let mut answers = Vec::new();
        while !rest.is_empty() {
            answers.push(Answer::decode_next(&mut rest).unwrap());
        }
        answers
    }
}

impl TestServer {
    pub async fn start() -> TestServer {
        TestServer::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut ServerConfig)) -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let server = TestServer::open(folder, change).await;
        let made = server.post("/v1/workspaces", br#"{"name":"w"}"#.to_vec()).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        server
    }

    /// As [`TestServer::with`], and a token of `eva`, who may write in `w` and is no administrator.
    pub async fn with_writer(change: impl FnOnce(&mut ServerConfig)) -> (TestServer, String) {
        let folder = TestServer::start().await.stop().await;
        let token = {
            let store = Store::open(&folder.path().join("data")).unwrap();
            let admin = std::fs::read_to_string(store.admin_token_file()).unwrap();
            let admin = store.authenticate(admin.trim()).unwrap().unwrap();
            let token = store.create_token(&admin, "eva", None).unwrap();
            store.grant(&store.scope(&admin, "w", Role::Admin).unwrap(), "eva", Some(Role::Write)).unwrap();
            token
        };
        (TestServer::open(folder, change).await, token)
    }

    /// The same server, asked by whoever has another token.
    pub async fn by(&self, token: &str, method: Method, path: &str, body: Vec<u8>) -> Reply {
        self.request(method, path, &[("authorization", &format!("Bearer {token}"))], body).await
    }

    /// Starts on a data directory that may have been used before.
    pub async fn open(folder: tempfile::TempDir, change: impl FnOnce(&mut ServerConfig)) -> TestServer {
        let listen = "127.0.0.1:0".parse().unwrap();
        let mut config = ServerConfig::new(folder.path().join("data"), listen, Compiler::InProcess);
        config.announce = Some(folder.path().join("servers"));
        change(&mut config);
        let server = Server::bind(config).await.unwrap();
        let address = server.local_addr();
        let token = std::fs::read_to_string(server.admin_token_file()).unwrap().trim().to_owned();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            server.run(async { drop(stopped.await) }).await.unwrap();
        });
        TestServer { address, token, folder, stop, running }
    }

    /// Stops it cleanly and gives the folder back.
    pub async fn stop(self) -> tempfile::TempDir {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
        self.folder
    }

    pub async fn request(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Reply {
        let mut request = Request::builder().method(method).uri(path).header("host", "test");
        if !headers.iter().any(|(name, _)| *name == "authorization") {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(*name, *value);
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        drop(sender);
        let _ = connection.await;
        Reply { status: parts.status, headers: parts.headers, body }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.request(Method::GET, path, &[], Vec::new()).await
    }

    pub async fn post(&self, path: &str, body: Vec<u8>) -> Reply {
        self.request(Method::POST, path, &[], body).await
    }

    pub async fn put(&self, path: &str, body: Vec<u8>) -> Reply {
        self.request(Method::PUT, path, &[], body).await
    }

    /// Uploads a blob to `w`.
    pub async fn upload(&self, bytes: &[u8]) -> Hash {
        let hash = Hash::of(bytes);
        let reply = self.put(&format!("{WS}/blobs/{hash}"), bytes.to_vec()).await;
        assert!(reply.status.is_success(), "{reply:?}");
        hash
    }

    /// Ships entries to `w`; the answers in the order of their sequence numbers.
    pub async fn ship(&self, entries: &[Entry]) -> Vec<Answer> {
        let mut body = Vec::new();
        entries.iter().for_each(|entry| entry.encode_into(&mut body));
        let mut answers = self.post(&format!("{WS}/entries"), body).await.answers();
        answers.sort_by_key(|answer| answer.sequence);
        answers
    }

    pub async fn ship_one(&self, entry: &Entry) -> Answer {
        let mut answers = self.ship(std::slice::from_ref(entry)).await;
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// Number of the head version of `w`.
    pub async fn head(&self) -> u64 {
        self.get(WS).await.json()["head"]["number"].as_u64().unwrap()
    }

    /// A file of the head of `w`.
    pub async fn file(&self, path: &str) -> Option<Vec<u8>> {
        let reply = self.get(&format!("{WS}/files/{path}")).await;
        (reply.status == StatusCode::OK).then_some(reply.body)
    }

    /// Ships files as one value of client 9 and expects it to end with a version.
    pub async fn put_files(&self, sequence: u64, files: &[(&str, &[u8])]) {
        let changes: Vec<Change> = files.iter().map(|(path, bytes)| created(path, bytes)).collect();
        let blobs = files.iter().map(|(_, bytes)| *bytes);
        let answer = self.ship_one(&value(client(9), sequence, changes, blobs)).await;
        assert_eq!(answer.verdict, Some(opship_record::answer::Verdict::Shipped), "{answer:?}");
    }
}

pub fn client(number: u8) -> ClientId {
    ClientId::from_bytes([number; 16])
}

pub fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

/// A new file in the root, as [`MemoryTree::file`] makes it.
pub fn created(at: &str, bytes: &[u8]) -> Change {
    let before = Before::Absent { missing: path(at), above: Kind::Directory };
    Change { path: path(at), before, after: file(bytes) }
}

/// A file whose content is replaced.
pub fn replaced(at: &str, old: &[u8], new: &[u8]) -> Change {
    Change { path: path(at), before: Before::File { hash: Hash::of(old) }, after: file(new) }
}

fn file(bytes: &[u8]) -> After {
    After::File { length: bytes.len() as u64, hash: Hash::of(bytes), mode: None, mtime: 0 }
}

/// A value entry with its list and contents inline.
pub fn value<'a>(
    client: ClientId,
    sequence: u64,
    mut changes: Vec<Change>,
    blobs: impl IntoIterator<Item = &'a [u8]>,
) -> Entry {
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    let mut parts = vec![Part::inline(PartKind::Changes, effect::encode_list(&changes))];
    parts.extend(blobs.into_iter().map(|bytes| Part::inline(PartKind::Blob, bytes.to_vec())));
    Entry::new(client, sequence, &[], Body::Value(Value::new(&changes)), parts)
}

/// An operation entry.
pub fn operation(client: ClientId, sequence: u64, record: &Record, parts: Vec<Part>) -> Entry {
    Entry::new(client, sequence, &[], Body::Operation(record.clone()), parts)
}

/// The lists of a run as parts.
pub fn list_parts(lists: &Lists) -> Vec<Part> {
    vec![
        Part::inline(PartKind::Observations, observation::encode_list(&lists.observations)),
        Part::inline(PartKind::Changes, effect::encode_list(&lists.changes)),
        Part::inline(PartKind::Streams, codec::encode(&lists.streams)),
    ]
}

pub fn needs_blob(answer: &Answer, bytes: &[u8]) -> bool {
    let hash = Hash::of(bytes);
    answer.needs.iter().flatten().any(|need| *need == Need::Blob { hash })
}

/// A plan of one step.
pub fn plan(module: &[u8]) -> Plan {
    let steps = vec![Step::new(Hash::of(module), ["test"])];
    Plan { format: FORMAT_VERSION, steps, clock_start: 1, seed: [7; 16].into(), limits: None, profile: PROFILE }
}

/// A tree of files in the root.
pub fn tree(files: &[(&str, &[u8])]) -> MemoryTree {
    files.iter().fold(MemoryTree::new(), |tree, (path, bytes)| tree.file(path, bytes))
}

/// Runs a module as a client would, and gives its record.
pub fn record(module: &[u8], tree: MemoryTree) -> (Record, Outcome) {
    let engine = Engine::new(EngineConfig::new(Compiler::InProcess)).unwrap();
    let hash = Hash::of(module);
    let (loaded, _) = engine.load(&hash, &mut || Ok(module.to_vec())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let world = WorldConfig {
        plan: plan(module),
        source: Arc::new(tree),
        spill: Arc::new(TempSpill(folder.path().to_owned())),
        budget: Budget::default(),
        stdin_blobs: BTreeMap::new(),
        mounts: BTreeMap::new(),
        fixtures: Fixtures::default(),
    };
    let modules = BTreeMap::from([(hash, loaded)]);
    // Guests need more stack than a test's thread has.
    let run = || engine.run(Run::new(world, &modules)).unwrap();
    let outcome = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(opship_engine::RUN_STACK_BYTES);
        builder.spawn_scoped(scope, run).unwrap().join().unwrap().outcome
    });
    (Record::new(plan(module), &outcome.lists), outcome)
}

struct TempSpill(std::path::PathBuf);

impl Spill for TempSpill {
    fn create(&self) -> std::io::Result<SpillFile> {
        Ok(SpillFile { file: tempfile::tempfile_in(&self.0)?, path: None })
    }
}
