//! Telling the server, once, what this client is called.

use super::Sync;
use crate::log::{LogEntry, Traffic};
use crate::net::{Answers, Api};
use crate::{ClientError, WorkingCopy};
use opship_record::entry::ClientId;

/// What the server was told last: client id and name.
const ANNOUNCED: &str = "net.announced";

impl Sync<'_> {
    /// Sends a request of entries. The first of this client's tells the server its name, and no other does, since bytes
    /// matter.
    pub(super) async fn ship_named(
        &mut self,
        batch: &[(LogEntry, Traffic, u64)],
        request: Vec<u8>,
    ) -> Result<Answers, ClientError> {
        let (client, name) = (self.copy.client()?, self.copy.client_name()?);
        let announced = announced(&client, &name);
        let is_known = self.copy.setting(ANNOUNCED)?.as_deref() == Some(announced.as_str());
        if is_known || batch.iter().any(|(entry, ..)| entry.client != client) {
            return self.api.ship(request).await;
        }
        let answers = self.api.ship_as(&name, request).await?;
        match answers.author() {
            Some(author) => {
                self.copy.set_author_name(author)?;
                self.copy.set_setting(ANNOUNCED, &announced)?;
            }
            None => self.unannounced = true,
        }
        Ok(answers)
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
