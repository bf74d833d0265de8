//! Errors as clients see them: problem details (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use opship_record::Hash;
use opship_storage::StorageError;
use serde_json::{Map, Value, json};

/// A refusal or failure of one request. The detail says what to do next.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// Last part of the type's URN.
    name: &'static str,
    status: StatusCode,
    detail: String,
    more: Map<String, Value>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, name: &'static str, detail: impl Into<String>) -> Problem {
        Problem { name, status, detail: detail.into(), more: Map::new() }
    }

    /// 400: what was sent is not what it must look like.
    pub(crate) fn malformed(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "malformed", detail)
    }

    /// 404, the same for what does not exist and for what the principal may not see.
    pub(crate) fn not_found(what: &str, name: &str) -> Problem {
        let name: String = name.chars().take(200).collect();
        let detail = format!("{what} '{name}' does not exist or is not visible to you; check the name and your access");
        Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// 413.
    pub(crate) fn too_large(what: &str, limit: u64) -> Problem {
        let detail = format!("{what} is over the limit of {limit} bytes; send less at once");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    /// 500: the cause goes to the log, not to the client.
    pub(crate) fn internal(cause: &dyn std::fmt::Display) -> Problem {
        tracing::error!(%cause, "request failed");
        let detail = "the server could not do this; its log says why. Try again, then ask its operator";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// 507 if the disk is full, else 500.
    pub(crate) fn disk(error: &std::io::Error) -> Problem {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        if !matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
            return Problem::internal(error);
        }
        tracing::error!(cause = %error, "disk full");
        let detail = "the server's disk is full; nothing was lost. Ask its operator to free space, then try again";
        Problem::new(StatusCode::INSUFFICIENT_STORAGE, "disk-full", detail)
    }

    /// Adds a member beside the standard ones.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Problem {
        self.more.insert(key.to_owned(), value);
        self
    }

    /// Is what was sent at fault, so that sending it again is of no use?
    pub(crate) fn is_refusal(&self) -> bool {
        self.status.is_client_error()
    }

    /// What happened and what to do next.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The problem details.
    pub(crate) fn as_json(&self) -> Value {
        let mut members = self.more.clone();
        members.insert("type".to_owned(), json!(format!("urn:opship:problem:{}", self.name)));
        members.insert("title".to_owned(), json!(self.name.replace('-', " ")));
        members.insert("status".to_owned(), json!(self.status.as_u16()));
        members.insert("detail".to_owned(), json!(self.detail));
        Value::Object(members)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.as_json().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StorageError> for Problem {
    fn from(error: StorageError) -> Problem {
        let text = error.to_string();
        let problem = |status, name| Problem::new(status, name, text.clone());
        match error {
            StorageError::NotFound { what, name } => Problem::not_found(what, &name),
            StorageError::Forbidden { .. } | StorageError::AdminOnly => problem(StatusCode::FORBIDDEN, "forbidden"),
            StorageError::Exists { .. } => problem(StatusCode::CONFLICT, "exists"),
            StorageError::Invite => problem(StatusCode::FORBIDDEN, "invite"),
            StorageError::Name { .. } => problem(StatusCode::UNPROCESSABLE_ENTITY, "name"),
            StorageError::Setting { .. } => problem(StatusCode::UNPROCESSABLE_ENTITY, "setting"),
            StorageError::Forgotten { .. } => problem(StatusCode::GONE, "forgotten"),
            StorageError::Busy => problem(StatusCode::CONFLICT, "busy"),
            StorageError::WrongHash { .. } => problem(StatusCode::UNPROCESSABLE_ENTITY, "hash-mismatch"),
            StorageError::TooLong { .. } => problem(StatusCode::PAYLOAD_TOO_LARGE, "too-large"),
            StorageError::Upload(_) => problem(StatusCode::BAD_REQUEST, "upload"),
            StorageError::Incomplete { blobs, nodes } => {
                let missing: Vec<String> = nodes.iter().chain(&blobs).map(Hash::to_string).collect();
                problem(StatusCode::CONFLICT, "tree-incomplete").with("missing", json!(missing))
            }
            StorageError::Unfit { .. } => problem(StatusCode::UNPROCESSABLE_ENTITY, "unfit"),
            StorageError::DiskFull { .. } => Problem::disk(&std::io::ErrorKind::StorageFull.into()),
            StorageError::Closed => problem(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            other => Problem::internal(&other),
        }
    }
}

impl From<opship_record::Error> for Problem {
    fn from(error: opship_record::Error) -> Problem {
        Problem::malformed(error.to_string())
    }
}

impl From<opship_record::PathError> for Problem {
    fn from(error: opship_record::PathError) -> Problem {
        Problem::malformed(error.to_string())
    }
}
