//! `opship pause` and `resume`.

use super::here;
use crate::{duration, output};
use clap::Args;
use opship_client::ClientError;
use opship_client::watch::nudge;
use serde_json::json;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// For how long, such as 2h [default: until 'opship resume']
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    length: Option<Duration>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn pause(arguments: &Pause, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    if !arguments.dry_run {
        copy.pause(arguments.length)?;
        nudge(&copy);
    }
    let seconds = arguments.length.map(|length| length.as_secs());
    if json {
        output::json(&json!({ "paused": true, "seconds_left": seconds, "done": !arguments.dry_run }));
        return Ok(());
    }
    let verb = if arguments.dry_run { "would be" } else { "is" };
    let end = arguments.length.map_or("until 'opship resume'".to_owned(), |l| format!("for {}", duration::shown(l)));
    output::line(&format!("the watch of {} {verb} paused {end}; 'opship sync' still works", copy.path().display()));
    Ok(())
}

pub(super) fn resume(arguments: &Resume, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let was = match arguments.dry_run {
        true => copy.paused()?.is_some(),
        false => copy.resume()?,
    };
    if !arguments.dry_run {
        nudge(&copy);
    }
    if json {
        output::json(&json!({ "paused": false, "was_paused": was, "done": !arguments.dry_run }));
        return Ok(());
    }
    output::line(match (was, arguments.dry_run) {
        (false, _) => "the watch was not paused",
        (true, true) => "the pause would be over",
        (true, false) => "the pause is over",
    });
    Ok(())
}
