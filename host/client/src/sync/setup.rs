//! Making working copies: `init` and `clone`.

use super::announce::announce_to;
use super::{Progress, Sync, SyncReport, UNSEEN};
use crate::budget::{LinkChoice, link_to};
use crate::modules::ModuleBook;
use crate::net::{Api, ServerUrl, token_for};
use crate::{ClientError, WorkingCopy};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

/// A workspace on a server, written `http://host:port/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The server.
    pub server: ServerUrl,
    /// The workspace's name.
    pub workspace: String,
}

impl Source {
    /// Checks the name as the server will: a to z, 0 to 9, `.`, `_` and `-`, at most 63, a letter or digit first.
    ///
    /// # Errors
    /// [`ClientError::Refused`].
    pub fn new(server: ServerUrl, workspace: &str) -> Result<Source, ClientError> {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        let first = workspace.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !first || workspace.len() > 63 || !workspace.chars().all(valid) {
            return Err(ClientError::Refused(format!(
                "'{workspace}' cannot name a workspace: use a to z, 0 to 9, '.', '_' and '-', a letter or digit first, at most 63"
            )));
        }
        Ok(Source { server, workspace: workspace.to_owned() })
    }
}

impl FromStr for Source {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Source, ClientError> {
        let refused = || ClientError::Refused(format!("'{text}' names no workspace: write http://host:port/NAME"));
        let (server, workspace) = text.trim_end_matches('/').rsplit_once('/').ok_or_else(refused)?;
        if workspace.is_empty() || server.ends_with('/') {
            return Err(refused());
        }
        Source::new(server.parse()?, workspace)
    }
}

impl Source {
    /// Is a folder new or empty, so that a workspace can be brought into it?
    ///
    /// # Errors
    /// [`ClientError::Refused`], [`ClientError::Io`].
    pub(crate) fn check_folder(folder: &Path) -> Result<(), ClientError> {
        match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let shown = folder.display();
                Err(ClientError::Refused(format!(
                    "'{shown}' is not empty; name a new folder, or use 'opship init' there"
                )))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(ClientError::io(format!("looking into '{}'", folder.display()))(error)),
        }
    }
}

fn api_of(source: &Source) -> Result<Api, ClientError> {
    let token = token_for(&source.server, &source.workspace)?;
    let link = link_to(&source.server, &LinkChoice::default())?;
    Ok(Api::new(source.server.clone(), token, &source.workspace).over(link))
}

/// Makes `folder` a working copy of the workspace, which is made if the server has none of that name. `true`: it was.
/// `name`: what others see this client called, if not the host's name.
///
/// # Errors
/// [`ClientError`]: the folder is as before.
pub async fn init(folder: &Path, source: &Source, name: Option<&str>) -> Result<(WorkingCopy, bool), ClientError> {
    let mut api = api_of(source)?;
    let made = match api.workspace().await {
        Ok(_) => false,
        Err(ClientError::Problem { status: 404, .. }) => api.create_workspace().await?,
        Err(error) => return Err(error),
    };
    let copy = WorkingCopy::create(folder, &source.server.to_string(), &source.workspace)?;
    copy.set_client_name(name)?;
    if made {
        copy.set_setting(UNSEEN, "1")?;
    }
    announce_to(&mut api, &copy).await?;
    Ok((copy, made))
}

/// Gets a workspace into a folder that is new or empty. After a failure what came stays, and `opship sync` in the folder goes
/// on; only if nothing came is the folder removed again. `name`: as for [`init`].
///
/// # Errors
/// [`ClientError`] from the network, the server or the disk.
pub async fn clone(
    folder: &Path,
    source: &Source,
    name: Option<&str>,
    standard: &'static [(&'static str, &'static [u8])],
    progress: &dyn Progress,
) -> Result<SyncReport, ClientError> {
    let mut api = api_of(source)?;
    api.workspace().await?;
    Source::check_folder(folder)?;
    let copy = WorkingCopy::create(folder, &source.server.to_string(), &source.workspace)?;
    copy.set_client_name(name)?;
    let mut book = ModuleBook::open(&copy.own_folder(), standard)?;
    Sync::new(&copy, &mut book, progress)?.run().await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_source_is_a_server_and_a_name() {
        let source: Source = "http://127.0.0.1:7420/notes".parse().unwrap();
        assert_eq!((source.server.to_string().as_str(), source.workspace.as_str()), ("http://127.0.0.1:7420", "notes"));
        for bad in ["notes", "http://127.0.0.1:7420", "http://127.0.0.1:7420/", "http:///notes", "https://x/notes"] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }
}
