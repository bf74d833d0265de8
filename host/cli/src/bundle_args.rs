//! The command line of `opship bundle`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Bundle {
    /// Put the version that the working copy stands on, and what waits to be shipped, into one file
    Create(Create),
    /// Bring a bundle's version to the working copy or to an empty folder; with --server, ship the entries that it carries
    Apply(Apply),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The file to make, outside of the working copy
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Leave out the contents that this version holds: whoever gets the bundle stands on it or on a later one
    #[arg(long, value_name = "VERSION")]
    pub(crate) since: Option<u64>,
    /// Only say what would be in it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The bundle
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Ship the bundle's entries to this server, which holds its workspace; needs no working copy
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// What others see a new working copy called [default: the host's name]
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    pub(crate) name: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}
