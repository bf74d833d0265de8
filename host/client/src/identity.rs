//! Whose log this is, and whether the folder is the one that it was.
//!
//! A client id belongs to one folder on one disk: the id is stored with inode and birth time of `.opship/identity`. A
//! moved folder keeps both; in a copy they differ, and two working copies must not ship under one id.

use crate::ClientError;
use crate::db::{self, meta, set_meta};
use crate::working_copy::{Shared, WorkingCopy};
use opship_record::entry::ClientId;
use rusqlite::Connection;
use rustix::fs::{AtFlags, OFlags, StatxFlags};

/// Namespace for the functions around the identity.
pub(crate) struct Identity;

impl Identity {
    /// Makes the identity of a new working copy; notices a copied one and marks it as forked.
    pub(crate) fn check(shared: &Shared) -> Result<(), ClientError> {
        let mark = file_mark(shared)?;
        shared.db.write(|db| {
            let known: Option<String> = meta(db, "identity")?;
            match known {
                None => {
                    set_meta(db, "client", random_id()?.as_bytes())?;
                    set_meta(db, "identity", &mark)?;
                }
                Some(known) if known != mark => set_meta(db, "forked", true)?,
                Some(_) => {}
            }
            Ok(())
        })
    }

    /// The client id.
    pub(crate) fn client(db: &Connection) -> Result<ClientId, ClientError> {
        let id: Option<[u8; 16]> = meta(db, "client")?;
        let missing = || ClientError::Damaged { file: ".opship/state.db".into(), detail: "no client id".to_owned() };
        id.map(ClientId::from_bytes).ok_or_else(missing)
    }
}

impl WorkingCopy {
    /// Is this folder a copy of another working copy? Then nothing may be shipped before
    /// [`WorkingCopy::move_to_new_client`].
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn is_forked(&self) -> Result<bool, ClientError> {
        Ok(meta(&self.shared.db.read(), "forked")?.unwrap_or(false))
    }

    /// Notes that the server holds other entries under this client's id.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn set_forked(&self) -> Result<(), ClientError> {
        Ok(set_meta(&self.shared.db.read(), "forked", true)?)
    }

    /// Gives the working copy a new random client id. The entries `moved`, by number, are shipped under it, from
    /// sequence 1 on in their order; all others stay under the old one. Ends being forked.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::Io`].
    pub fn move_to_new_client(&self, moved: &[u64]) -> Result<ClientId, ClientError> {
        let _lock = self.lock()?;
        let (mark, id) = (file_mark(&self.shared)?, random_id()?);
        self.shared.db.write(|db| {
            set_meta(db, "client", id.as_bytes())?;
            set_meta(db, "identity", &mark)?;
            set_meta(db, "forked", false)?;
            db::log::move_to_client(db, &id, moved)?;
            Ok::<_, ClientError>(())
        })?;
        Ok(id)
    }
}

fn random_id() -> Result<ClientId, ClientError> {
    let mut bytes = [0; 16];
    let filled = getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()));
    filled.map_err(ClientError::io("asking for random bytes"))?;
    Ok(ClientId::from_bytes(bytes))
}

/// What stays when the folder is moved and differs in a copy.
fn file_mark(shared: &Shared) -> Result<String, ClientError> {
    let mark = || -> std::io::Result<String> {
        let file = shared.root.open_at(".opship/identity", OFlags::RDWR | OFlags::CREATE, 0o600)?;
        let found = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME | StatxFlags::INO)?;
        Ok(format!("{}.{}.{}", found.stx_ino, found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
    };
    mark().map_err(ClientError::io("reading '.opship/identity'"))
}
