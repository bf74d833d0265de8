//! The calls of the server's API that its administrators make.

use super::body::RequestBody;
use super::silence::WORK;
use super::transport::Transport;
use super::{ServerUrl, admin_token_for};
use crate::ClientError;
use crate::budget::{LinkChoice, link_to};
use bytes::BytesMut;
use http::{Method, header};
use serde_json::Value;

/// Longest answer, or line of one, in bytes.
const LONGEST: usize = 64 << 20;

/// Typed calls for administrators.
#[derive(Debug)]
pub struct Admin {
    transport: Transport,
}

/// Hears how far the server has come: what it does, how much is done, and of how much (0: unknown).
pub type OnServerProgress<'a> = dyn FnMut(&str, u64, u64) + 'a;

impl Admin {
    /// The API of `server`, with the token at hand for it.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] without a token; [`ClientError::Config`] if the user's configuration cannot be understood.
    pub fn new(server: ServerUrl) -> Result<Admin, ClientError> {
        let token = admin_token_for(&server, None)?;
        let link = link_to(&server, &LinkChoice::default())?;
        let mut transport = Transport::new(server, token).over(link);
        transport.bear(WORK);
        Ok(Admin { transport })
    }

    /// A JSON answer.
    ///
    /// # Errors
    /// [`ClientError`] from the network or the server; the same holds for the calls below.
    pub async fn get(&mut self, path: &str) -> Result<Value, ClientError> {
        let mut response = self.transport.send(Method::GET, path, &[], RequestBody::bytes("")).await?;
        parse(&response.body.all(LONGEST).await?)
    }

    /// Changes settings of a workspace; gives all of them.
    pub async fn change_settings(
        &mut self,
        workspace: &str,
        settings: &[(String, String)],
    ) -> Result<Value, ClientError> {
        let settings: serde_json::Map<String, Value> =
            settings.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
        let body = serde_json::json!({ "settings": settings }).to_string();
        let headers = [(header::CONTENT_TYPE, "application/json")];
        let path = format!("/v1/workspaces/{workspace}");
        let mut response = self.transport.send(Method::PATCH, &path, &headers, RequestBody::bytes(body)).await?;
        parse(&response.body.all(LONGEST).await?)
    }

    /// Has the server do work that takes a while; gives its report.
    pub async fn work(
        &mut self,
        path: &str,
        options: &Value,
        progress: &mut OnServerProgress<'_>,
    ) -> Result<Value, ClientError> {
        let headers = [(header::CONTENT_TYPE, "application/json")];
        let body = RequestBody::bytes(options.to_string());
        let mut response = self.transport.send(Method::POST, path, &headers, body).await?;
        let mut lines = BytesMut::new();
        while let Some(piece) = response.body.piece().await? {
            lines.extend_from_slice(&piece);
            while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
                let line = parse(&lines.split_to(end + 1))?;
                if let Some(report) = line.get("report") {
                    return Ok(report.clone());
                }
                if let Some(problem) = line.get("problem") {
                    let text = |key: &str| problem.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                    let status = problem.get("status").and_then(Value::as_u64).unwrap_or(500);
                    let status = u16::try_from(status).unwrap_or(500);
                    let kind = text("type").rsplit(':').next().unwrap_or_default().to_owned();
                    return Err(ClientError::Problem { status, kind, detail: text("detail") });
                }
                let number = |key: &str| line.get(key).and_then(Value::as_u64).unwrap_or(0);
                progress(line.get("step").and_then(Value::as_str).unwrap_or_default(), number("done"), number("total"));
            }
            if lines.len() > LONGEST {
                return Err(ClientError::Protocol { detail: "a line of the response is too long".to_owned() });
            }
        }
        Err(ClientError::Connection { detail: "the server did not finish; ask again".to_owned() })
    }
}

fn parse(bytes: &[u8]) -> Result<Value, ClientError> {
    serde_json::from_slice(bytes).map_err(|error| ClientError::Protocol { detail: error.to_string() })
}
