//! Calls around people: invites, and names of clients.

use super::api::{MAX_JSON, percent};
use super::transport::Transport;
use super::{Api, RequestBody};
use crate::budget::{LinkChoice, link_to};
use crate::{ClientError, InviteLine};
use http::{Method, header};
use opship_record::entry::ClientId;
use opship_record::{TreePath, token};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How often a request is sent again whose reply was lost.
const TRIES: u32 = 3;

/// An invite that was just made, with the secret, which the server does not keep.
#[derive(Debug, Clone, Deserialize)]
pub struct NewInvite {
    /// Its number.
    pub id: i64,
    /// The secret.
    pub secret: String,
    /// Until when it may be used, in milliseconds since 1970.
    pub expires: u64,
    /// Does the server listen on this machine only, or encrypt what travels?
    #[serde(default)]
    pub encrypted: bool,
}

/// An invite in a listing.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct InviteInfo {
    /// Its number.
    pub id: i64,
    /// The name of whoever uses it.
    pub name: String,
    /// The role that it gives: `read`, `write` or `admin`.
    pub role: String,
    /// Who made it.
    pub invited_by: String,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
    /// Until when it may be used, in milliseconds since 1970.
    pub expires: u64,
    /// When it was used, in milliseconds since 1970.
    pub used: Option<u64>,
    /// `open`, `used`, `expired` or `revoked`.
    pub state: String,
}

/// The version that brought a path to what it is at the head.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct OriginInfo {
    /// The version's number.
    pub number: u64,
    /// When it was made, in milliseconds since 1970.
    pub time: u64,
    /// Who made it.
    pub author_name: Option<String>,
    /// What its client is called.
    pub client_name: Option<String>,
}

/// What joining gave.
#[derive(Debug, Clone, Deserialize)]
pub struct Joined {
    /// The name that the server knows the joining person by.
    pub name: String,
    /// The role in the workspace.
    pub role: String,
}

/// Uses an invite. Gives the token besides; keeping it is the caller's.
///
/// # Errors
/// [`ClientError::Problem`] if the invite is not valid, [`ClientError`] from the network.
pub async fn join(line: &InviteLine) -> Result<(Joined, String), ClientError> {
    let token = random_token()?;
    let body = json!({ "workspace": line.source.workspace, "secret": line.secret(), "token": token }).to_string();
    let link = link_to(&line.source.server, &LinkChoice::default())?;
    let mut transport = Transport::new(line.source.server.clone(), String::new()).over(link);
    let headers = [(header::CONTENT_TYPE, "application/json")];
    let mut tried = 0;
    loop {
        // With the same token the same answer comes again, so that a lost reply does not cost the invite.
        let sent = transport.send(Method::POST, "/v1/join", &headers, RequestBody::bytes(body.clone())).await;
        let answered = match sent {
            Ok(mut response) => response.body.all(MAX_JSON).await,
            Err(error) => Err(error),
        };
        tried += 1;
        match answered {
            Ok(bytes) => return Ok((read(&bytes)?, token)),
            Err(ClientError::Connection { .. }) if tried < TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

fn random_token() -> Result<String, ClientError> {
    let mut bytes = [0; token::RANDOM_BYTES];
    let filled = getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()));
    filled.map_err(ClientError::io("asking for random bytes"))?;
    Ok(token::from_random(&bytes))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(bytes).map_err(|error| ClientError::Protocol { detail: error.to_string() })
}

impl Api {
    /// Makes an invite for `name` with `role`, valid for `expires` seconds.
    ///
    /// # Errors
    /// [`ClientError`] from the network or the server; the same holds for all calls below.
    pub async fn create_invite(&mut self, name: &str, role: &str, expires: u64) -> Result<NewInvite, ClientError> {
        let path = self.path("/invites");
        let body = json!({ "name": name, "role": role, "expires": expires });
        read(&self.send_json(Method::POST, &path, &body).await?)
    }

    /// The workspace's invites, newest first.
    pub async fn invites(&mut self) -> Result<Vec<InviteInfo>, ClientError> {
        #[derive(Deserialize)]
        struct Invites {
            invites: Vec<InviteInfo>,
        }
        let path = self.path("/invites");
        Ok(self.get_json::<Invites>(&path).await?.invites)
    }

    /// Voids an invite, and the token that it gave. `true`: there was such a token.
    pub async fn revoke_invite(&mut self, id: i64) -> Result<bool, ClientError> {
        #[derive(Deserialize)]
        struct Revoked {
            token_revoked: bool,
        }
        let path = self.path(&format!("/invites/{id}"));
        let mut response = self.transport.send(Method::DELETE, &path, &[], RequestBody::bytes("")).await?;
        Ok(read::<Revoked>(&response.body.all(MAX_JSON).await?)?.token_revoked)
    }

    /// Who brought a path to what it is at the head; `None` if the server cannot tell.
    pub async fn origin(&mut self, path: &TreePath) -> Result<Option<OriginInfo>, ClientError> {
        let path = self.path(&format!("/origins/{}", percent(path.as_str())));
        match self.get_json(&path).await {
            Ok(origin) => Ok(Some(origin)),
            Err(ClientError::Problem { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells the server what a client is called. Gives the name that the server knows the person by.
    pub async fn name_client(&mut self, client: &ClientId, name: &str) -> Result<String, ClientError> {
        #[derive(Deserialize)]
        struct Named {
            author_name: String,
        }
        let path = self.path(&format!("/clients/{client}"));
        Ok(read::<Named>(&self.send_json(Method::PUT, &path, &json!({ "name": name })).await?)?.author_name)
    }
}
