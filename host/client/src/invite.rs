//! The line that invites somebody: `http://host:port/workspace#SECRET`, with room for more behind commas.

use crate::ClientError;
use crate::sync::Source;
use std::fmt;
use std::str::FromStr;

/// An invite as it is handed from one person to another. The secret stands behind `#`, where no browser sends it anywhere.
#[derive(Clone, PartialEq, Eq)]
pub struct InviteLine {
    /// Server and workspace.
    pub source: Source,
    secret: String,
}

impl InviteLine {
    /// The line for a secret.
    pub fn new(source: Source, secret: &str) -> InviteLine {
        InviteLine { source, secret: secret.to_owned() }
    }

    /// The secret.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The whole line, secret and all.
    pub fn line(&self) -> String {
        format!("{}/{}#{}", self.source.server, self.source.workspace, self.secret)
    }
}

impl fmt::Debug for InviteLine {
    /// Without the secret, so that no log has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InviteLine").field("source", &self.source).finish_non_exhaustive()
    }
}

impl FromStr for InviteLine {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<InviteLine, ClientError> {
        let refused = |detail: &str| ClientError::Refused(format!("this is no invite: {detail}; paste the whole line"));
        let (place, rest) = text.trim().split_once('#').ok_or_else(|| refused("there is no '#' in it"))?;
        let mut parts = rest.split(',');
        let secret = parts.next().unwrap_or_default();
        if secret.is_empty() || secret.len() > 128 || !secret.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(refused("behind '#' a secret of letters and digits belongs"));
        }
        // What is there was meant to be checked, so it cannot be left out.
        if let Some(more) = parts.next() {
            let key: String = more.split('=').next().unwrap_or_default().chars().take(20).collect();
            return Err(ClientError::Refused(format!(
                "the invite has '{key}', which this build does not know; update opship"
            )));
        }
        Ok(InviteLine { source: place.parse()?, secret: secret.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_was_made() {
        let line: InviteLine = " http://10.0.0.1:7420/notes#0123abc\n".parse().unwrap();
        assert_eq!((line.source.workspace.as_str(), line.secret()), ("notes", "0123abc"));
        assert_eq!(line.line(), "http://10.0.0.1:7420/notes#0123abc");
        assert_eq!(line.line().parse::<InviteLine>().unwrap(), line);
        assert!(!format!("{line:?}").contains("0123abc"), "{line:?}");
    }

    #[test]
    fn what_is_no_invite_or_asks_for_more_than_is_known_is_refused() {
        let long = format!("http://h/w#{}", "a".repeat(129));
        for bad in
            ["", "http://h/w", "http://h/w#", "http://h#abc", "#abc", "http://h/w#a b", "http://h/w#a/../b", &long]
        {
            assert!(bad.parse::<InviteLine>().is_err(), "{bad}");
        }
        let newer = "http://h/w#abc,pin=sha256".parse::<InviteLine>().unwrap_err().to_string();
        assert!(newer.contains("'pin'") && newer.contains("update"), "{newer}");
    }
}
