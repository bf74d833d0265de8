//! Names for people: what this client is called, and who its user is to the server.

use crate::db::meta;
use crate::{ClientError, WorkingCopy};
use rusqlite::Connection;

/// What the user calls this client.
const CLIENT_NAME: &str = "net.client-name";
/// What the server calls the user.
const AUTHOR_NAME: &str = "net.author-name";
/// Longest name that a server takes, in characters.
const MAX_NAME: usize = 64;
/// Longest part of it in the name of a file, in bytes.
const MAX_ON_DISK: usize = 40;

impl WorkingCopy {
    /// What others see this client called: the name that it was given, or the host's.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn client_name(&self) -> Result<String, ClientError> {
        let given = self.setting(CLIENT_NAME)?.filter(|name| !name.is_empty());
        Ok(given.unwrap_or_else(host_name))
    }

    /// Gives this client a name; `None`: the host's. The server is told with the next entry.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for what is not 1 to 64 printable characters, [`ClientError::Database`].
    pub fn set_client_name(&self, name: Option<&str>) -> Result<(), ClientError> {
        let name = name.unwrap_or_default();
        if printable(name) != name {
            let shown = name.escape_debug();
            return Err(ClientError::Refused(format!(
                "'{shown}' cannot name a client: use 1 to {MAX_NAME} characters that can be printed on a line"
            )));
        }
        self.set_setting(CLIENT_NAME, name)
    }

    /// The name that the server knows this client's user by; `None` before anything was shipped.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn author_name(&self) -> Result<Option<String>, ClientError> {
        self.setting(AUTHOR_NAME)
    }

    /// Notes the name that the server knows this client's user by.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub(crate) fn set_author_name(&self, name: &str) -> Result<(), ClientError> {
        self.set_setting(AUTHOR_NAME, name)
    }
}

/// What this client is called, as a part of a file's name.
///
/// # Errors
/// [`ClientError::Database`].
pub(crate) fn on_disk(db: &Connection) -> Result<String, ClientError> {
    let given = meta(db, CLIENT_NAME)?.filter(|name: &String| !name.is_empty()).unwrap_or_else(host_name);
    Ok(part_of_a_name(&given))
}

fn part_of_a_name(name: &str) -> String {
    // Brackets would end the label that it stands in.
    let name: String = name.chars().map(|c| if matches!(c, '/' | '(' | ')') { '-' } else { c }).collect();
    let mut end = name.len().min(MAX_ON_DISK);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].trim().to_owned()
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = printable(&name);
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// As much of a text as fits on a line and cannot steer a terminal.
fn printable(text: &str) -> String {
    let harmless = |c: &char| !(c.is_control() || ('\u{202a}'..='\u{202e}').contains(c));
    text.trim().chars().filter(harmless).take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_to_what_a_server_takes() {
        assert_eq!(printable(" lap\u{1b}top\n"), "laptop");
        assert_eq!(printable(&"ä".repeat(80)).chars().count(), MAX_NAME);
        assert_eq!(printable("\u{202e}"), "");
    }

    #[test]
    fn a_name_on_disk_is_one_component_and_short() {
        assert_eq!(part_of_a_name("ship/bridge (2)"), "ship-bridge -2-");
        assert_eq!(part_of_a_name(&"ä".repeat(60)), "ä".repeat(20));
    }
}
