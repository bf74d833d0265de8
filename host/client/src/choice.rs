//! Which way an operation goes: by its record or by its results (DESIGN.md §5, Cost model). Plain arithmetic.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How operations are shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ship {
    /// By record, unless the results are predicted to arrive sooner.
    #[default]
    Auto,
    /// Always by record; the server asks for results where it needs them.
    Operation,
    /// Always by results.
    Value,
}

/// A link as far as it was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub round_trip: Duration,
    /// Bytes a second.
    pub rate: f64,
}

/// What one way is predicted to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Cost {
    /// Bytes that are sent.
    #[n(0)]
    pub bytes: u64,
    /// Time until the verdict, in microseconds.
    #[n(1)]
    pub micros: u64,
}

/// What was predicted for an entry before it was shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Prediction {
    /// By its record.
    #[n(0)]
    pub operation: Cost,
    /// By its results.
    #[n(1)]
    pub value: Cost,
    /// Were the results chosen?
    #[n(2)]
    pub by_value: bool,
}

/// What is known of an operation before it is shipped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Known {
    /// Bytes of its record.
    pub record: u64,
    /// Time of the run here; `None`: it was not measured.
    pub run: Option<Duration>,
    /// Time of a replay there by that of the run here, for its modules.
    pub pace: f64,
    /// Bytes of modules that the server is not known to have.
    pub modules: u64,
}

/// What the results of an operation are predicted to take by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Results {
    /// Bytes that are sent.
    pub bytes: u64,
    /// Bytes that are read and compared or compressed to make these, while they are sent.
    pub read: u64,
}

/// A link that was not measured yet is taken to be this fast, in bytes a second.
pub(crate) const UNMEASURED_RATE: f64 = 1e6;
/// No link is taken to be slower than this, in bytes a second: 9.6 kbit/s with what goes below IP.
const SLOWEST_RATE: f64 = 1e3;
/// How much longer a replay takes than the run here where that was never seen: the server has other things to do too.
pub(crate) const UNSEEN_PACE: f64 = 1.5;
/// Bytes that a request takes besides the entry: heads, both ways.
const HEADS: u64 = 420;
/// What a compressed module is of its length, and how fast a server compiles it, in bytes a second.
const MODULE_RATIO: f64 = 0.4;
const COMPILE_RATE: f64 = 3e6;
/// How fast results are compared with what the server has, or compressed, in bytes a second.
const READ_RATE: f64 = 150e6;
/// What comparing them beforehand may take of the time that the operation takes; so many bytes in any case.
const READING_SHARE: f64 = 0.02;
const LEAST_READ: u64 = 4 << 20;
/// Results above this many bytes are uploaded before the entry is sent: one round trip more.
const UPLOADED_FROM: u64 = 64 << 10;
/// What is not answered after this time is slow; before, the server may be busy for a moment. No results go beside a replay
/// before it.
pub(crate) const LEAST_PATIENCE: Duration = Duration::from_secs(2);
/// An operation that takes this much longer than its results still goes by its record, which says more.
const INDULGENCE: Duration = Duration::from_millis(30);
const INDULGENT_SHARE: f64 = 0.03;

impl Measured {
    /// What a request of so many bytes takes at most to be answered at once: the link may be worse than it was.
    pub(crate) fn longest(self, bytes: u64) -> Duration {
        Duration::from_micros(Measured { rate: self.rate.min(SLOWEST_RATE), ..self }.cost(bytes, 1.0, 0.0).micros)
    }

    pub(crate) fn cost(self, bytes: u64, round_trips: f64, computing: f64) -> Cost {
        let bytes = bytes + HEADS;
        let seconds = self.round_trip.as_secs_f64() * round_trips + bytes as f64 / self.rate.max(1.0) + computing;
        Cost { bytes, micros: (seconds * 1e6) as u64 }
    }
}

impl Known {
    /// What the record is predicted to take.
    pub(crate) fn cost(self, link: Measured) -> Cost {
        let known = self;
        let run = known.run.map_or(0.0, |run| run.as_secs_f64() * known.pace);
        let (mut bytes, mut round_trips, mut computing) = (known.record, 1.0, run);
        if known.modules > 0 {
            bytes += (known.modules as f64 * MODULE_RATIO) as u64;
            // The server says that it lacks it, then takes it, then replays.
            round_trips += 2.0;
            computing += known.modules as f64 / COMPILE_RATE;
        }
        link.cost(bytes, round_trips, computing)
    }
}

impl Cost {
    /// How long the answer to an operation is waited for before its results go too, which take this.
    pub(crate) fn patience(self) -> Duration {
        Duration::from_micros(self.micros).max(LEAST_PATIENCE)
    }

    /// Bytes of results that may be read before it is known which way is taken, for what the choice may take.
    pub(crate) fn worth_reading(self) -> u64 {
        ((self.micros as f64 / 1e6 * READING_SHARE * READ_RATE) as u64).max(LEAST_READ)
    }

    /// Does it take so little that nothing else can be sooner by enough to matter?
    pub(crate) fn is_bearable(self) -> bool {
        u128::from(self.micros) <= INDULGENCE.as_micros()
    }
}

impl Prediction {
    /// Compares an operation with its results over a link, and takes one as `ship` says.
    pub(crate) fn new(operation: Cost, results: Results, link: Measured, ship: Ship) -> Prediction {
        let Results { bytes, read } = results;
        let reading = (read as f64 / READ_RATE - bytes as f64 / link.rate.max(1.0)).max(0.0);
        let value = link.cost(bytes, if bytes > UPLOADED_FROM { 2.0 } else { 1.0 }, reading);
        let bearable = value.micros as f64 * (1.0 + INDULGENT_SHARE) + INDULGENCE.as_micros() as f64;
        let by_value = match ship {
            Ship::Auto => operation.micros as f64 > bearable,
            Ship::Operation => false,
            Ship::Value => true,
        };
        Prediction { operation, value, by_value }
    }

    /// What the chosen way was predicted to take.
    pub fn chosen(&self) -> Cost {
        if self.by_value { self.value } else { self.operation }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn link(round_trip_ms: u64, rate: f64) -> Measured {
        Measured { round_trip: Duration::from_millis(round_trip_ms), rate }
    }

    fn known(run_ms: u64) -> Known {
        Known { record: 300, run: Some(Duration::from_millis(run_ms)), pace: 1.0, modules: 0 }
    }

    fn bytes(bytes: u64) -> Results {
        Results { bytes, read: bytes }
    }

    fn is_by_value(results: u64, known: Known, link: Measured) -> bool {
        Prediction::new(known.cost(link), bytes(results), link, Ship::Auto).by_value
    }

    #[test]
    fn a_small_difference_of_large_results_counts_as_what_it_is_and_takes_reading() {
        let (network, edit) = (link(0, 1e8), Results { bytes: 1_000, read: 1 << 30 });
        let of = |run| Prediction::new(known(run).cost(network), edit, network, Ship::Auto).by_value;
        assert_eq!([of(5_000), of(10_000)], [false, true]);
    }

    #[test]
    fn slow_links_take_the_record_and_long_runs_on_fast_ones_the_results() {
        let (modem, network) = (link(100, 1_200.0), link(0, 1e8));
        assert!(!is_by_value(16_000, known(5_000), modem));
        assert!(is_by_value(1_000_000, known(5_000), network));
        assert!(!is_by_value(1_000_000, known(5), network));
        // A result that is smaller than the record.
        assert!(is_by_value(80, known(1), modem));
        assert!(!is_by_value(80, known(1), network));
    }

    #[test]
    fn a_module_that_is_new_to_the_server_counts() {
        let modem = link(100, 1_200.0);
        assert!(is_by_value(16_000, Known { modules: 2_000_000, ..known(5) }, modem));
        assert!(!is_by_value(16_000_000, Known { modules: 2_000_000, ..known(5) }, modem));
    }

    #[test]
    fn what_the_user_says_counts_first() {
        let network = link(0, 1e8);
        let of = |ship| Prediction::new(known(60_000).cost(network), bytes(80), network, ship).by_value;
        assert_eq!([of(Ship::Operation), of(Ship::Value), of(Ship::Auto)], [false, true, true]);
    }

    proptest! {
        #[test]
        fn the_chosen_way_is_never_predicted_to_be_much_slower_than_the_results(
            record in 0u64..10_000, results in 0u64..1 << 40, run in proptest::option::of(0u64..1 << 40),
            modules in 0u64..1 << 32, round_trip in 0u64..10_000, rate in 1f64..1e10, pace in 0f64..100.0,
        ) {
            let known = Known { record, run: run.map(Duration::from_micros), pace, modules };
            let link = link(round_trip, rate);
            let prediction = Prediction::new(known.cost(link), bytes(results), link, Ship::Auto);
            let limit = prediction.value.micros as f64 * 1.05 + 50_000.0;
            prop_assert!(prediction.chosen().micros as f64 <= limit);
        }
    }
}
