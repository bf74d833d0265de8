//! Telling the server, once, what this client is called.

use super::Sync;
use crate::ClientError;

/// What the server was told last: client id and name.
const ANNOUNCED: &str = "net.announced";

impl Sync<'_> {
    /// Tells the server this client's name before the first entry ships under it: not with each entry, since bytes matter.
    pub(super) async fn announce(&mut self) -> Result<(), ClientError> {
        let (client, name) = (self.copy.client()?, self.copy.client_name()?);
        let announced = format!("{client} {name}");
        if self.copy.setting(ANNOUNCED)?.as_deref() == Some(announced.as_str()) || self.copy.pending()?.is_empty() {
            return Ok(());
        }
        match self.api.name_client(&client, &name).await {
            Ok(author) => self.copy.set_author_name(&author)?,
            // A server that knows no names: entries ship without one. Who may not write learns that from shipping.
            Err(ClientError::Problem { status: 404 | 405, .. }) => {}
            Err(ClientError::Problem { status: 403, .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.copy.set_setting(ANNOUNCED, &announced)
    }
}
