//! The calls of the server's API that a client makes.

use super::body::{BodyReader, RequestBody};
use super::transport::{Counter, Response, Transport};
use super::url::ServerUrl;
use crate::ClientError;
use crate::budget::Link;
use crate::mounts::MountStore;
use bytes::Bytes;
use http::{HeaderName, Method, header};
use opship_record::answer::Answer;
use opship_record::entry::ClientId;
use opship_record::node::Node;
use opship_record::record::Record;
use opship_record::tree::{self, NodeStore};
use opship_record::version::Version;
use opship_record::{Hash, TreePath, codec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::Arc;
use tokio::sync::mpsc;
use zstd::stream::raw::CParameter;

/// Of how many operations a replay would make again what a feed of changes tells, where that was asked for.
const OPERATIONS: HeaderName = HeaderName::from_static("operations");
/// The user's name with the server, in the answer to a request that names its client.
const AUTHOR: HeaderName = HeaderName::from_static("opship-author");
pub(super) const MAX_JSON: usize = 64 << 20;
/// Pieces that a streamed upload is sent in.
const PIECE: usize = 128 << 10;
/// Most hashes asked about in one request.
const HASHES_AT_ONCE: usize = 10_000;
/// Below this length compressing a request is not worth it.
const COMPRESS_FROM: usize = 1 << 10;
/// Bytes that the header of a compressed request takes more.
const ENCODING_HEADER: usize = "content-encoding: zstd\r\n".len();
/// Compression level of blobs that are uploaded whole: zstd's fast default.
const ZSTD_LEVEL: i32 = 3;
/// Compression level of other requests: where zstd's gain for its time begins to fall off.
const REQUEST_LEVEL: i32 = 6;
/// Window of other requests, as a power of two: all of the largest one.
const REQUEST_WINDOW: u32 = 24;

/// Typed calls over a [`Transport`], for one workspace.
#[derive(Debug)]
pub struct Api {
    pub(super) transport: Transport,
    workspace: String,
    /// What is asked to be the server's history too, until it has said so.
    standing: Option<String>,
}

/// The type of problem with which a server refuses a client that stands on a version that it does not have.
pub const OTHER_HISTORY: &str = "other-history";

/// What `GET /v1/server` says.
#[derive(Debug, Clone, Deserialize)]
pub struct ServerInfo {
    /// The server's version.
    pub version: String,
    /// The wire format's version.
    pub format: u8,
    /// Engine profiles that it replays under.
    pub profiles: Vec<u32>,
}

/// What the server says of a workspace.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct WorkspaceInfo {
    /// Its name.
    pub name: String,
}

/// What the server says of a version.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct VersionInfo {
    /// Its number.
    pub number: u64,
    /// The client whose entry made it, in hexadecimal; none for number 0.
    pub author: Option<String>,
    /// What people call that client, where the server knows a name.
    #[serde(default)]
    pub author_name: Option<String>,
    /// What that client is called.
    #[serde(default)]
    pub client_name: Option<String>,
    /// That client's number of the entry.
    pub sequence: Option<u64>,
    /// When it was committed, in milliseconds since 1970.
    pub time: u64,
    /// Is it beyond retention, so that its tree is not there any more?
    #[serde(default)]
    pub forgotten: bool,
}

/// What identifies a version, as the server says, in hexadecimal.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct VersionHashes {
    /// Its id.
    pub id: String,
    /// Hash of its tree.
    pub root: String,
}

/// An operation whose replay makes what a version holds.
#[derive(Debug, Clone)]
pub struct OperationOfVersion {
    /// The version.
    pub version: u64,
    /// The record of the run that made it.
    pub record: Record,
    /// The contents that the run wrote.
    pub outputs: Vec<Hash>,
}

/// A registered module as the API carries it.
#[derive(Debug, Clone, Deserialize, Serialize, PartialEq, Eq)]
pub struct ModuleDescription {
    /// Its name.
    pub name: String,
    /// Hash of the module, in hexadecimal.
    pub hash: String,
    /// Length in bytes.
    #[serde(default)]
    pub length: u64,
    /// Read-only trees that it runs with.
    #[serde(default)]
    pub mounts: Vec<MountDescription>,
    /// The first argument, if it is not the name.
    #[serde(default)]
    pub argv0: Option<String>,
    /// Does it belong to the server (`std/…`)?
    #[serde(default)]
    pub standard: bool,
    /// Has the server been told of it? Only kept here, never sent.
    #[serde(default)]
    pub registered: bool,
}

/// A mount of a [`ModuleDescription`].
#[derive(Debug, Clone, Deserialize, Serialize, PartialEq, Eq)]
pub struct MountDescription {
    /// Where it stands, relative to `/`.
    pub path: String,
    /// Its tree's hash, in hexadecimal.
    pub tree: String,
}

/// How the server knows an entry's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldState {
    /// Not at all.
    Unknown,
    /// With this body.
    Same,
    /// With another body.
    Other,
}

impl Api {
    /// The API of `server` as seen with `token`, for `workspace`.
    pub fn new(server: ServerUrl, token: String, workspace: &str) -> Api {
        Api { transport: Transport::new(server, token), workspace: workspace.to_owned(), standing: None }
    }

    /// Counts all bytes on a link's account, and stops at its budget.
    pub fn over(self, link: Option<Link>) -> Api {
        Api { transport: self.transport.over(link), ..self }
    }

    /// Uses another token from the next request on.
    pub(crate) fn with_token(self, token: &str) -> Api {
        Api { transport: self.transport.with_token(token.to_owned()), ..self }
    }

    /// Bytes on the wire.
    pub fn counter(&self) -> Arc<Counter> {
        self.transport.counter()
    }

    /// The same API over a connection of its own, for large bodies ([`Transport::for_bulk`]).
    pub(crate) fn for_bulk(&self) -> Api {
        Api { transport: self.transport.for_bulk(), workspace: self.workspace.clone(), standing: None }
    }

    pub(super) fn path(&self, rest: &str) -> String {
        format!("/v1/workspaces/{}{rest}", self.workspace)
    }

    pub(super) async fn get_json<T: for<'a> Deserialize<'a>>(&mut self, path: &str) -> Result<T, ClientError> {
        let mut response = self.transport.send(Method::GET, path, &[], RequestBody::bytes("")).await?;
        let bytes = response.body.all(MAX_JSON).await?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Protocol { detail: error.to_string() })
    }

    pub(super) async fn send_json(
        &mut self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Bytes, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| ClientError::Protocol { detail: error.to_string() })?;
        let headers = [(header::CONTENT_TYPE, "application/json")];
        let mut response = self.transport.send(method, path, &headers, RequestBody::bytes(body)).await?;
        response.body.all(MAX_JSON).await
    }

    async fn post_cbor(&mut self, path: &str, body: Vec<u8>) -> Result<Response, ClientError> {
        self.transport.send(Method::POST, path, &[], RequestBody::bytes(body)).await
    }

    /// As [`Api::post_cbor`], compressed as one stream where that makes it smaller. Gives the body's length on the wire too.
    pub(super) async fn post_packed(&mut self, path: &str, body: Vec<u8>) -> Result<(Response, u64), ClientError> {
        let packed = (body.len() > COMPRESS_FROM).then(|| pack(&body).ok()).flatten();
        let Some(packed) = packed.filter(|packed| packed.len() + ENCODING_HEADER < body.len()) else {
            let length = body.len() as u64;
            return Ok((self.post_cbor(path, body).await?, length));
        };
        let length = packed.len() as u64;
        let headers = [(header::CONTENT_ENCODING, "zstd")];
        Ok((self.transport.send(Method::POST, path, &headers, RequestBody::bytes(packed)).await?, length))
    }

    /// Versions and limits of the server.
    ///
    /// # Errors
    /// [`ClientError`] from the network or the server; the same holds for all calls below.
    pub async fn server(&mut self) -> Result<ServerInfo, ClientError> {
        self.get_json("/v1/server").await
    }

    /// Makes the workspace. `false`: it was there already.
    pub async fn create_workspace(&mut self) -> Result<bool, ClientError> {
        let body = WorkspaceInfo { name: self.workspace.clone() };
        match self.send_json(Method::POST, "/v1/workspaces", &body).await {
            Ok(_) => Ok(true),
            Err(ClientError::Problem { status: 409, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What the server says of the workspace.
    pub async fn workspace(&mut self) -> Result<WorkspaceInfo, ClientError> {
        self.get_json(&self.path("")).await
    }

    /// The working copy stands on a version, whose id begins so, if that is known: the next request of changes or entries is
    /// refused with [`OTHER_HISTORY`] if the server has another there.
    pub fn stand_on(&mut self, number: u64, mark: Option<[u8; 8]>) {
        let mark = mark.map(|mark| mark.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        self.standing = (number > 0).then(|| mark.map_or(number.to_string(), |mark| format!("{number}.{mark}")));
    }

    /// Ships a request of entries; the answers come from the reader, one by one.
    pub async fn ship(&mut self, request: Vec<u8>) -> Result<Answers, ClientError> {
        let path = self.path("/entries");
        self.ship_to(&path, request).await
    }

    /// As [`Api::ship`], and tells what the client that the entries are of is called.
    pub async fn ship_as(&mut self, name: &str, request: Vec<u8>) -> Result<Answers, ClientError> {
        let path = self.path(&format!("/entries?name={}", percent(name)));
        self.ship_to(&path, request).await
    }

    async fn ship_to(&mut self, path: &str, request: Vec<u8>) -> Result<Answers, ClientError> {
        let path = self.standing_at(path);
        let (response, sent) = self.post_packed(&path, request).await?;
        self.standing = None;
        let author = response.headers.get(AUTHOR).and_then(|name| String::from_utf8(name.as_bytes().to_vec()).ok());
        Ok(Answers { body: response.body, sent, author })
    }

    /// Asks again for an entry that was answered with an address, for up to `wait` seconds.
    pub async fn poll(&mut self, location: &str, wait: u32) -> Result<Option<Answer>, ClientError> {
        let path = format!("{location}?wait={wait}");
        let headers = [(header::ACCEPT, "application/cbor")];
        let response = self.transport.send(Method::GET, &path, &headers, RequestBody::bytes("")).await?;
        Answers { body: response.body, sent: 0, author: None }.next().await
    }

    /// How the server knows keys.
    pub async fn entry_states(&mut self, keys: &[(ClientId, u64, Hash)]) -> Result<Vec<HeldState>, ClientError> {
        let path = self.path("/entries:state");
        let mut response = self.post_cbor(&path, codec::encode(&keys)).await?;
        let bytes = response.body.all(MAX_JSON).await?;
        let states: Vec<u8> = decode(&bytes)?;
        let states: Vec<HeldState> = states
            .into_iter()
            .map(|state| match state {
                0 => HeldState::Unknown,
                1 => HeldState::Same,
                _ => HeldState::Other,
            })
            .collect();
        if states.len() != keys.len() {
            return Err(ClientError::Protocol { detail: "the server left out states of entries".to_owned() });
        }
        Ok(states)
    }

    /// Tells that nothing is left to decide of these entries of a client, which ended `conflicted` or `rebased`.
    pub async fn resolve_entries(&mut self, client: &ClientId, sequences: &[u64]) -> Result<(), ClientError> {
        let path = self.path("/entries:resolve");
        let mut response = self.post_cbor(&path, codec::encode(&(client, sequences))).await?;
        response.body.all(MAX_JSON).await.map(|_| ())
    }

    /// Which of these blobs the workspace lacks.
    pub async fn missing_blobs(&mut self, hashes: &[Hash]) -> Result<Vec<Hash>, ClientError> {
        let path = self.path("/blobs:missing");
        let mut missing = Vec::new();
        for hashes in hashes.chunks(HASHES_AT_ONCE) {
            let mut response = self.post_cbor(&path, codec::encode(&hashes)).await?;
            let bytes = response.body.all(MAX_JSON).await?;
            missing.extend(decode::<Vec<Hash>>(&bytes)?);
        }
        Ok(missing)
    }

    /// Uploads a blob, compressed while it is sent. `open` is called on a thread of its own.
    pub async fn put_blob(&mut self, hash: &Hash, content: impl Read + Send + 'static) -> Result<(), ClientError> {
        let (sender, receiver) = mpsc::channel(4);
        let reader = tokio::task::spawn_blocking(move || compress_into(content, sender));
        let path = self.path(&format!("/blobs/{hash}"));
        let headers = [(header::CONTENT_ENCODING, "zstd")];
        let sent = self.transport.send(Method::PUT, &path, &headers, RequestBody::Stream(receiver, None)).await;
        let read = reader.await.map_err(|error| ClientError::Protocol { detail: error.to_string() })?;
        let mut response = match (sent, read) {
            (Ok(response), _) => response,
            // The server's refusal says more than the broken pipe that it causes here.
            (Err(error @ ClientError::Problem { .. }), _) => return Err(error),
            (Err(_), Err(error)) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                return Err(ClientError::Read { path: hash.to_string(), detail: error.to_string() });
            }
            (Err(error), _) => return Err(error),
        };
        response.body.all(MAX_JSON).await.map(|_| ())
    }

    /// Uploads small blobs, each at most 64 KiB, in one request; they and 5 bytes for each must fit into one.
    pub async fn put_blobs(&mut self, blobs: &[Vec<u8>]) -> Result<(), ClientError> {
        let path = self.path("/blobs:put");
        let mut body = Vec::new();
        for blob in blobs {
            body.extend(codec::encode(&<&minicbor::bytes::ByteSlice>::from(blob.as_slice())));
        }
        let (mut response, _) = self.post_packed(&path, body).await?;
        response.body.all(MAX_JSON).await.map(|_| ())
    }

    /// Downloads a blob of at most `longest` bytes into `sink`; gives its length. The bytes are verified: a sink that got
    /// others must be dropped.
    pub async fn get_blob(
        &mut self,
        hash: &Hash,
        longest: u64,
        sink: &mut (impl Write + Send),
    ) -> Result<u64, ClientError> {
        let path = self.path(&format!("/blobs/{hash}"));
        let headers = [(header::ACCEPT_ENCODING, "zstd")];
        let mut response = self.transport.send(Method::GET, &path, &headers, RequestBody::bytes("")).await?;
        let mut verified = Verified { sink, hasher: opship_record::Hasher::new(), length: 0 };
        while let Some(piece) = response.body.piece().await? {
            verified
                .write_all(&piece)
                .map_err(|error| ClientError::Write { path: hash.to_string(), detail: error.to_string() })?;
            if verified.length > longest {
                return Err(ClientError::Protocol { detail: format!("the server sent more than blob {hash} holds") });
            }
        }
        if verified.hasher.finish() != *hash {
            return Err(ClientError::Protocol { detail: format!("the server sent other bytes than blob {hash}") });
        }
        Ok(verified.length)
    }

    /// Downloads small blobs in one request; those that were left out must be fetched one by one.
    pub async fn fetch_blobs(&mut self, hashes: &[Hash]) -> Result<Vec<(Hash, Vec<u8>)>, ClientError> {
        let path = self.path("/blobs:fetch");
        let headers = [(header::ACCEPT_ENCODING, "zstd")];
        let body = RequestBody::bytes(codec::encode(&hashes));
        let mut response = self.transport.send(Method::POST, &path, &headers, body).await?;
        let mut awaited: BTreeSet<&Hash> = hashes.iter().collect();
        let mut found = Vec::new();
        while let Some(item) = response.body.item().await? {
            let (hash, bytes): (Hash, minicbor::bytes::ByteVec) = decode(&item)?;
            if Hash::of(&bytes) != hash || !awaited.remove(&hash) {
                return Err(ClientError::Protocol { detail: format!("the server sent other bytes than blob {hash}") });
            }
            found.push((hash, bytes.into()));
        }
        Ok(found)
    }

    /// Uploads the nodes of a mount's tree, children before parents. Its blobs must be there.
    pub async fn put_tree(&mut self, nodes: &[Vec<u8>]) -> Result<(), ClientError> {
        let path = self.path("/trees");
        let mut body = Vec::new();
        for node in nodes {
            body.extend(codec::encode(&minicbor::bytes::ByteVec::from(node.clone())));
        }
        self.post_packed(&path, body).await?.0.body.all(MAX_JSON).await.map(|_| ())
    }

    /// Downloads the nodes of a mount's tree into a store.
    pub async fn get_tree(&mut self, root: &Hash, store: &mut MountStore) -> Result<(), ClientError> {
        let path = self.path(&format!("/trees/{root}"));
        let mut response = self.transport.send(Method::GET, &path, &[], RequestBody::bytes("")).await?;
        while let Some(item) = response.body.item().await? {
            let node: minicbor::bytes::ByteVec = decode(&item)?;
            let hash = tree::hash_of(&node);
            let write_failed =
                |error: std::io::Error| ClientError::Write { path: hash.to_string(), detail: error.to_string() };
            store.keep(hash, node.into()).map_err(write_failed)?;
        }
        Ok(())
    }

    /// The modules that the workspace can name.
    pub async fn modules(&mut self) -> Result<Vec<ModuleDescription>, ClientError> {
        #[derive(Deserialize)]
        struct Modules {
            modules: Vec<ModuleDescription>,
        }
        let path = self.path("/modules");
        Ok(self.get_json::<Modules>(&path).await?.modules)
    }

    /// One module by name, `None` if there is none.
    pub async fn module(&mut self, name: &str) -> Result<Option<ModuleDescription>, ClientError> {
        let path = self.path(&format!("/modules/{name}"));
        match self.get_json(&path).await {
            Ok(module) => Ok(Some(module)),
            Err(ClientError::Problem { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Registers a module whose blob and mounts are there.
    pub async fn register_module(&mut self, module: &ModuleDescription) -> Result<(), ClientError> {
        let path = self.path(&format!("/modules/{}", module.name));
        self.send_json(Method::PUT, &path, module).await.map(|_| ())
    }

    /// Removes a module's name.
    pub async fn remove_module(&mut self, name: &str) -> Result<(), ClientError> {
        let path = self.path(&format!("/modules/{name}"));
        let mut response = self.transport.send(Method::DELETE, &path, &[], RequestBody::bytes("")).await?;
        response.body.all(MAX_JSON).await.map(|_| ())
    }

    /// Versions with numbers below `before`, newest first.
    pub async fn versions(&mut self, before: Option<u64>, limit: usize) -> Result<Vec<VersionInfo>, ClientError> {
        #[derive(Deserialize)]
        struct Versions {
            versions: Vec<VersionInfo>,
        }
        let before = before.map(|before| format!("&before={before}")).unwrap_or_default();
        let path = self.path(&format!("/versions?limit={limit}{before}"));
        Ok(self.get_json::<Versions>(&path).await?.versions)
    }

    /// The operations that made versions above `after`, up to `to`, and that a replay would make again.
    pub async fn operations(&mut self, after: u64, to: u64) -> Result<Vec<OperationOfVersion>, ClientError> {
        let path = self.path(&format!("/operations?after={after}&to={to}"));
        let mut response = self.transport.send(Method::GET, &path, &[], RequestBody::bytes("")).await?;
        let mut found = Vec::new();
        while let Some(item) = response.body.item().await? {
            let (version, record, outputs): (u64, Record, Vec<Hash>) = decode(&item)?;
            record.validate()?;
            found.push(OperationOfVersion { version, record, outputs });
        }
        Ok(found)
    }

    /// Id and tree of a version; `None` if the workspace has no version of that number.
    pub async fn version_hashes(&mut self, number: u64) -> Result<Option<VersionHashes>, ClientError> {
        match self.get_json(&self.path(&format!("/versions/{number}"))).await {
            Ok(version) => Ok(Some(version)),
            Err(ClientError::Problem { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What a version, or the head, holds at these paths.
    pub async fn nodes(
        &mut self,
        paths: &[TreePath],
        version: Option<u64>,
    ) -> Result<Vec<(TreePath, Option<Node>)>, ClientError> {
        let path = match version {
            None => self.path("/nodes"),
            Some(version) => self.path(&format!("/nodes?version={version}")),
        };
        let mut found = Vec::new();
        for paths in paths.chunks(HASHES_AT_ONCE) {
            let mut response = self.post_cbor(&path, codec::encode(&paths)).await?;
            while let Some(item) = response.body.item().await? {
                found.push(state(&item)?);
            }
        }
        Ok(found)
    }

    /// What differs between version `from` and the head: first the head, then each path with what it is now. `None`: that
    /// version is the head.
    pub async fn changes(&mut self, from: u64) -> Result<Option<(Version, Changes)>, ClientError> {
        let path = self.standing_at(&format!("/changes?from={from}&brief&ops"));
        let changes = self.changes_at(&path).await?;
        self.standing = None;
        Ok(changes)
    }

    /// What differs between two versions at and below a path: first `to`, then each path with what it is there.
    pub async fn changes_between(
        &mut self,
        from: u64,
        to: u64,
        below: &TreePath,
    ) -> Result<(Version, Changes), ClientError> {
        let below = percent(below.as_str());
        let found = self.changes_at(&format!("/changes?from={from}&to={to}&below={below}")).await?;
        found.ok_or_else(|| ClientError::Protocol { detail: "the server sent no version".to_owned() })
    }

    /// An address that asks for the history too.
    fn standing_at(&self, path: &str) -> String {
        let sign = if path.contains('?') { '&' } else { '?' };
        self.standing.as_ref().map_or(path.to_owned(), |standing| format!("{path}{sign}is={standing}"))
    }

    async fn changes_at(&mut self, path: &str) -> Result<Option<(Version, Changes)>, ClientError> {
        let path = self.path(path);
        let headers = [(header::ACCEPT_ENCODING, "zstd")];
        let mut response = self.transport.send(Method::GET, &path, &headers, RequestBody::bytes("")).await?;
        if response.status == http::StatusCode::NO_CONTENT {
            return Ok(None);
        }
        let item = response.body.item().await?;
        let version = item.ok_or(ClientError::Protocol { detail: "the server sent no version".to_owned() })?;
        let version = Version::decode(&version).map_err(|error| ClientError::Protocol { detail: error.to_string() })?;
        let operations = response.headers.get(OPERATIONS).is_none_or(|count| count != "0");
        Ok(Some((version, Changes { body: response.body, operations })))
    }
}

/// The answers to a request, in the order in which they come.
#[derive(Debug)]
pub struct Answers {
    body: BodyReader,
    sent: u64,
    author: Option<String>,
}

impl Answers {
    /// The user's name with the server, if the request named its client and the server took note of that.
    pub fn author(&self) -> Option<&str> {
        self.author.as_deref()
    }

    /// Bytes that the body of the request took on the wire.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The next answer, `None` when all are there.
    ///
    /// # Errors
    /// [`ClientError::Connection`] if the connection broke; entries without an answer are sent again.
    pub async fn next(&mut self) -> Result<Option<Answer>, ClientError> {
        let Some(item) = self.body.item().await? else { return Ok(None) };
        let answer = Answer::decode_next(&mut item.as_ref());
        answer.map(Some).map_err(|error| ClientError::Protocol { detail: error.to_string() })
    }
}

/// A feed of changed paths.
#[derive(Debug)]
pub struct Changes {
    body: BodyReader,
    operations: bool,
}

impl Changes {
    /// May there be operations among what made these versions? Only a server that was asked and has none of them says no.
    pub fn may_hold_operations(&self) -> bool {
        self.operations
    }

    /// The next path with what it is now (`None`: gone); `None` at the end.
    ///
    /// # Errors
    /// [`ClientError`] from the network; [`ClientError::Protocol`] for a path that no tree may hold.
    pub async fn next(&mut self) -> Result<Option<(TreePath, Option<Node>)>, ClientError> {
        match self.body.item().await? {
            Some(item) => state(&item).map(Some),
            None => Ok(None),
        }
    }
}

/// A path with what it is, as far as a tree may hold it: the bits of a mode that lend rights never come in this way.
fn state(bytes: &[u8]) -> Result<(TreePath, Option<Node>), ClientError> {
    let (path, node): (TreePath, Option<Node>) = decode(bytes)?;
    if node.as_ref().is_some_and(|node| !node.is_valid()) {
        return Err(ClientError::Protocol { detail: format!("no tree may hold what the server sent of '{path}'") });
    }
    Ok((path, node))
}

/// A text as part of an address (RFC 3986, section 2.1): all but unreserved characters and `/` as `%XX`.
pub(super) fn percent(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => encoded.push(byte as char),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

pub(super) fn decode<'b, T: minicbor::Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, ClientError> {
    minicbor::decode(bytes).map_err(|error| ClientError::Protocol { detail: error.to_string() })
}

/// Compresses a request's body, its length stated.
pub(crate) fn pack(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(REQUEST_LEVEL)?;
    let fits = usize::BITS - body.len().leading_zeros();
    compressor.set_parameter(CParameter::WindowLog(fits.clamp(10, REQUEST_WINDOW)))?;
    compressor.compress(body)
}

/// Hashes and counts what passes through to the sink.
struct Verified<'a, W> {
    sink: &'a mut W,
    hasher: opship_record::Hasher,
    length: u64,
}

impl<W: Write> Write for Verified<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.sink.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.length += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}

/// Sends what it is given in pieces.
struct Pieces(mpsc::Sender<std::io::Result<Bytes>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        self.0.blocking_send(Ok(piece)).map_err(|_| std::io::Error::from(std::io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Compresses a content into a channel; an error of reading ends the upload without completing it.
fn compress_into(mut content: impl Read, sender: mpsc::Sender<std::io::Result<Bytes>>) -> std::io::Result<()> {
    let pieces = std::io::BufWriter::with_capacity(PIECE, Pieces(sender.clone()));
    let compress = || {
        let mut encoder = zstd::stream::write::Encoder::new(pieces, ZSTD_LEVEL)?;
        std::io::copy(&mut content, &mut encoder)?;
        encoder.finish()?.flush()
    };
    compress().inspect_err(|error| {
        let _ = sender.blocking_send(Err(std::io::Error::new(error.kind(), error.to_string())));
    })
}
