//! Pauses: kept in the working copy, so that they outlive a watch.

use crate::db::log::now_millis;
use crate::{ClientError, WorkingCopy};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The setting that holds a pause.
const PAUSED: &str = "net.paused";

/// A pause of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// When it began, in milliseconds since 1970.
    since: u64,
    /// How long it lasts, in milliseconds; `None`: until told otherwise.
    length: Option<u64>,
}

impl Pause {
    /// What is left of it at `now`, in milliseconds since 1970: `None` if it is over, `Some(None)` if it has no end. A clock
    /// that was set back does not make it longer than it was meant to be.
    fn left(&self, now: u64) -> Option<Option<Duration>> {
        let Some(length) = self.length else { return Some(None) };
        let left = length.saturating_sub(now.saturating_sub(self.since));
        (left > 0).then(|| Some(Duration::from_millis(left)))
    }

    /// The same pause, when the clock has been set back to before its begin.
    fn anchored(self, now: u64) -> Pause {
        Pause { since: self.since.min(now), ..self }
    }
}

impl WorkingCopy {
    /// Pauses the watch of this working copy, now or when there is one; `None`: until [`WorkingCopy::resume`].
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn pause(&self, length: Option<Duration>) -> Result<(), ClientError> {
        let length = length.map(|length| u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
        self.write_pause(Some(Pause { since: now_millis(), length }))
    }

    /// Ends a pause. `false`: there was none.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn resume(&self) -> Result<bool, ClientError> {
        let was = self.paused()?.is_some();
        if was {
            self.write_pause(None)?;
        }
        Ok(was)
    }

    /// Is the watch paused? How much is left: `Some(None)` is a pause without an end.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    pub fn paused(&self) -> Result<Option<Option<Duration>>, ClientError> {
        let Some(text) = self.setting(PAUSED)?.filter(|text| !text.is_empty()) else { return Ok(None) };
        let pause: Pause = serde_json::from_str(&text).map_err(|error| ClientError::Damaged {
            file: ".opship/state.db".into(),
            detail: format!("the pause: {error}"),
        })?;
        let now = now_millis();
        let anchored = pause.anchored(now);
        if anchored != pause {
            self.write_pause(Some(anchored))?;
        }
        Ok(anchored.left(now))
    }

    fn write_pause(&self, pause: Option<Pause>) -> Result<(), ClientError> {
        let text = pause.map(|pause| serde_json::json!(pause).to_string()).unwrap_or_default();
        self.set_setting(PAUSED, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_in_its_time_whatever_the_clock_does() {
        let pause = Pause { since: 1_000_000, length: Some(60_000) };
        assert_eq!(pause.left(1_010_000), Some(Some(Duration::from_secs(50))));
        assert_eq!(pause.left(1_060_000), None);
        // The clock is set back: the whole pause begins again, and then ends.
        let anchored = pause.anchored(400_000);
        assert_eq!(anchored.left(400_000), Some(Some(Duration::from_secs(60))));
        assert_eq!(anchored.left(460_000), None);
        assert_eq!(Pause { length: None, ..pause }.left(u64::MAX), Some(None));
    }
}
