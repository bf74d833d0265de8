//! Metered links: which link the server is reached by, what may go over it, and how much of its budget is left.
//!
//! Profiles of links stand in the user's own configuration, never in a synced folder. What is spent is counted at the socket,
//! both ways, in one database for all working copies and processes of the user. Invariant: bytes are set aside in the
//! database before they are written or read, so that a budget is never exceeded, whoever else spends of it or is killed.

mod clock;
mod config;
mod guard;
mod ledger;
mod route;

pub use config::{LinkProfile, Size, UserConfig};
pub use guard::Guard;
pub use ledger::Spent;

use crate::ClientError;
use crate::choice::Ship;
use crate::net::ServerUrl;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ledger::Ledger;
use opship_record::TreePath;
use std::path::PathBuf;
use std::sync::Arc;

/// Names a link whatever the route is.
const LINK_VARIABLE: &str = "OPSHIP_LINK";
/// The name that stands for no profile at all.
const UNMETERED: &str = "unmetered";
/// Values up to this many bytes go over a metered link whose profile does not say.
const SMALL_VALUE: u64 = 64_000;

/// Which link to use, as the user says.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LinkChoice {
    /// The profile's name; `None`: the variable `OPSHIP_LINK`, else the first profile that fits the server and the route.
    pub name: Option<String>,
    /// Ship everything, also beyond the budget. It is counted all the same.
    pub anyway: bool,
    /// How operations are shipped; `None`: as the working copy's configuration says.
    #[serde(default)]
    pub ship: Option<Ship>,
}

/// A link in use whose profile says something about it.
#[derive(Debug, Clone)]
pub struct Link {
    name: String,
    profile: LinkProfile,
    priority: Arc<Gitignore>,
    guard: Arc<Guard>,
    anyway: bool,
}

/// The link to a server by the user's configuration; `None`: nothing is said about it.
///
/// # Errors
/// [`ClientError::Config`] names the line of what cannot be understood; [`ClientError::Refused`] for a name that is in no
/// profile; [`ClientError::Database`] if what was spent cannot be read.
pub fn link_to(server: &ServerUrl, choice: &LinkChoice) -> Result<Option<Link>, ClientError> {
    let Some((name, profile)) = profile_for(server, choice)? else { return Ok(None) };
    let ledger = Ledger::open(&ledger_file()?)?;
    let guard = Arc::new(Guard::new(ledger, &name, &profile.budget, !choice.anyway));
    let priority = Arc::new(patterns(&profile.priority)?);
    Ok(Some(Link { name, profile, priority, guard, anyway: choice.anyway }))
}

/// The name of the link that [`link_to`] would give; what was spent is not looked at.
pub(crate) fn link_name(server: &ServerUrl, choice: &LinkChoice) -> Result<Option<String>, ClientError> {
    Ok(profile_for(server, choice)?.map(|(name, _)| name))
}

fn profile_for(server: &ServerUrl, choice: &LinkChoice) -> Result<Option<(String, LinkProfile)>, ClientError> {
    let mut config = UserConfig::of_user()?;
    let named = choice.name.clone().or_else(|| std::env::var(LINK_VARIABLE).ok()).filter(|name| !name.is_empty());
    match named.as_deref() {
        Some(UNMETERED) => Ok(None),
        Some(name) => match config.links.remove_entry(name) {
            Some(found) => Ok(Some(found)),
            None => Err(unknown(&config, name)),
        },
        None => Ok(config.links.into_iter().find(|(_, profile)| fits(profile, server))),
    }
}

fn unknown(config: &UserConfig, name: &str) -> ClientError {
    let known: Vec<&str> = config.links.keys().map(String::as_str).chain([UNMETERED]).collect();
    ClientError::Refused(format!("there is no link '{name}'; the configuration has {}", known.join(", ")))
}

/// Does a profile say that it is for this server, by its address or by the route to it?
fn fits(profile: &LinkProfile, server: &ServerUrl) -> bool {
    let by_server = profile.server.iter().any(|address| address.parse::<ServerUrl>().is_ok_and(|url| url == *server));
    by_server
        || (!profile.interface.is_empty()
            && route::interface_to(server)
                .is_some_and(|interface| profile.interface.iter().any(|pattern| route::matches(pattern, &interface))))
}

fn patterns(lines: &[String]) -> Result<Gitignore, ClientError> {
    let mut builder = GitignoreBuilder::new("");
    for line in lines {
        let refused = |error| ClientError::Refused(format!("the priority pattern '{line}' is none: {error}"));
        builder.add_line(None, line).map_err(refused)?;
    }
    builder.build().map_err(|error| ClientError::Refused(format!("the priority patterns: {error}")))
}

/// Where what was spent is kept.
fn ledger_file() -> Result<PathBuf, ClientError> {
    let homeless =
        || ClientError::Refused("a link's budget needs a home folder: set HOME or XDG_STATE_HOME".to_owned());
    Ok(crate::net::state_folder().ok_or_else(homeless)?.join("opship/budget.db"))
}

impl Link {
    /// The profile's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What counts and stops its bytes.
    pub fn guard(&self) -> Arc<Guard> {
        Arc::clone(&self.guard)
    }

    /// What its profile says.
    pub fn profile(&self) -> &LinkProfile {
        &self.profile
    }

    /// Is there something that has to wait for another link?
    pub fn is_limited(&self) -> bool {
        !self.anyway && self.counts_bytes()
    }

    /// Do bytes count, also where the user lets all of them go?
    pub fn counts_bytes(&self) -> bool {
        self.profile.metered || self.profile.budget.day.is_some() || self.profile.budget.month.is_some()
    }

    /// May a content of this length at this path go over it by value?
    pub fn takes(&self, path: &TreePath, length: u64) -> bool {
        let small = self.profile.values_up_to.map_or(SMALL_VALUE, |size| size.bytes());
        self.anyway || !self.profile.metered || length <= small || self.is_priority(path)
    }

    fn is_priority(&self, path: &TreePath) -> bool {
        self.priority.matched_path_or_any_parents(path.as_str(), false).is_ignore()
    }

    /// Bytes that are left of the budget; `None`: there is no budget, or it is set aside.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn left(&self) -> Result<Option<u64>, ClientError> {
        if self.anyway { Ok(None) } else { self.guard.left() }
    }

    /// An error of the network, told as the lack of budget that it comes from.
    pub(crate) fn explain(&self, error: ClientError) -> ClientError {
        match error {
            ClientError::Connection { .. } | ClientError::Unreachable { .. } if self.guard.is_spent() => {
                ClientError::Budget { link: self.name.clone() }
            }
            error => error,
        }
    }
}
