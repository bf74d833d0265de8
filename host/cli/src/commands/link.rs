//! Links: which one is in use, what it has cost, and what waits for another.

use crate::output;
use clap::Args;
use opship_client::budget::{Link, LinkChoice, Size, link_to};
use opship_client::sync::waiting;
use opship_client::{ClientError, Scan, Ship, WorkingCopy};
use serde_json::{Value, json};

/// Options that choose a link.
#[derive(Debug, Args)]
pub(crate) struct LinkArguments {
    /// Go by this link's profile of the configuration; 'unmetered' stands for none [default: the first that fits]
    #[arg(long, value_name = "NAME", env = "OPSHIP_LINK")]
    link: Option<String>,
    /// Ship everything, whatever the link's profile says; it is counted all the same
    #[arg(long)]
    anyway: bool,
    /// How operations travel: 'auto' takes their results where those are predicted to arrive sooner
    /// [default: as .opship/config.toml says, else auto]
    #[arg(long, value_name = "HOW", env = "OPSHIP_SHIP", value_parser = ship)]
    ship: Option<Ship>,
}

fn ship(text: &str) -> Result<Ship, String> {
    match text {
        "auto" => Ok(Ship::Auto),
        "operation" => Ok(Ship::Operation),
        "value" => Ok(Ship::Value),
        _ => Err("use auto, operation or value".to_owned()),
    }
}

impl LinkArguments {
    pub(super) fn choice(&self) -> LinkChoice {
        LinkChoice { name: self.link.clone(), anyway: self.anyway, ship: self.ship }
    }
}

/// The link of a working copy, or why it cannot be told.
pub(super) struct Shown(Result<Option<Link>, String>);

/// What still waits after a sync over the chosen link.
pub(super) fn print_waiting_after_sync(copy: &WorkingCopy, choice: &LinkChoice) -> Result<(), ClientError> {
    match link_to(&copy.config().server.parse()?, choice)?.filter(Link::is_limited) {
        Some(link) => print_waiting(copy, &link, &copy.scan()?),
        None => Ok(()),
    }
}

fn print_waiting(copy: &WorkingCopy, link: &Link, scan: &Scan) -> Result<(), ClientError> {
    let waits = waiting(copy, link, scan)?;
    if waits.is_empty() {
        return Ok(());
    }
    output::line("waiting for another link ('opship sync --anyway' ships it now):");
    let rows: Vec<Vec<String>> = waits
        .iter()
        .map(|wait| {
            let number = wait.entry.map(|number| format!("entry {number}: ")).unwrap_or_default();
            vec![format!("  {}", output::bytes(wait.bytes)), format!("{number}{}", wait.what), wait.reason.clone()]
        })
        .collect();
    output::table(&rows, &[0]);
    Ok(())
}

/// The link that a sync would take, for `status`, which goes on where the configuration is wrong.
pub(super) fn shown(copy: &WorkingCopy) -> Shown {
    let found = copy.config().server.parse().and_then(|server| link_to(&server, &LinkChoice::default()));
    Shown(found.map_err(|error| error.to_string()))
}

impl Shown {
    pub(super) fn as_json(&self, copy: &WorkingCopy, scan: &Scan) -> Result<Value, ClientError> {
        let link = match &self.0 {
            Err(error) => return Ok(json!({ "error": error })),
            Ok(None) => return Ok(Value::Null),
            Ok(Some(link)) => link,
        };
        let (spent, budget) = (link.guard().spent()?, link.profile().budget);
        let waits = waiting(copy, link, scan)?;
        Ok(json!({
            "name": link.name(),
            "metered": link.profile().metered,
            "spent": { "day": spent.day, "month": spent.month },
            "budget": { "day": budget.day.map(Size::bytes), "month": budget.month.map(Size::bytes) },
            "waiting": waits.iter().map(|wait| json!({
                "entry": wait.entry, "what": wait.what, "bytes": wait.bytes, "reason": wait.reason,
            })).collect::<Vec<_>>(),
        }))
    }

    /// The link and what it has cost.
    pub(super) fn print(&self) -> Result<(), ClientError> {
        let link = match &self.0 {
            Err(error) => {
                output::error(error);
                return Ok(());
            }
            Ok(None) => return Ok(()),
            Ok(Some(link)) => link,
        };
        let (spent, budget) = (link.guard().spent()?, link.profile().budget);
        let of = |limit: Option<Size>| {
            limit.map(|limit| format!(" of {}", output::bytes(limit.bytes()))).unwrap_or_default()
        };
        let metered = if link.profile().metered { " (metered)" } else { "" };
        output::line(&format!(
            "link '{}'{metered}: {}{} today, {}{} this month",
            output::name(link.name()),
            output::bytes(spent.day),
            of(budget.day),
            output::bytes(spent.month),
            of(budget.month)
        ));
        Ok(())
    }

    /// What waits for another link, why, and what it would cost.
    pub(super) fn print_waiting(&self, copy: &WorkingCopy, scan: &Scan) -> Result<(), ClientError> {
        match &self.0 {
            Ok(Some(link)) => print_waiting(copy, link, scan),
            _ => Ok(()),
        }
    }
}
