//! Settings of a workspace: a closed list, each with a name, a default and the values that it takes.

use crate::StorageError;
use std::fmt;

/// May an operation whose inputs changed run on the new ones?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rebase {
    /// It may, and ends `rebased`.
    #[default]
    Allow,
    /// It may not, and ends `conflicted`.
    Forbid,
}

/// One setting with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// `rebase`: `allow` or `forbid`.
    Rebase(Rebase),
    /// `retention.all-days`: days for which every version is kept.
    RetentionAllDays(u32),
    /// `retention.daily-days`: days for which a day's last version is kept.
    RetentionDailyDays(u32),
    /// `largest-file`: bytes of the largest file that a version may hold anew; `None`: `none`.
    LargestFile(Option<u64>),
}

/// All settings of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether operations may be rebased.
    pub rebase: Rebase,
    /// Days for which every version is kept.
    pub retention_all_days: u32,
    /// Days for which a day's last version is kept.
    pub retention_daily_days: u32,
    /// Bytes of the largest file that an entry may bring, at least [`Setting::LEAST_LARGEST`]; `None`: any.
    pub largest_file: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { rebase: Rebase::default(), retention_all_days: 30, retention_daily_days: 365, largest_file: None }
    }
}

impl Settings {
    /// Each setting, in the order in which they are shown.
    pub fn each(&self) -> [Setting; 4] {
        [
            Setting::Rebase(self.rebase),
            Setting::RetentionAllDays(self.retention_all_days),
            Setting::RetentionDailyDays(self.retention_daily_days),
            Setting::LargestFile(self.largest_file),
        ]
    }

    pub(crate) fn set(&mut self, setting: Setting) {
        match setting {
            Setting::Rebase(rebase) => self.rebase = rebase,
            Setting::RetentionAllDays(days) => self.retention_all_days = days,
            Setting::RetentionDailyDays(days) => self.retention_daily_days = days,
            Setting::LargestFile(bytes) => self.largest_file = bytes,
        }
    }
}

impl Setting {
    /// Longest retention in days: a thousand years.
    const MOST_DAYS: u32 = 365_000;
    /// Bytes that a file may always have.
    pub const LEAST_LARGEST: u64 = 1 << 16;

    /// The setting of this name with this value.
    ///
    /// # Errors
    /// [`StorageError::Setting`] says which names there are, or which values it takes.
    pub fn parse(name: &str, value: &str) -> Result<Setting, StorageError> {
        let refused = |detail: String| StorageError::Setting { name: name.chars().take(80).collect(), detail };
        let days = || match value.parse() {
            Ok(days) if days <= Setting::MOST_DAYS => Ok(days),
            _ => Err(refused(format!("give a number of days from 0 to {}", Setting::MOST_DAYS))),
        };
        match (name, value) {
            ("rebase", "allow") => Ok(Setting::Rebase(Rebase::Allow)),
            ("rebase", "forbid") => Ok(Setting::Rebase(Rebase::Forbid)),
            ("rebase", _) => Err(refused("give 'allow' or 'forbid'".to_owned())),
            ("retention.all-days", _) => Ok(Setting::RetentionAllDays(days()?)),
            ("retention.daily-days", _) => Ok(Setting::RetentionDailyDays(days()?)),
            ("largest-file", "none") => Ok(Setting::LargestFile(None)),
            ("largest-file", _) => match bytes(value) {
                Some(bytes) if bytes >= Setting::LEAST_LARGEST => Ok(Setting::LargestFile(Some(bytes))),
                _ => Err(refused(format!(
                    "give 'none' or a size of at least {} bytes, such as '500 MB'",
                    Setting::LEAST_LARGEST
                ))),
            },
            _ => {
                let names = Settings::default().each().map(|setting| setting.name()).join(", ");
                Err(refused(format!("there is no such setting; there are {names}")))
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Setting::Rebase(_) => "rebase",
            Setting::RetentionAllDays(_) => "retention.all-days",
            Setting::RetentionDailyDays(_) => "retention.daily-days",
            Setting::LargestFile(_) => "largest-file",
        }
    }
}

/// The value, as [`Setting::parse`] takes it.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Rebase(Rebase::Allow) => f.write_str("allow"),
            Setting::Rebase(Rebase::Forbid) => f.write_str("forbid"),
            Setting::RetentionAllDays(days) | Setting::RetentionDailyDays(days) => days.fmt(f),
            Setting::LargestFile(None) => f.write_str("none"),
            Setting::LargestFile(Some(bytes)) => bytes.fmt(f),
        }
    }
}

/// A number of bytes, with or without a decimal unit.
fn bytes(text: &str) -> Option<u64> {
    let units = [("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)];
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1));
    number.trim_end().parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_shown_is_taken_and_nothing_else() {
        let (rebase, largest_file) = (Rebase::Forbid, Some(70_000));
        let all = Settings { rebase, retention_all_days: 0, retention_daily_days: 7, largest_file };
        let mut read = Settings::default();
        for setting in all.each() {
            read.set(Setting::parse(setting.name(), &setting.to_string()).unwrap());
        }
        assert_eq!(read, all);
        for (name, value) in [("rebase", "maybe"), ("retention.all-days", "-1"), ("retention.daily-days", "365001")] {
            assert!(Setting::parse(name, value).is_err(), "{name}={value}");
        }
        assert_eq!(Setting::parse("largest-file", "5 MB").unwrap(), Setting::LargestFile(Some(5_000_000)));
        assert_eq!(Setting::parse("largest-file", "none").unwrap(), Setting::LargestFile(None));
        for wrong in ["65535", "-1", "5 mB", "99999999999 TB", "MB", ""] {
            assert!(Setting::parse("largest-file", wrong).is_err(), "{wrong}");
        }
        let unknown = Setting::parse("retention", "1").unwrap_err().to_string();
        assert!(unknown.contains("retention.all-days"), "{unknown}");
    }
}
