//! Before operations are shipped: whether their records or their results arrive sooner, and what is learned from what came.

use super::{Sync, value_cost};
use crate::choice::{Cost, Known, Measured, Prediction, Results, Ship, UNMEASURED_RATE, UNSEEN_PACE};
use crate::log::LogEntry;
use crate::modules::ModuleBook;
use crate::transfer::Memory;
use crate::{ClientError, WorkingCopy};
use opship_record::Hash;
use opship_record::answer::{Answer, Reason, Status};
use opship_record::effect::Before;
use opship_record::entry::{Body, BodyKind};
use std::collections::BTreeSet;
use std::time::Duration;

/// The named value that holds the shortest round trip of the last sync, in microseconds.
const ROUND_TRIP: &str = "net.round-trip";
/// Before a module's hash, the name of the value that holds how long its replays take by its runs here, in thousandths.
const PACE: &str = "net.pace.";
/// The weight of what was known of a module's pace, against 1 of what is new.
const PACE_MEMORY: f64 = 3.0;

/// How an entry travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By its record.
    Operation,
    /// By contents: compressed, in chunks of which those that the server has are named.
    Value,
    /// By contents as their difference to what the server has of them.
    Delta,
    /// By the names of contents that the server has.
    Reference,
}

impl Way {
    /// The word for people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Way::Operation => "operation",
            Way::Value => "value",
            Way::Delta => "delta",
            Way::Reference => "reference",
        }
    }
}

/// How an entry that waits would be shipped now.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The entry.
    pub entry: LogEntry,
    /// The way.
    pub way: Way,
    /// What it is predicted to take; of a delta at most so many bytes.
    pub cost: Cost,
    /// Why this way, for people.
    pub why: String,
}

/// How the entries that wait would be shipped now, in order.
///
/// # Errors
/// [`ClientError::Database`], [`ClientError::Io`].
pub fn plan(copy: &WorkingCopy, book: &ModuleBook, ship: Option<Ship>) -> Result<Vec<Planned>, ClientError> {
    let memory = Memory::open(&copy.own_folder());
    let predictor = Predictor::new(copy, book, &memory, ship.unwrap_or(copy.config().ship))?;
    copy.pending()?.into_iter().map(|entry| predictor.plan(entry)).collect()
}

/// Predicts for one entry after the other.
struct Predictor<'a> {
    copy: &'a WorkingCopy,
    book: &'a ModuleBook,
    memory: &'a Memory,
    link: Measured,
    ship: Ship,
    /// Hashes of the modules that every server of this build has.
    standard: BTreeSet<Hash>,
}

impl<'a> Predictor<'a> {
    /// For the link as it was measured last.
    fn new(
        copy: &'a WorkingCopy,
        book: &'a ModuleBook,
        memory: &'a Memory,
        ship: Ship,
    ) -> Result<Predictor<'a>, ClientError> {
        Ok(Predictor { copy, book, memory, link: measured(copy)?, ship, standard: book.standard_hashes() })
    }

    fn plan(&self, entry: LogEntry) -> Result<Planned, ClientError> {
        if entry.kind == BodyKind::Value {
            return self.plan_value(entry);
        }
        let Some(prediction) = self.predict(&entry)? else {
            let link = self.link;
            let cost = Known { record: entry.body.len() as u64, run: None, pace: 1.0, modules: 0 }.cost(link);
            return Ok(Planned { entry, way: Way::Operation, cost, why: "it changes no file".to_owned() });
        };
        let way = if prediction.by_value { Way::Value } else { Way::Operation };
        Ok(Planned { entry, way, cost: prediction.chosen(), why: why(&prediction, self.ship) })
    }

    fn plan_value(&self, entry: LogEntry) -> Result<Planned, ClientError> {
        let changes = self.copy.lists(entry.number)?.changes;
        let (mut new, mut with_base) = (0, 0);
        for change in &changes {
            let Some((_, hash)) = change.after.blob() else { continue };
            if self.copy.is_with_server(&hash)? || self.copy.is_produced(&hash, entry.number)? {
                continue;
            }
            let has_base = matches!(change.before, Before::File { hash } if self.memory.has_signature(&hash));
            *(if has_base { &mut with_base } else { &mut new }) += 1;
        }
        let (way, why) = match (new, with_base) {
            (0, 0) => (Way::Reference, "the server has the contents, or makes them".to_owned()),
            (0, count) => (Way::Delta, format!("the server has earlier contents of {count} of the paths")),
            (count, _) => (Way::Value, format!("{count} of the contents are new")),
        };
        let bytes = if way == Way::Reference { 0 } else { value_cost::estimate(self.copy, &entry)? };
        Ok(Planned { entry, way, cost: self.link.cost(bytes, 1.0, 0.0), why })
    }

    /// What an operation that waits would take; `None` for a value, and for what has no results that could travel instead.
    fn predict(&self, entry: &LogEntry) -> Result<Option<Prediction>, ClientError> {
        let Body::Operation(record) = Body::decode(entry.kind, &entry.body)? else { return Ok(None) };
        if record.content.is_none() {
            return Ok(None);
        }
        let (mut modules, mut pace) = (0, None::<f64>);
        for module in record.plan.steps.iter().map(|step| step.module).collect::<BTreeSet<_>>() {
            match pace_of(self.copy, &module)? {
                Some(known) => pace = Some(pace.map_or(known, |pace| pace.max(known))),
                None if self.standard.contains(&module) => {}
                None => modules += self.book.length(&module)?,
            }
        }
        let known = Known {
            record: entry.body.len() as u64 + super::native::parts_bytes(self.copy, entry, &record)?,
            run: entry.run_micros.map(Duration::from_micros),
            pace: pace.unwrap_or(UNSEEN_PACE),
            modules,
        };
        let operation = known.cost(self.link);
        // Reading and compressing all results would cost more than it could save then.
        let results = match operation.is_bearable() {
            true => Results { bytes: entry.value_bytes, read: 0 },
            false => value_cost::predict(self.copy, self.memory, entry, operation.worth_reading())?,
        };
        Ok(Some(Prediction::new(operation, results, self.link, self.ship)))
    }
}

/// How long the answer to an operation is waited for before its results go too.
pub(super) fn patience(entry: &LogEntry, link: Measured) -> Duration {
    entry.prediction.map_or_else(|| link.cost(entry.value_bytes, 2.0, 0.0), |known| known.value).patience()
}

/// The link as it was measured last.
pub(super) fn measured(copy: &WorkingCopy) -> Result<Measured, ClientError> {
    let round_trip = copy.setting(ROUND_TRIP)?.and_then(|text| text.parse().ok()).map(Duration::from_micros);
    let rate = copy.rate()?.map_or(UNMEASURED_RATE, |rate| rate as f64);
    Ok(Measured { round_trip: round_trip.unwrap_or_default(), rate })
}

/// Why a way was taken.
fn why(prediction: &Prediction, ship: Ship) -> String {
    if ship != Ship::Auto {
        return "as the options or the configuration say".to_owned();
    }
    let seconds = |cost: Cost| cost.micros as f64 / 1e6;
    let (operation, value) = (seconds(prediction.operation), seconds(prediction.value));
    if prediction.by_value {
        return format!("its results arrive after {value:.2} s, a replay would take until {operation:.2} s");
    }
    if prediction.operation.micros <= prediction.value.micros {
        return format!("its results would take {value:.2} s");
    }
    format!("its results would take {value:.2} s, which is hardly less")
}

fn pace_of(copy: &WorkingCopy, module: &Hash) -> Result<Option<f64>, ClientError> {
    let text = copy.setting(&format!("{PACE}{module}"))?;
    Ok(text.and_then(|text| text.parse::<f64>().ok()).map(|thousandths| thousandths / 1e3))
}

impl Sync<'_> {
    /// Predicts for every operation that was not sent yet, and makes values of those whose results arrive sooner.
    pub(super) fn choose(&mut self) -> Result<(), ClientError> {
        let is_new = |entry: &LogEntry| {
            entry.kind == BodyKind::Operation && !entry.sent && entry.answer.is_none() && entry.prediction.is_none()
        };
        let new: Vec<LogEntry> = self.copy.pending()?.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        // Over a metered link bytes count, and operations are what it is open for.
        let ship = match (self.ship, self.limited_link()) {
            (Ship::Auto, Some(_)) => Ship::Operation,
            (ship, _) => ship,
        };
        let predictor = Predictor::new(self.copy, self.book, &self.memory, ship)?;
        for entry in new {
            let Some(prediction) = predictor.predict(&entry)? else { continue };
            let taken = prediction.by_value && self.copy.ship_results(&entry, Reason::CheaperByValue)?;
            let prediction = Prediction { by_value: taken, ..prediction };
            self.copy.set_prediction(entry.number, &prediction)?;
        }
        Ok(())
    }

    /// Remembers what the next choice reckons with.
    pub(super) fn note_round_trip(&self) -> Result<(), ClientError> {
        match self.api.counter().round_trip() {
            Some(round_trip) => self.copy.set_setting(ROUND_TRIP, &round_trip.as_micros().to_string()),
            None => Ok(()),
        }
    }

    /// Learns how long a replay takes from one that came to its end.
    pub(super) fn learn(&self, entry: &LogEntry, answer: &Answer) -> Result<(), ClientError> {
        let (Status::Ended, Some(there), Some(here)) = (answer.status, answer.replay_micros, entry.run_micros) else {
            return Ok(());
        };
        let Body::Operation(record) = Body::decode(entry.kind, &entry.body)? else { return Ok(()) };
        // What is over at once says nothing of the pace, and pauses of the machine would count too much.
        let new = (there as f64).max(1e3) / (here as f64).max(1e3);
        for module in record.plan.steps.iter().map(|step| step.module).collect::<BTreeSet<_>>() {
            let pace = match pace_of(self.copy, &module)? {
                Some(known) => (known * PACE_MEMORY + new) / (PACE_MEMORY + 1.0),
                None => new,
            };
            self.copy.set_setting(&format!("{PACE}{module}"), &((pace * 1e3) as u64).to_string())?;
        }
        Ok(())
    }
}
