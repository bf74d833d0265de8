//! Making working copies: `init` and `clone`.

use super::announce::announce_to;
use super::{Progress, Sync, SyncReport, UNSEEN};
use crate::budget::{LinkChoice, link_to};
use crate::fs::OPSHIP;
use crate::modules::ModuleBook;
use crate::net::{Api, ServerUrl, token_for};
use crate::{ClientError, WorkingCopy};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
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
    /// [`ClientError::AlreadyWorkingCopy`], [`ClientError::Refused`], [`ClientError::Io`].
    pub(crate) fn check_folder(folder: &Path) -> Result<(), ClientError> {
        if folder.join(OPSHIP).join("state.db").exists() {
            return Err(ClientError::AlreadyWorkingCopy(folder.to_owned()));
        }
        if is_free(folder)? {
            return Ok(());
        }
        let shown = folder.display();
        Err(ClientError::Refused(format!("'{shown}' is not empty; name a new folder, or use 'opship init' there")))
    }
}

/// Who makes a working copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Newcomer<'a> {
    /// What others see this client called, if not the host's name.
    pub name: Option<&'a str>,
    /// The token to use, if not the one at hand: what joining gave.
    pub token: Option<&'a str>,
}

/// A folder that is there and can be written.
#[derive(Debug)]
pub struct Prepared {
    /// Those that were made for it, the deepest first.
    made: Vec<PathBuf>,
}

/// Makes the folder that is to become a working copy, where it is not there, and sees that it can be written: before
/// something is spent for it that comes only once.
///
/// # Errors
/// [`ClientError::Io`]: nothing is made.
pub fn prepare(folder: &Path) -> Result<Prepared, ClientError> {
    let folder = std::path::absolute(folder).map_err(ClientError::io("finding the folder"))?;
    let missing = folder.ancestors().take_while(|above| above.symlink_metadata().is_err());
    let prepared = Prepared { made: missing.map(Path::to_path_buf).collect() };
    let made =
        fs::create_dir_all(&folder).map_err(ClientError::io(format!("making the folder '{}'", folder.display())));
    let tried = made.and_then(|()| {
        let tried = tempfile::tempfile_in(&folder);
        tried.map(drop).map_err(ClientError::io(format!("writing into '{}'", folder.display())))
    });
    match tried {
        Ok(()) => Ok(prepared),
        Err(error) => {
            prepared.undo();
            Err(error)
        }
    }
}

impl Prepared {
    /// Removes what was made, as far as nothing is in it.
    pub fn undo(self) {
        for folder in self.made {
            // One that is not empty is somebody's.
            let _ = fs::remove_dir(folder);
        }
    }
}

fn api_of(source: &Source, who: &Newcomer<'_>) -> Result<Api, ClientError> {
    let token = match who.token {
        Some(token) => token.to_owned(),
        None => token_for(&source.server, &source.workspace)?,
    };
    let link = link_to(&source.server, &LinkChoice::default())?;
    Ok(Api::new(source.server.clone(), token, &source.workspace).over(link))
}

/// Makes `folder` a working copy of the workspace, which is made if the server has none of that name. `true`: it was.
///
/// # Errors
/// [`ClientError`]: the folder is as before.
pub async fn init(folder: &Path, source: &Source, who: &Newcomer<'_>) -> Result<(WorkingCopy, bool), ClientError> {
    let mut api = api_of(source, who)?;
    let made = match api.workspace().await {
        Ok(_) => false,
        Err(ClientError::Problem { status: 404, .. }) => api.create_workspace().await?,
        Err(error) => return Err(error),
    };
    let copy = WorkingCopy::create(folder, &source.server.to_string(), &source.workspace)?;
    copy.set_client_name(who.name)?;
    if made {
        copy.set_setting(UNSEEN, "1")?;
    }
    announce_to(&mut api, &copy).await?;
    Ok((copy, made))
}

/// Gets a workspace into a folder that is new or empty. After a failure what came stays, and `opship sync` in the folder goes
/// on.
///
/// # Errors
/// [`ClientError`] from the network, the server or the disk.
pub async fn clone(
    folder: &Path,
    source: &Source,
    who: &Newcomer<'_>,
    standard: &'static [(&'static str, &'static [u8])],
    progress: &dyn Progress,
) -> Result<SyncReport, ClientError> {
    let mut api = api_of(source, who)?;
    api.workspace().await?;
    Source::check_folder(folder)?;
    let copy = WorkingCopy::create(folder, &source.server.to_string(), &source.workspace)?;
    copy.set_client_name(who.name)?;
    let mut book = ModuleBook::open(&copy.own_folder(), standard)?;
    let sync = Sync::new(&copy, &mut book, progress)?;
    match who.token {
        Some(token) => sync.with_token(token).run().await,
        None => sync.run().await,
    }
}

/// Is there no folder, or nothing in it but the `.opship` of a clone that was killed before it was one?
///
/// # Errors
/// [`ClientError::Io`].
pub fn is_free(folder: &Path) -> Result<bool, ClientError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == OPSHIP))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(ClientError::io(format!("looking into '{}'", folder.display()))(error)),
    }
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
