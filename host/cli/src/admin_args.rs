//! The command line of `opship admin`.

use crate::commands::invite::Invite;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Admin {
    /// Let somebody into a workspace: prints one line for 'opship join', which works once
    Invite(Invite),
    /// Forget versions beyond their workspace's retention, and remove what nothing needs any more
    Gc(Gc),
    /// Read all that the server stores and tell what is damaged, and which paths and versions that reaches
    Fsck(Fsck),
    /// Show what takes room on the server
    Du(Du),
    /// Show or set the settings of a workspace
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
}

/// Which server.
#[derive(Debug, Args)]
pub(crate) struct On {
    /// The server's address [default: that of the working copy here, or http://127.0.0.1:7420]
    #[arg(long, value_name = "URL", env = "OPSHIP_SERVER")]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Gc {
    #[command(flatten)]
    pub(crate) on: On,
    /// Only say what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Fsck {
    #[command(flatten)]
    pub(crate) on: On,
    /// Check a data folder whose server does not run
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Remove what is safe to remove: files that nothing names
    #[arg(long)]
    pub(crate) repair: bool,
    /// Remove nothing, also with --repair
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Du {
    #[command(flatten)]
    pub(crate) on: On,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Show the settings
    Show {
        /// The workspace
        name: String,
        #[command(flatten)]
        on: On,
    },
    /// Change settings: rebase=allow|forbid, retention.all-days=N, retention.daily-days=N, largest-file=BYTES|none
    Set {
        /// The workspace
        name: String,
        /// What to set
        #[arg(value_name = "KEY=VALUE", required = true)]
        settings: Vec<String>,
        /// Only say what would change
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        on: On,
    },
}
