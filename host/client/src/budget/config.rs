//! The user's configuration: `~/.config/opship/config.toml`.

use crate::ClientError;
use crate::native::NativeProgram;
use crate::net::ServerUrl;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What the user has configured.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserConfig {
    /// Profiles of links, by name.
    #[serde(default)]
    pub links: BTreeMap<String, LinkProfile>,
    /// Programs for which a module stands, by the name that the user calls them by.
    #[serde(default)]
    pub native: BTreeMap<String, NativeProgram>,
}

/// What is said about a link.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkProfile {
    /// Do only operations, small values and those with priority go over it?
    #[serde(default)]
    pub metered: bool,
    /// Interfaces by which the route to the server makes it this link; a `*` at the end stands for anything.
    #[serde(default, deserialize_with = "one_or_many")]
    pub interface: Vec<String>,
    /// Servers that are reached by this link.
    #[serde(default, deserialize_with = "one_or_many")]
    pub server: Vec<String>,
    /// Values up to this size go over it although it is metered.
    pub values_up_to: Option<Size>,
    /// Patterns of paths, as in `.gitignore`, whose values go over it whatever their size.
    #[serde(default)]
    pub priority: Vec<String>,
    /// How much may go over it, both ways.
    #[serde(default)]
    pub budget: Budget,
}

/// How much may go over a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// In a day of local time.
    pub day: Option<Size>,
    /// In a month of local time.
    pub month: Option<Size>,
}

/// A number of bytes, written `50 MB`, `1.5 GB`, `64 KiB` or `512 B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

impl Size {
    /// The number of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("'{text}' is no size; write it as \"50 MB\", \"64 KiB\" or \"512 B\"");
        let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let (number, unit) = (text[..split].trim(), text[split..].trim());
        let factor: u64 = match unit {
            "B" => 1,
            "kB" | "KB" => 1000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(wrong()),
        };
        let plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
        let number: f64 = number.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
        let bytes = number * factor as f64;
        if bytes < 9e18 { Ok(Size(bytes as u64)) } else { Err(wrong()) }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text or a list of texts")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

impl UserConfig {
    /// Reads the user's configuration: `$XDG_CONFIG_HOME/opship/config.toml`, or below `~/.config`. Without a file nothing
    /// is configured.
    ///
    /// # Errors
    /// [`ClientError::Config`] names line and key of what cannot be understood.
    pub fn of_user() -> Result<UserConfig, ClientError> {
        let from = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
        let folder = from("XDG_CONFIG_HOME").or_else(|| Some(from("HOME")?.join(".config")));
        match folder {
            Some(folder) => UserConfig::read(&folder.join("opship/config.toml")),
            None => Ok(UserConfig::default()),
        }
    }

    fn read(file: &Path) -> Result<UserConfig, ClientError> {
        let wrong = |detail: String| ClientError::Config { file: file.to_owned(), detail };
        match std::fs::read_to_string(file) {
            Ok(text) => UserConfig::parse(&text).map_err(wrong),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(UserConfig::default()),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    fn parse(text: &str) -> Result<UserConfig, String> {
        let config: UserConfig = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
        if config.links.contains_key(super::UNMETERED) {
            return Err(format!("[links.{}]: this name stands for no profile; choose another", super::UNMETERED));
        }
        for (name, profile) in &config.links {
            for address in &profile.server {
                address.parse::<ServerUrl>().map_err(|error| format!("[links.{name}] server: {error}"))?;
            }
            super::patterns(&profile.priority).map_err(|error| format!("[links.{name}] priority: {error}"))?;
        }
        config.native.iter().try_for_each(|(name, program)| program.check(name))?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_whole_configuration_is_read() {
        let text = r#"
            [links.phone]
            metered = true
            interface = ["wwan0", "usb*"]
            server = "http://10.0.0.1:7420"
            values_up_to = "1 MB"
            priority = ["*.csv", "reports/**"]
            [links.phone.budget]
            day = "50 MB"
            month = "1.5 GB"
            [links.home]
        "#;
        let config = UserConfig::parse(text).unwrap();
        let phone = &config.links["phone"];
        assert!(phone.metered && phone.interface.len() == 2 && phone.server.len() == 1 && phone.priority.len() == 2);
        assert_eq!(phone.values_up_to.unwrap().bytes(), 1_000_000);
        assert_eq!(phone.budget.month.unwrap().bytes(), 1_500_000_000);
        assert_eq!(config.links["home"], LinkProfile::default());
    }

    #[test]
    fn mistakes_are_told_with_line_and_key() {
        for (text, line, key) in [
            ("[links.a]\nmeterd = true\n", "line 2", "meterd"),
            ("[links.a]\n\nvalues_up_to = \"much\"\n", "line 3", "values_up_to"),
            ("[links.a.budget]\nweek = \"1 MB\"\n", "line 2", "week"),
            ("[links.a.budget]\nday = 50\n", "line 2", "day"),
            ("[links.a]\ninterface = 1\n", "line 2", "interface"),
            ("[links.a\n", "line 1", "links"),
            ("[links.unmetered]\n", "", "unmetered"),
            ("[links.a]\nserver = \"files\"\n", "links.a", "server"),
        ] {
            let error = UserConfig::parse(text).unwrap_err();
            assert!(error.contains(line) && error.contains(key), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_have_units() {
        let size = |text: &str| text.parse::<Size>().map(Size::bytes).ok();
        assert_eq!((size("512 B"), size("1kB"), size("64 KiB")), (Some(512), Some(1000), Some(65_536)));
        for bad in ["", "5", "MB", "-1 MB", "1 mb", "1e9 GB", "inf B", "99999999999999 GB", "1.2.3 MB"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }
}
