//! Telling the server, once, what this client is called.

use super::Sync;
use super::under_way::Sent;
use crate::net::Api;
use crate::{ClientError, WorkingCopy};
use opship_record::entry::ClientId;

/// What the server was told last: client id and name.
const ANNOUNCED: &str = "net.announced";

impl Sync<'_> {
    /// The name that goes with a request of entries. The first of this client's tells the server its name, and no other
    /// does, since bytes matter.
    pub(super) fn name_to_tell(&self, sent: &[Sent]) -> Result<Option<String>, ClientError> {
        let (client, name) = (self.copy.client()?, self.copy.client_name()?);
        let announced = announced(&client, &name);
        let is_known = self.copy.setting(ANNOUNCED)?.as_deref() == Some(announced.as_str());
        let is_others = sent.iter().any(|sent| sent.entry.client != client);
        Ok((!is_known && !is_others).then_some(name))
    }

    /// A request that told this name was taken; `author`: what the server calls the user, if it took note.
    pub(super) fn note_told(&mut self, name: &str, author: Option<&str>) -> Result<(), ClientError> {
        let Some(author) = author else {
            self.unannounced = true;
            return Ok(());
        };
        self.copy.set_author_name(author)?;
        self.copy.set_setting(ANNOUNCED, &announced(&self.copy.client()?, name))
    }

    /// Tells a server that took no note of this client's name with its entries.
    pub(super) async fn announce(&mut self) -> Result<(), ClientError> {
        match std::mem::take(&mut self.unannounced) {
            true => announce_to(&mut self.api, self.copy).await,
            false => Ok(()),
        }
    }
}

/// Tells a server this client's name.
pub(super) async fn announce_to(api: &mut Api, copy: &WorkingCopy) -> Result<(), ClientError> {
    let (client, name) = (copy.client()?, copy.client_name()?);
    match api.name_client(&client, &name).await {
        Ok(author) => copy.set_author_name(&author)?,
        // A server that knows no names: entries ship without one.
        Err(ClientError::Problem { status: 404 | 405, .. }) => {}
        // Who may not write ships nothing, and has no need of a name.
        Err(ClientError::Problem { status: 403, .. }) => return Ok(()),
        Err(error) => return Err(error),
    }
    copy.set_setting(ANNOUNCED, &announced(&client, &name))
}

fn announced(client: &ClientId, name: &str) -> String {
    format!("{client} {name}")
}
