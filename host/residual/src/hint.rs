//! What a manifest says of an operation's residuals.

use crate::parity::{AUTO_SYMBOLS, MAX_SYMBOLS};
use std::fmt;
use std::str::FromStr;

/// Which residual to ship where a replay differs from what was recorded: `none`, `delta`, `parity(n)` or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hint {
    /// None: what differs goes by value.
    None,
    /// The exact difference: the client replays beforehand.
    Delta,
    /// So many parity symbols a column: the client does not replay.
    Parity(u16),
    /// Whatever is cheaper; parity has [`AUTO_SYMBOLS`] then.
    #[default]
    Auto,
}

impl Hint {
    /// Parity symbols a column; `None` where parity is not wanted.
    pub fn symbols(self) -> Option<u16> {
        match self {
            Hint::None | Hint::Delta => None,
            Hint::Parity(symbols) => Some(symbols),
            Hint::Auto => Some(AUTO_SYMBOLS),
        }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::None => f.write_str("none"),
            Hint::Delta => f.write_str("delta"),
            Hint::Parity(symbols) => write!(f, "parity({symbols})"),
            Hint::Auto => f.write_str("auto"),
        }
    }
}

/// A text is no hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no hint for residuals: use none, delta, auto, or parity(n) with an even n from 2 to {MAX_SYMBOLS}")]
pub struct HintError(
    /// The text, cut short.
    pub String,
);

impl FromStr for Hint {
    type Err = HintError;

    fn from_str(text: &str) -> Result<Hint, HintError> {
        let hint = match text {
            "none" => Some(Hint::None),
            "delta" => Some(Hint::Delta),
            "auto" => Some(Hint::Auto),
            _ => parity(text),
        };
        hint.ok_or_else(|| HintError(text.chars().take(80).collect()))
    }
}

/// One form only: `parity(016)` and `parity(+16)` are none.
fn parity(text: &str) -> Option<Hint> {
    let symbols = text.strip_prefix("parity(")?.strip_suffix(')')?.parse().ok()?;
    let hint = Hint::Parity(symbols);
    let known = (2..=MAX_SYMBOLS).contains(&symbols) && symbols.is_multiple_of(2) && hint.to_string() == text;
    known.then_some(hint)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hints_have_one_form_each() {
        for hint in [Hint::None, Hint::Delta, Hint::Auto, Hint::Parity(2), Hint::Parity(16), Hint::Parity(MAX_SYMBOLS)]
        {
            assert_eq!(hint.to_string().parse::<Hint>().unwrap(), hint);
        }
        for refused in ["", "Auto", "parity", "parity()", "parity(0)", "parity(3)", "parity(016)", "parity(+16)"] {
            assert!(refused.parse::<Hint>().is_err(), "{refused}");
        }
        let long = format!("parity({})", MAX_SYMBOLS + 2).parse::<Hint>().unwrap_err();
        assert!(long.to_string().contains("parity(130)"), "{long}");
    }
}
