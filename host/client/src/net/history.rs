//! The calls that ask for versions, and for what differs between them.

use super::api::{Api, decode, percent};
use super::blobs::HASHES_AT_ONCE;
use super::body::{BodyReader, RequestBody};
use crate::ClientError;
use http::{HeaderName, Method, header};
use opship_record::node::Node;
use opship_record::record::Record;
use opship_record::version::Version;
use opship_record::{Hash, TreePath, codec};
use serde::{Deserialize, Serialize};

/// Of how many operations a replay would make again what a feed of changes tells, where that was asked for.
const OPERATIONS: HeaderName = HeaderName::from_static("operations");

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

impl Api {
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
