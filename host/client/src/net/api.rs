//! The calls of the server's API that a client makes.

use super::body::{BodyReader, RequestBody};
use super::transport::{Counter, Response, Transport};
use super::url::ServerUrl;
use crate::ClientError;
use crate::budget::Link;
use bytes::Bytes;
use http::{HeaderName, Method, header};
use opship_record::answer::Answer;
use opship_record::entry::ClientId;
use opship_record::{Hash, codec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use zstd::stream::raw::CParameter;

/// The user's name with the server, in the answer to a request that names its client.
const AUTHOR: HeaderName = HeaderName::from_static("opship-author");
pub(super) const MAX_JSON: usize = 64 << 20;
/// Below this length compressing a request is not worth it.
const COMPRESS_FROM: usize = 1 << 10;
/// Bytes that the header of a compressed request takes more.
const ENCODING_HEADER: usize = "content-encoding: zstd\r\n".len();
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
    pub(super) standing: Option<String>,
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
    /// Its settings, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) settings: BTreeMap<String, String>,
}

impl WorkspaceInfo {
    /// Bytes that a file may have.
    pub(crate) fn largest_file(&self) -> u64 {
        self.settings.get("largest-file").and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
    }
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

    /// The same API over another such connection, which asks for the history as long as this one does.
    pub(crate) fn beside(&self) -> Api {
        Api { standing: self.standing.clone(), ..self.for_bulk() }
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

    pub(super) async fn post_cbor(&mut self, path: &str, body: Vec<u8>) -> Result<Response, ClientError> {
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
        let body = WorkspaceInfo { name: self.workspace.clone(), settings: BTreeMap::new() };
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

    /// An address that asks for the history too.
    pub(super) fn standing_at(&self, path: &str) -> String {
        let sign = if path.contains('?') { '&' } else { '?' };
        self.standing.as_ref().map_or(path.to_owned(), |standing| format!("{path}{sign}is={standing}"))
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
