//! What a sync did.

use opship_record::answer::{Reason, Verdict};
use opship_record::entry::BodyKind;
use serde::{Deserialize, Serialize};

/// What a sync did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SyncReport {
    /// The entries that got an answer, in the order of their verdicts.
    pub entries: Vec<EntryReport>,
    /// What came from others.
    pub pulled: PullReport,
    /// Bytes sent, headers included.
    pub sent: u64,
    /// Bytes received, headers included.
    pub received: u64,
    /// How long it took.
    pub seconds: f64,
}

/// How one entry fared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EntryReport {
    /// The log's number of it.
    pub number: u64,
    /// Operation or value.
    #[serde(with = "wire::kind")]
    pub kind: BodyKind,
    /// The command line, or a summary of the changes.
    pub command: String,
    /// How it ended; `None`: it waits.
    #[serde(with = "wire::verdict")]
    pub verdict: Option<Verdict>,
    /// Why it is not `matched`.
    #[serde(with = "wire::reason")]
    pub reason: Option<Reason>,
    /// What the server says about it.
    pub detail: Option<String>,
    /// Does it wait for an entry that ended `rejected` or `conflicted`?
    pub parked: bool,
    /// Could it not be shipped? It stays in the log, and `detail` says what to do.
    #[serde(default)]
    pub failed: bool,
    /// Bytes sent for it, its share of headers included.
    pub sent: u64,
    /// Bytes received for it.
    pub received: u64,
    /// Bytes that its results would have cost by value, compressed.
    pub value_bytes: u64,
    /// Time of the replay in microseconds, if there was one.
    pub replay_micros: Option<u64>,
    /// From the first request to the verdict, in seconds.
    pub seconds: f64,
}

/// An operation of another that was replayed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    /// The version that it made.
    pub version: u64,
    /// Bytes of contents that need not be downloaded.
    pub saved: u64,
    /// How long it took, in microseconds.
    pub micros: u64,
}

/// What came from others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PullReport {
    /// Number of the version that the working copy stands on now.
    pub version: u64,
    /// Paths that were brought to another state.
    pub changed: u64,
    /// Paths that wait because of local changes, with the reason.
    pub deferred: Vec<(String, String)>,
    /// Operations of others that were replayed here, and what that saved.
    pub replayed: Vec<Replayed>,
    /// Names that came and that other systems cannot hold, or not beside each other, with the reason.
    pub names: Vec<(String, String)>,
    /// Conflict copies that were made.
    pub conflict_copies: Vec<String>,
    /// What a person should know besides.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl SyncReport {
    /// This one and one that followed it, as one.
    pub(crate) fn and(mut self, later: SyncReport) -> SyncReport {
        self.entries.retain(|entry| later.entries.iter().all(|newer| newer.number != entry.number));
        self.entries.extend(later.entries);
        self.pulled.version = later.pulled.version;
        self.pulled.changed += later.pulled.changed;
        self.pulled.deferred = later.pulled.deferred;
        self.pulled.replayed.extend(later.pulled.replayed);
        self.pulled.names.extend(later.pulled.names);
        self.pulled.conflict_copies.extend(later.pulled.conflict_copies);
        self.pulled.notes.extend(later.pulled.notes);
        self.sent += later.sent;
        self.received += later.received;
        self.seconds += later.seconds;
        self
    }

    /// Was there something that could not be shipped?
    pub fn has_failed(&self) -> bool {
        self.entries.iter().any(|entry| entry.failed || entry.verdict == Some(Verdict::Rejected))
    }

    /// Is there something to tell of it?
    pub fn is_eventful(&self) -> bool {
        !self.entries.is_empty()
            || self.pulled.changed > 0
            || !self.pulled.conflict_copies.is_empty()
            || !self.pulled.notes.is_empty()
    }
}

/// The record's words in JSON: by their names.
mod wire {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    macro_rules! by_name {
        ($module:ident, $type:ty) => {
            pub(super) mod $module {
                use super::*;

                pub(crate) fn serialize<S: Serializer>(value: &Option<$type>, to: S) -> Result<S::Ok, S::Error> {
                    value.map(<$type>::name).serialize(to)
                }

                pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<$type>, D::Error> {
                    let Some(name) = Option::<String>::deserialize(from)? else { return Ok(None) };
                    let found = <$type>::ALL.into_iter().find(|known| known.name() == name);
                    found.map(Some).ok_or_else(|| de::Error::custom(format!("unknown word '{name}'")))
                }
            }
        };
    }

    by_name!(verdict, opship_record::answer::Verdict);
    by_name!(reason, opship_record::answer::Reason);

    pub(super) mod kind {
        use super::*;
        use opship_record::entry::BodyKind;

        pub(crate) fn serialize<S: Serializer>(kind: &BodyKind, to: S) -> Result<S::Ok, S::Error> {
            (*kind == BodyKind::Operation).serialize(to)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BodyKind, D::Error> {
            Ok(if bool::deserialize(from)? { BodyKind::Operation } else { BodyKind::Value })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(number: u64, verdict: Option<Verdict>) -> EntryReport {
        EntryReport {
            number,
            kind: BodyKind::Value,
            command: "a".to_owned(),
            verdict,
            reason: Some(Reason::NoOperation),
            detail: None,
            parked: false,
            failed: false,
            sent: 1,
            received: 2,
            value_bytes: 3,
            replay_micros: None,
            seconds: 0.5,
        }
    }

    #[test]
    fn a_report_comes_back_from_json_as_it_was() {
        let report =
            SyncReport { entries: vec![entry(1, Some(Verdict::Shipped)), entry(2, None)], ..Default::default() };
        let text = serde_json::to_string(&report).unwrap();
        let back: SyncReport = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{back:?}"), format!("{report:?}"));
        assert!(serde_json::from_str::<SyncReport>(&text.replace("shipped", "vanished")).is_err());
    }

    #[test]
    fn of_two_reports_the_later_one_says_how_an_entry_stands() {
        let first = SyncReport { entries: vec![entry(1, None), entry(2, None)], sent: 5, ..Default::default() };
        let later = SyncReport { entries: vec![entry(1, Some(Verdict::Shipped))], sent: 7, ..Default::default() };
        let both = first.and(later);
        let verdicts: Vec<_> = both.entries.iter().map(|entry| (entry.number, entry.verdict)).collect();
        assert_eq!(verdicts, [(2, None), (1, Some(Verdict::Shipped))]);
        assert_eq!(both.sent, 12);
    }
}
