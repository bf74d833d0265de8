//! Conflict copies: other bytes than expected stay in the tree, beside the path.

use crate::fs::write_new;
use crate::identity::Identity;
use crate::names;
use crate::stage::copy_checked;
use crate::working_copy::Shared;
use crate::{ClientError, WorkingCopy};
use opship_record::limits::MAX_COMPONENT;
use opship_record::{Hash, TreePath};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

impl WorkingCopy {
    /// Copies a content that the log still has beside a path, under a name that says so, and gives that path: the author's
    /// bytes of an entry that ended `conflicted`. `folder`: where beside it is, a folder above it that stays. The next scan
    /// makes a value entry of it. `None` if the content is not here any more: its author has deleted it, or written something
    /// else in its place, since.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn conflict_copy_of(
        &self,
        path: &TreePath,
        folder: &TreePath,
        (hash, mode, mtime): (&Hash, u16, i64),
    ) -> Result<Option<TreePath>, ClientError> {
        let _lock = self.lock()?;
        let Some(content) = crate::source::content_of(&self.shared, hash)? else { return Ok(None) };
        let shared = &self.shared;
        let staging = crate::staging::Staging::new(shared)?;
        let slot = staging.new_path();
        let write = || -> io::Result<()> {
            let mut to = write_new(&shared.root, &slot)?;
            copy_checked(content.as_ref(), hash, &mut to)?;
            shared.root.set_mode(&slot, mode)?;
            shared.root.set_mtime(&slot, mtime)?;
            to.sync_all()
        };
        write().map_err(ClientError::io(format!("making a conflict copy of '{path}'")))?;
        move_to(shared, &slot, path, folder).map(Some)
    }

    /// As [`WorkingCopy::conflict_copy_of`], for a symbolic link.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn conflict_link(
        &self,
        path: &TreePath,
        folder: &TreePath,
        (target, mtime): (&[u8], i64),
    ) -> Result<TreePath, ClientError> {
        let _lock = self.lock()?;
        let staging = crate::staging::Staging::new(&self.shared)?;
        let slot = staging.new_path();
        let root = &self.shared.root;
        let made = root.make_link(&slot, target).and_then(|()| root.set_mtime(&slot, mtime));
        made.map_err(ClientError::io(format!("making a conflict copy of '{path}'")))?;
        move_to(&self.shared, &slot, path, folder)
    }
}

/// Moves what is at `slot` beside `path`, under a name that nothing has, and gives that path.
pub(crate) fn move_beside(shared: &Shared, slot: &str, path: &TreePath) -> Result<TreePath, ClientError> {
    move_to(shared, slot, path, &path.parent().unwrap_or_default())
}

fn move_to(shared: &Shared, slot: &str, path: &TreePath, folder: &TreePath) -> Result<TreePath, ClientError> {
    let failed = || format!("making a conflict copy of '{path}'");
    loop {
        let to = free_beside(shared, path, folder, &|_| false)?;
        match shared.root.rename(slot, to.as_str()) {
            Ok(()) => {
                let folder = to.parent().unwrap_or_default();
                shared.root.sync_directory(folder.as_str()).map_err(ClientError::io(failed()))?;
                tracing::debug!(%path, copy = %to, "both are kept");
                return Ok(to);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(ClientError::io(failed())(error)),
        }
    }
}

/// A path beside this one, in `folder`, that nothing has and that is not `taken`, whose name says that it is a conflict copy,
/// when, and whose.
pub(crate) fn free_beside(
    shared: &Shared,
    path: &TreePath,
    folder: &TreePath,
    taken: &dyn Fn(&TreePath) -> bool,
) -> Result<TreePath, ClientError> {
    let client = Identity::client(&shared.db.read())?.to_string();
    let failed = || format!("making a conflict copy of '{path}'");
    let mut folder = folder.clone();
    // Where the folder is gone, the copy goes into the nearest one that is left.
    while !shared.root.stat(folder.as_str()).map_err(ClientError::io(failed()))?.is_some_and(is_directory) {
        folder = folder.parent().unwrap_or_default();
    }
    let today = date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    let short: String = client.chars().take(8).collect();
    let whose = names::on_disk(&shared.db.read())?;
    for count in 1..10_000u32 {
        let label = if count == 1 { String::new() } else { format!(" {count}") };
        let name = conflict_name(path.name().unwrap_or_default(), &format!("{LABEL}{today} {whose} {short}{label})"));
        // A path that is as long as paths may be has no room for the label: then the copy goes nearer to the root.
        let to = loop {
            match folder.join(&name) {
                Ok(to) => break to,
                Err(_) if !folder.is_root() => folder = folder.parent().unwrap_or_default(),
                Err(error) => return Err(opship_record::Error::from(error).into()),
            }
        };
        if !taken(&to) && shared.root.stat(to.as_str()).map_err(ClientError::io(failed()))?.is_none() {
            return Ok(to);
        }
    }
    Err(ClientError::Refused(format!("'{path}' has too many conflict copies; remove some and try again")))
}

/// How the label of a conflict copy begins.
pub(crate) const LABEL: &str = " (conflict ";

/// What the name of a conflict copy tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    /// The name of the file that it is a copy of, unless that was cut.
    pub original: String,
    /// The day, `YYYY-MM-DD`.
    pub day: &'a str,
    /// Whose it is, and which one of that day.
    pub who: &'a str,
}

/// Reads the name of a conflict copy; `None` for any other name.
pub(crate) fn parse_name(name: &str) -> Option<Named<'_>> {
    let (stem, rest) = name.rsplit_once(LABEL)?;
    let (label, extension) = rest.split_once(')')?;
    let (day, who) = label.split_once(' ')?;
    let is_day = day.len() == 10
        && day.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let plausible = is_day && !who.is_empty() && (extension.is_empty() || extension.starts_with('.'));
    plausible.then(|| Named { original: format!("{stem}{extension}"), day, who })
}

fn is_directory(found: crate::fs::Found) -> bool {
    found.kind == Some(opship_record::node::Kind::Directory)
}

/// `name.ext` with a label before the extension, cut to the longest name.
fn conflict_name(name: &str, label: &str) -> String {
    let dot = name.rfind('.').filter(|at| *at > 0);
    let (stem, extension) = dot.map_or((name, ""), |at| name.split_at(at));
    let extension = if extension.len() > 32 { "" } else { extension };
    let room = MAX_COMPONENT - label.len() - extension.len();
    let mut end = stem.len().min(room);
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{label}{extension}", &stem[..end])
}

/// The UTC date of a time in seconds since 1970 (H. Hinnant, "chrono-compatible low-level date algorithms", days to
/// civil).
pub fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_798_761_599), "2026-12-31");
    }

    #[test]
    fn what_a_name_tells_is_read_again() {
        for name in ["a.txt", "a", ".profile", "a.tar.gz", "x (conflict 2026-01-02 me).c"] {
            let copy = conflict_name(name, &format!("{LABEL}2026-11-30 0123abcd 2)"));
            let expected = Named { original: name.to_owned(), day: "2026-11-30", who: "0123abcd 2" };
            assert_eq!(parse_name(&copy), Some(expected), "{copy}");
        }
        for other in ["a.txt", "a (conflict).txt", "a (conflict today me).txt", "a (conflict 2026-11-30 me", ""] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn the_label_stands_before_the_extension_and_long_names_are_cut() {
        assert_eq!(conflict_name("a.txt", " (x)"), "a (x).txt");
        assert_eq!(conflict_name(".profile", " (x)"), ".profile (x)");
        let long = "ö".repeat(127);
        let name = conflict_name(&long, " (x)");
        assert!(name.len() <= MAX_COMPONENT && name.ends_with(" (x)"));
    }
}
