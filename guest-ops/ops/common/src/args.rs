//! Command lines as `getopt_long` reads them.
//!
//! The small argument parsers that there are take `-t=` for an empty value and know no abbreviated long
//! options; users of these programs rely on both, so the rules are written out here.

use crate::{os_str, os_string};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Never.
    None,
    /// Always: the rest of the argument, after `=`, or the next argument.
    Required,
    /// Only after `=` of a long option.
    Optional,
}

/// One option of a program.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Its letter, if it has one.
    pub short: Option<u8>,
    /// Its long name without `--`, by which [`Item::Option`] names it. Options that have only a letter
    /// are named by the letter here.
    pub name: &'static str,
    /// Whether it takes a value.
    pub value: Value,
}

/// An option that takes no value.
#[must_use]
pub const fn flag(short: char, name: &'static str) -> Spec {
    Spec { short: letter(short), name, value: Value::None }
}

/// An option that takes a value.
#[must_use]
pub const fn with_value(short: char, name: &'static str) -> Spec {
    Spec { short: letter(short), name, value: Value::Required }
}

/// A long option that may have a value after `=`.
#[must_use]
pub const fn with_optional(name: &'static str) -> Spec {
    Spec { short: None, name, value: Value::Optional }
}

/// In the tables of options a blank stands for "no letter".
const fn letter(short: char) -> Option<u8> {
    if short == ' ' || !short.is_ascii() { None } else { Some(short as u8) }
}

/// One thing on the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// An option by its name in the table, with its value.
    Option(&'static str, Option<OsString>),
    /// An operand.
    Operand(OsString),
}

/// What is wrong with a command line.
#[derive(Debug, PartialEq, Eq)]
pub enum ArgError {
    /// No option has this letter.
    UnknownShort(char),
    /// No long option has this name or begins with it.
    UnknownLong(String),
    /// Several long options begin with this name.
    Ambiguous(String),
    /// An option that takes a value stands last.
    MissingValue(String),
    /// A value was given to an option that takes none.
    UnexpectedValue(String),
}

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownShort(c) => write!(f, "invalid option -- '{c}'"),
            Self::UnknownLong(name) => write!(f, "unrecognized option '--{name}'"),
            Self::Ambiguous(name) => write!(f, "option '--{name}' is ambiguous"),
            Self::MissingValue(name) => write!(f, "option {name} requires an argument"),
            Self::UnexpectedValue(name) => write!(f, "option '--{name}' doesn't allow an argument"),
        }
    }
}

impl std::error::Error for ArgError {}

/// Reads a command line item by item; options may follow operands.
#[derive(Debug)]
pub struct Args {
    specs: &'static [Spec],
    rest: VecDeque<OsString>,
    /// Letters of a cluster like `-abc` that are still to be read.
    cluster: Vec<u8>,
    operands_only: bool,
}

impl Args {
    /// A command line without the program's name.
    pub fn new(specs: &'static [Spec], args: impl IntoIterator<Item = OsString>) -> Self {
        Self { specs, rest: args.into_iter().collect(), cluster: Vec::new(), operands_only: false }
    }

    /// The next option or operand; `None` at the end.
    ///
    /// # Errors
    /// [`ArgError`] for what the table of options does not allow.
    pub fn next_item(&mut self) -> Result<Option<Item>, ArgError> {
        if !self.cluster.is_empty() {
            return self.short().map(Some);
        }
        let Some(arg) = self.rest.pop_front() else {
            return Ok(None);
        };
        let bytes = arg.as_encoded_bytes();
        if self.operands_only || !bytes.starts_with(b"-") || bytes == b"-" {
            return Ok(Some(Item::Operand(arg)));
        }
        if bytes == b"--" {
            self.operands_only = true;
            return self.next_item();
        }
        match bytes.strip_prefix(b"--") {
            Some(long) => self.long(long).map(Some),
            None => {
                self.cluster = bytes[1..].to_vec();
                self.short().map(Some)
            }
        }
    }

    fn short(&mut self) -> Result<Item, ArgError> {
        let letter = self.cluster.remove(0);
        let Some(spec) = self.specs.iter().find(|s| s.short == Some(letter)) else {
            return Err(ArgError::UnknownShort(letter.into()));
        };
        if spec.value != Value::Required {
            return Ok(Item::Option(spec.name, None));
        }
        let attached = std::mem::take(&mut self.cluster);
        let value = if attached.is_empty() { self.rest.pop_front() } else { Some(os_string(attached)) };
        match value {
            Some(value) => Ok(Item::Option(spec.name, Some(value))),
            None => Err(ArgError::MissingValue(format!("'{}'", char::from(letter)))),
        }
    }

    fn long(&mut self, text: &[u8]) -> Result<Item, ArgError> {
        let (given, value) = match text.iter().position(|&b| b == b'=') {
            Some(at) => (&text[..at], Some(os_str(&text[at + 1..]).to_owned())),
            None => (text, None),
        };
        let spec = self.find_long(given)?;
        match (spec.value, value) {
            (Value::None, Some(_)) => Err(ArgError::UnexpectedValue(spec.name.to_owned())),
            (Value::Required, None) => match self.rest.pop_front() {
                Some(value) => Ok(Item::Option(spec.name, Some(value))),
                None => Err(ArgError::MissingValue(format!("'--{}'", spec.name))),
            },
            (_, value) => Ok(Item::Option(spec.name, value)),
        }
    }

    /// The option named `given`, or the only one whose name begins so.
    fn find_long(&self, given: &[u8]) -> Result<&'static Spec, ArgError> {
        // One letter names are letters only.
        let specs = || self.specs.iter().filter(|s| s.name.len() > 1);
        if let Some(spec) = specs().find(|s| s.name.as_bytes() == given) {
            return Ok(spec);
        }
        let name = String::from_utf8_lossy(given).into_owned();
        let mut fitting = specs().filter(|s| s.name.as_bytes().starts_with(given));
        match (fitting.next(), fitting.next()) {
            (None, _) => Err(ArgError::UnknownLong(name)),
            (Some(spec), None) => Ok(spec),
            (Some(_), Some(_)) => Err(ArgError::Ambiguous(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SPECS: &[Spec] = &[
        flag('r', "reverse"),
        flag(' ', "recursive"),
        with_value('t', "separator"),
        flag('9', "9"),
        with_optional("check"),
    ];

    fn read(args: &[&str]) -> Result<Vec<Item>, ArgError> {
        let mut args = Args::new(SPECS, args.iter().map(OsString::from));
        let mut items = Vec::new();
        while let Some(item) = args.next_item()? {
            items.push(item);
        }
        Ok(items)
    }

    fn option(name: &'static str, value: Option<&str>) -> Item {
        Item::Option(name, value.map(OsString::from))
    }

    fn operand(text: &str) -> Item {
        Item::Operand(text.into())
    }

    #[test]
    fn clusters_and_attached_values() {
        assert_eq!(
            read(&["-r9t=", "-t", "x", "-9"]).unwrap(),
            [
                option("reverse", None),
                option("9", None),
                option("separator", Some("=")),
                option("separator", Some("x")),
                option("9", None),
            ]
        );
    }

    #[test]
    fn options_follow_operands_until_two_dashes() {
        assert_eq!(
            read(&["a", "-r", "-", "--", "-r"]).unwrap(),
            [operand("a"), option("reverse", None), operand("-"), operand("-r")]
        );
    }

    #[test]
    fn long_options_by_their_beginning() {
        assert_eq!(
            read(&["--rev", "--sep=a=b", "--separator", "c", "--check", "--check=quiet"]).unwrap(),
            [
                option("reverse", None),
                option("separator", Some("a=b")),
                option("separator", Some("c")),
                option("check", None),
                option("check", Some("quiet")),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(read(&["-x"]), Err(ArgError::UnknownShort('x')));
        assert_eq!(read(&["--re"]), Err(ArgError::Ambiguous("re".into())));
        assert_eq!(read(&["--no"]), Err(ArgError::UnknownLong("no".into())));
        assert_eq!(read(&["--9"]), Err(ArgError::UnknownLong("9".into())));
        assert_eq!(read(&["-t"]), Err(ArgError::MissingValue("'t'".into())));
        assert_eq!(read(&["--rev=1"]), Err(ArgError::UnexpectedValue("reverse".into())));
    }
}
