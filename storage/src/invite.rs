//! Invites, and who made what.

use crate::{Role, StorageError};

/// Longest name of a client, in characters.
const MAX_CLIENT_NAME: usize = 64;

/// An invite as its workspace's administrators see it. The secret is stored nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invite {
    /// Its number.
    pub id: i64,
    /// The name of the principal that uses it.
    pub name: String,
    /// The role that it gives.
    pub role: Role,
    /// Name of the principal who made it.
    pub invited_by: String,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
    /// Until when it may be used, in milliseconds since 1970.
    pub expires: u64,
    /// When it was used, in milliseconds since 1970.
    pub used: Option<u64>,
    /// Where it stands.
    pub state: InviteState,
}

/// Where an invite stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteState {
    /// It can be used once.
    Open,
    /// It was used.
    Used,
    /// Its time is over.
    Expired,
    /// It was revoked, and with it the token that it gave.
    Revoked,
}

impl InviteState {
    /// The word for people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            InviteState::Open => "open",
            InviteState::Used => "used",
            InviteState::Expired => "expired",
            InviteState::Revoked => "revoked",
        }
    }
}

/// What using an invite gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invited {
    /// Name of the principal that the token belongs to.
    pub name: String,
    /// The role in the workspace.
    pub role: Role,
}

/// Who made an entry, and on which of their clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Name of the principal.
    pub principal: String,
    /// What the principal calls the client.
    pub client: Option<String>,
}

/// Checks what somebody calls a client: free text that fits on a line.
pub(crate) fn check_client_name(name: &str) -> Result<(), StorageError> {
    let good = !name.trim().is_empty()
        && name.trim() == name
        && name.chars().count() <= MAX_CLIENT_NAME
        && !name.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c));
    if good {
        return Ok(());
    }
    let detail = "use 1 to 64 characters that can be printed on a line";
    Err(StorageError::Name { what: "client", name: name.chars().take(80).collect(), detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_name_fits_on_a_line_and_cannot_steer_a_terminal() {
        for good in ["laptop", "Eva's büro 2", &"ä".repeat(64)] {
            assert!(check_client_name(good).is_ok(), "{good}");
        }
        for bad in ["", " ", " a", "a\nb", "\u{1b}[31m", "a\u{202e}b", &"a".repeat(65)] {
            assert!(check_client_name(bad).is_err(), "{bad}");
        }
    }
}
