//! The calls that move contents and trees whole.

use super::api::{Api, MAX_JSON, decode};
use super::body::RequestBody;
use crate::ClientError;
use crate::mounts::MountStore;
use bytes::Bytes;
use http::{Method, header};
use opship_record::tree::{self, NodeStore};
use opship_record::{Hash, codec};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use tokio::sync::mpsc;

/// Most hashes asked about in one request.
pub(super) const HASHES_AT_ONCE: usize = 10_000;
/// Pieces that a streamed upload is sent in.
const PIECE: usize = 128 << 10;
/// Compression level of blobs that are uploaded whole: zstd's fast default.
const ZSTD_LEVEL: i32 = 3;

impl Api {
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
