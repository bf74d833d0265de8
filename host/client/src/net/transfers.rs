//! The calls that move large contents: uploads that go on where they were cut, and documents.

use super::api::{Api, MAX_JSON, decode};
use super::body::{BodyReader, RequestBody};
use crate::ClientError;
use http::{HeaderName, Method, header};
use minicbor::bytes::{ByteSlice, ByteVec};
use opship_record::{Hash, codec};
use opship_residual::packed;
use std::collections::BTreeSet;

const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
/// Chunks asked for in one request.
const CHUNKS_AT_ONCE: usize = 1 << 20;
const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");

/// Hexadecimal digits of a parcel's name: they tell one user's parcels apart.
const PARCEL_DIGITS: usize = 12;

/// What an upload brings: with the same name it has the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentName {
    /// The content's hash; `None` for a parcel of several.
    pub(crate) content: Option<Hash>,
    /// 32 hexadecimal digits; 12 of a parcel.
    pub(crate) document: String,
}

impl DocumentName {
    /// The document that this program's encoder makes of a content that is like something.
    pub(crate) fn new(content: Hash, like: &str) -> DocumentName {
        let document = Hash::of(format!("{} {like}", packed::encoder_name()).as_bytes());
        DocumentName { content: Some(content), document: document.to_string().chars().take(32).collect() }
    }

    /// The parcel whose bytes have this hash.
    pub(crate) fn of_parcel(bytes: &Hash) -> DocumentName {
        DocumentName { content: None, document: bytes.to_string().chars().take(PARCEL_DIGITS).collect() }
    }
}

/// A document that is being received.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// The tag that names its bytes.
    pub(crate) tag: String,
    /// The bytes.
    pub(crate) body: BodyReader,
}

impl Api {
    fn upload_path(&self, name: &DocumentName) -> String {
        match &name.content {
            Some(content) => self.path(&format!("/uploads/{content}/{}", name.document)),
            None => self.path(&format!("/uploads/{}", name.document)),
        }
    }

    /// How far an upload is; `None` if the server has none of it.
    pub(crate) async fn upload_offset(&mut self, name: &DocumentName) -> Result<Option<u64>, ClientError> {
        let path = self.upload_path(name);
        let asked = self.transport.send(Method::HEAD, &path, &[], RequestBody::bytes("")).await;
        let response = match asked {
            Err(ClientError::Problem { status: 404 | 405, .. }) => return Ok(None),
            response => response?,
        };
        let offset = response.headers.get(UPLOAD_OFFSET).and_then(|value| value.to_str().ok()?.parse().ok());
        offset.map(Some).ok_or(ClientError::Protocol { detail: "the server told no offset of an upload".to_owned() })
    }

    /// Sends an upload to its end: from its beginning, or from `offset` on.
    pub(crate) async fn upload(
        &mut self,
        name: &DocumentName,
        offset: Option<u64>,
        body: RequestBody,
    ) -> Result<(), ClientError> {
        let path = self.upload_path(name);
        let text = offset.map(|offset| offset.to_string());
        // What begins and ends in one request need not say so.
        let mut headers = Vec::new();
        if let Some(text) = &text {
            headers.push((UPLOAD_COMPLETE, "?1"));
            headers.push((UPLOAD_OFFSET, text));
            headers.push((header::CONTENT_TYPE, "application/partial-upload"));
        }
        let method = if offset.is_some() { Method::PATCH } else { Method::POST };
        let mut response = self.transport.send(method, &path, &headers, body).await?;
        response.body.all(MAX_JSON).await.map(|_| ())
    }

    /// Drops an upload; one that is not there is fine.
    pub(crate) async fn drop_upload(&mut self, name: &DocumentName) -> Result<(), ClientError> {
        let path = self.upload_path(name);
        match self.transport.send(Method::DELETE, &path, &[], RequestBody::bytes("")).await {
            Err(ClientError::Problem { status: 404 | 405, .. }) => Ok(()),
            dropped => dropped?.body.all(MAX_JSON).await.map(|_| ()),
        }
    }

    /// Sends documents, each at most 64 KiB; gives the contents that the server could not make of them. `None`: it takes no
    /// documents.
    pub(crate) async fn put_documents(
        &mut self,
        documents: &[(Hash, Vec<u8>)],
    ) -> Result<Option<Vec<Hash>>, ClientError> {
        let path = self.path("/documents");
        match self.post_packed(&path, documents_body(documents)).await {
            Ok((mut response, _)) => decode(&response.body.all(MAX_JSON).await?).map(Some),
            Err(ClientError::Problem { status: 404 | 405, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Which of these chunks the server has; none if it knows no chunks.
    pub(crate) async fn known_chunks(&mut self, hashes: &[Hash]) -> Result<BTreeSet<Hash>, ClientError> {
        let path = self.path("/chunks:known");
        let mut known = BTreeSet::new();
        for hashes in hashes.chunks(CHUNKS_AT_ONCE) {
            let body: Vec<u8> = hashes.iter().flat_map(|hash| hash.as_bytes()[..8].to_vec()).collect();
            let asked = self.transport.send(Method::POST, &path, &[], RequestBody::bytes(body)).await;
            let mut response = match asked {
                Err(ClientError::Problem { status: 404 | 405, .. }) => return Ok(known),
                response => response?,
            };
            let bits = response.body.all(MAX_JSON).await?;
            let is_known = |at: usize| bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
            known.extend(hashes.iter().enumerate().filter(|(at, _)| is_known(*at)).map(|(_, hash)| *hash));
        }
        Ok(known)
    }

    /// Fetches the documents of small contents with these bases in one request; those that were left out must be fetched
    /// otherwise. What comes is not verified.
    pub(crate) async fn fetch_documents(
        &mut self,
        wanted: &[(Hash, Hash)],
    ) -> Result<Vec<(Hash, Vec<u8>)>, ClientError> {
        let path = self.path("/documents:fetch");
        let headers = [(header::ACCEPT_ENCODING, "zstd")];
        let body = RequestBody::bytes(codec::encode(&wanted));
        let mut response = match self.transport.send(Method::POST, &path, &headers, body).await {
            Err(ClientError::Problem { status: 404 | 405, .. }) => return Ok(Vec::new()),
            response => response?,
        };
        let mut found = Vec::new();
        while let Some(item) = response.body.item().await? {
            let (hash, document): (Hash, ByteVec) = decode(&item)?;
            found.push((hash, document.into()));
        }
        Ok(found)
    }

    /// Asks for the document of a content, from a byte on; `tag` must be that of the bytes before. `None`: the server does
    /// not give it, or it would be another.
    pub(crate) async fn document(
        &mut self,
        content: &Hash,
        base: Option<&Hash>,
        from: u64,
        tag: Option<&str>,
    ) -> Result<Option<Incoming>, ClientError> {
        let base = base.map(|base| format!("base={base}"));
        let from = (from > 0).then(|| format!("from={from}"));
        let query: Vec<String> = base.into_iter().chain(from).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let path = self.path(&format!("/blobs/{content}/document{mark}{}", query.join("&")));
        let headers: Vec<(HeaderName, &str)> = tag.into_iter().map(|tag| (header::IF_MATCH, tag)).collect();
        let response = match self.transport.send(Method::GET, &path, &headers, RequestBody::bytes("")).await {
            Err(ClientError::Problem { status: 404 | 405 | 412, .. }) => return Ok(None),
            response => response?,
        };
        let tag = response.headers.get(header::ETAG).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Ok(Some(Incoming { tag: tag.to_owned(), body: response.body }))
    }
}

/// The body of a request of documents.
pub(crate) fn documents_body(documents: &[(Hash, Vec<u8>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (hash, document) in documents {
        body.extend(codec::encode(&(hash, <&ByteSlice>::from(document.as_slice()))));
    }
    body
}
