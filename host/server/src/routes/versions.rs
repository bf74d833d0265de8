//! Versions, their trees and files, and what changed between them.

use super::blobs::{Content, respond};
use crate::auth::Reader;
use crate::body::{COMPRESSION_LEVEL, accepts_zstd, binary, json, query, written, zstd_encoded};
use crate::json;
use crate::problem::Problem;
use crate::state::{State as Shared, blocking};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use opship_record::node::{Kind, Node};
use opship_record::version::Version;
use opship_record::{TreePath, codec};
use opship_storage::{Scope, StorageError, TreeView};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// Bytes of a feed of changes that are sent as they are.
const SHORT: usize = 512;

#[derive(Deserialize)]
struct Page {
    before: Option<u64>,
    limit: Option<usize>,
}

/// Newest first.
pub(super) async fn list(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    uri: Uri,
) -> Result<Response, Problem> {
    let page: Page = query(&uri)?;
    let limit = page.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let shown = blocking(move || {
        let versions = state.store.versions(&scope, page.before, limit)?;
        let (first, last) = (versions.last().map_or(0, |v| v.number), versions.first().map_or(0, |v| v.number));
        let forgotten = state.store.forgotten(&scope, first, last)?;
        let mut shown = with_authors(&state, &scope, &versions)?;
        for (_, shown) in versions.iter().zip(&mut shown).filter(|(version, _)| forgotten.contains(&version.number)) {
            shown["forgotten"] = json!(true);
        }
        Ok::<_, Problem>(shown)
    })
    .await??;
    Ok(json(StatusCode::OK, json!({ "versions": shown })))
}

/// One, by number or `head`.
pub(super) async fn show(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, version)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let shown = blocking(move || {
        let version = find(&state, &scope, &version)?;
        with_authors(&state, &scope, &[version])
    });
    Ok(json(StatusCode::OK, shown.await??.pop().unwrap_or_default()))
}

/// Versions as JSON, with the names of their authors.
fn with_authors(state: &Shared, scope: &Scope, versions: &[Version]) -> Result<Vec<serde_json::Value>, Problem> {
    let keys: Vec<_> = versions.iter().filter_map(|version| version.author.zip(version.sequence)).collect();
    let authors: BTreeMap<_, _> = keys.iter().copied().zip(state.store.authors(scope, &keys)?).collect();
    let author = |version: &Version| authors.get(&version.author.zip(version.sequence)?)?.as_ref();
    Ok(versions.iter().map(|version| json::authored(json::version(version), author(version))).collect())
}

/// The root directory.
pub(super) async fn root(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, version)): Path<(String, String)>,
) -> Result<Response, Problem> {
    listing(state, scope, version, TreePath::root()).await
}

/// A directory.
pub(super) async fn directory(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, version, path)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    listing(state, scope, version, TreePath::new(path)?).await
}

async fn listing(state: Arc<Shared>, scope: Arc<Scope>, version: String, path: TreePath) -> Result<Response, Problem> {
    let entries = blocking(move || {
        let (_, view) = tree(&state, &scope, &version)?;
        let is_directory = match view.lookup(&path)? {
            Some(entry) => entry.node.kind() == Kind::Directory,
            None => path.is_root(),
        };
        if !is_directory {
            return Err(Problem::not_found("directory", path.as_str()));
        }
        Ok(view.entries(&path)?)
    });
    let shown: Vec<_> = entries.await??.iter().map(json::tree_entry).collect();
    Ok(json(StatusCode::OK, serde_json::Value::Array(shown)))
}

#[derive(Deserialize)]
struct Of {
    version: Option<String>,
}

/// A file's bytes.
pub(super) async fn file(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    Path((_, path)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let of: Of = query(&uri)?;
    let version = of.version.unwrap_or_else(|| "head".to_owned());
    let path = TreePath::new(path)?;
    let own = Arc::clone(&state);
    let content = blocking(move || {
        let (_, view) = tree(&own, &scope, &version)?;
        let missing = || Problem::not_found("file", path.as_str());
        let Some(Node::File { hash, .. }) = view.lookup(&path)?.map(|entry| entry.node) else { return Err(missing()) };
        let blob = own.store.open_blob(&scope, &hash)?.ok_or_else(missing)?;
        Ok(Content { hash, blob: Arc::new(blob) })
    });
    let mut response = respond(&state, content.await??, &headers, false);
    let attachment = HeaderValue::from_static("attachment");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, attachment);
    Ok(response)
}

/// How many operations that a replay would make again are between two versions; told only if there are none.
const OPERATIONS: HeaderName = HeaderName::from_static("operations");

#[derive(Deserialize)]
struct Since {
    from: u64,
    brief: Option<String>,
    ops: Option<String>,
    is: Option<String>,
    to: Option<u64>,
    below: Option<String>,
}

/// What differs between a version and the head, or the version `to`, at and below a path, as a CBOR sequence: the version,
/// then `[path, node or null]`. With `brief` nothing at all, 204, if the two are one. With `ops` a header says so where no
/// operation that a replay would make again is between them.
pub(super) async fn changes(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let since: Since = query(&uri)?;
    let (own, own_scope) = (Arc::clone(&state), Arc::clone(&scope));
    let below = match since.below.as_deref() {
        None | Some("") => TreePath::root(),
        Some(path) => TreePath::new(path)?,
    };
    let (from, to, no_operations) = blocking(move || {
        let to = since.to.map_or("head".to_owned(), |number| number.to_string());
        same_history(&own, &own_scope, since.is.as_deref())?;
        // One that is forgotten is refused here, before anything is answered.
        let (from, _) = tree(&own, &own_scope, &since.from.to_string())?;
        let (to, _) = tree(&own, &own_scope, &to)?;
        let asked = since.ops.is_some() && from.number < to.number;
        let none = asked && !own.store.has_operations(&own_scope, from.number, to.number)?;
        Ok::<_, Problem>((from, to, none))
    })
    .await??;
    if since.brief.is_some() && from.number == to.number {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut response = feed(Feed { state, scope, from, to, below }, accepts_zstd(&headers)).await?;
    if no_operations {
        response.headers_mut().insert(OPERATIONS, HeaderValue::from_static("0"));
    }
    Ok(response)
}

/// Sends a feed, compressed for who takes that unless it is short.
async fn feed(feed: Feed, accepts_zstd: bool) -> Result<Response, Problem> {
    let (feed, short) = blocking(move || {
        let mut short = Short(Vec::new());
        let written = feed.write(&mut short).is_ok();
        (feed, written.then_some(short.0))
    })
    .await?;
    if let Some(bytes) = short {
        return Ok(binary(bytes));
    }
    let state = Arc::clone(&feed.state);
    if !accepts_zstd {
        return Ok(binary(written(&state, move |pieces| feed.write(pieces))));
    }
    let body = written(&state, move |pieces| {
        let mut encoder = zstd::stream::write::Encoder::new(pieces, COMPRESSION_LEVEL)?;
        feed.write(&mut encoder)?;
        encoder.finish().map(drop)
    });
    Ok(zstd_encoded(body))
}

#[derive(Deserialize)]
struct Between {
    after: u64,
    to: u64,
}

/// The operations that made versions, as a CBOR sequence of `[version, record, outputs]`.
pub(super) async fn operations(
    State(state): State<Arc<Shared>>,
    Reader(scope): Reader,
    uri: Uri,
) -> Result<Response, Problem> {
    let between: Between = query(&uri)?;
    let found = blocking(move || state.store.operations(&scope, between.after, between.to)).await??;
    let items =
        found.iter().flat_map(|operation| codec::encode(&(operation.version, &operation.record, &operation.outputs)));
    Ok(binary(items.collect::<Vec<u8>>()))
}

/// What a feed of changes is made from.
struct Feed {
    state: Arc<Shared>,
    scope: Arc<Scope>,
    from: Version,
    to: Version,
    below: TreePath,
}

impl Feed {
    fn write(&self, sink: &mut impl Write) -> io::Result<()> {
        sink.write_all(&self.to.encode())?;
        let mut failed = None;
        let walked = self.state.store.diff(&self.scope, &self.from.root, &self.to.root, &mut |path, _, now| {
            if !path.starts_with(&self.below) {
                return Ok(());
            }
            sink.write_all(&codec::encode(&(path, now))).map_err(|error| {
                failed = Some(error);
                StorageError::Closed
            })
        });
        match failed {
            Some(error) => Err(error),
            None => walked.map_err(io::Error::other),
        }
    }
}

/// Takes what is too short to be worth streaming and compressing, and refuses more.
struct Short(Vec<u8>);

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > SHORT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses a client that stands on a version that this workspace does not have: `N`, or `N.MARK` with the beginning of its
/// id in hexadecimal digits. What such a client takes for changes of others may be what the server has lost.
pub(super) fn same_history(state: &Shared, scope: &Scope, is: Option<&str>) -> Result<(), Problem> {
    let Some(is) = is else { return Ok(()) };
    let (number, mark) = is.split_once('.').unwrap_or((is, ""));
    let number = number.parse().map_err(|_| Problem::malformed("'is' names a version by its number, as in is=7"))?;
    let known = state.store.version(scope, number)?;
    if known.is_some_and(|version| version.id().to_string().starts_with(mark)) {
        return Ok(());
    }
    let detail = format!(
        "this workspace has no version {number} as this client knows it: the server's data was restored from a backup, or \
         is another's; a client of this version compares everything and goes on"
    );
    Err(Problem::new(StatusCode::CONFLICT, "other-history", detail))
}

/// A version by number or `head`.
fn find(state: &Shared, scope: &Scope, version: &str) -> Result<Version, Problem> {
    if version == "head" {
        return Ok(state.store.head(scope)?);
    }
    let missing = || Problem::not_found("version", version);
    let number = version.parse().map_err(|_| missing())?;
    state.store.version(scope, number)?.ok_or_else(missing)
}

fn tree(state: &Shared, scope: &Scope, version: &str) -> Result<(Version, TreeView), Problem> {
    let version = find(state, scope, version)?;
    let view = state.store.version_tree(scope, &version)?;
    Ok((version, view))
}
