//! The command line.

use crate::admin_args::Admin;
use crate::bundle_args::Bundle;
use crate::commands::join::Join;
use crate::commands::link::LinkArguments;
use crate::commands::pause::{Pause, Resume};
use crate::commands::watch::Watch;
use crate::limits::{RunLimits, ServeLimits};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Keeps folders in sync over slow links by shipping the operation, not its result.
#[derive(Debug, Parser)]
#[command(name = "opship", version, about, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Work as if started in DIR
    #[arg(short = 'C', global = true, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a server
    Serve(Serve),
    /// Make a folder a working copy of a workspace; the workspace is made if the server has none of that name
    Init(Init),
    /// Get a workspace into a new folder
    Clone(Clone),
    /// Get into a workspace with the line of an invite, and make a working copy of it
    Join(Join),
    /// Carry a workspace, and what waits to be shipped, by disk
    #[command(subcommand)]
    Bundle(Bundle),
    /// Make a working copy an ordinary folder again; its files stay
    Leave(Leave),
    /// Run a module on the working copy and record the operation
    Run(Run),
    /// Show what changed since the last recorded state, and what waits to be shipped
    Status(Status),
    /// Ship what waits, then get what others did
    Sync(Sync),
    /// Keep the working copy in sync until ended (Ctrl-C)
    Watch(Watch),
    /// Let the watch rest, for a while or until 'opship resume'
    Pause(Pause),
    /// End a pause of the watch
    Resume(Resume),
    /// Take an entry that waits out of the log; its results stay as ordinary changes of files
    Drop(Drop),
    /// Bring back what was before an entry; of one that was run again on other inputs, its own result
    Undo(Undo),
    /// List what conflicts left to decide: paths with other states beside them
    Conflicts(Conflicts),
    /// Decide conflicts: keep the copy, what is at the path, or both
    Resolve(Resolve),
    /// Bring back files and folders of an earlier version
    Restore(Restore),
    /// Show what differs between versions, or between a version and the folder
    Diff(Diff),
    /// List the entries of this working copy, or the versions of the workspace
    Log(Log),
    /// Show one entry: what it ran, saw and did, and how it ended
    Show(Show),
    /// Tell which entry made a path, how it travelled and why
    Why(Why),
    /// Register, list and remove modules
    #[command(subcommand)]
    Module(Module),
    /// Show what opship's own folder takes in this working copy
    Du {},
    /// Let people in, and keep a server in order (for its administrators)
    #[command(subcommand)]
    Admin(Admin),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Have programs recorded that you call as ever, by links that stand before them in PATH
    #[command(subcommand)]
    Shims(Shims),
    /// Let programs of yours log their own operations, by a socket in the working copy, until ended (docs/record-api.md)
    RecordApi,
    /// Record a program that has ended (opship starts this itself)
    #[command(name = "__record", hide = true)]
    Record,
    /// Compile a module in a locked-down process (opship starts this itself)
    #[command(name = "__compile", hide = true)]
    Compile,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Folder for the server's data [default: ~/.local/share/opship]
    #[arg(long, value_name = "DIR", env = "OPSHIP_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7420", env = "OPSHIP_LISTEN")]
    pub(crate) listen: SocketAddr,
    /// Never replay: everything is shipped by value
    #[arg(long)]
    pub(crate) no_replay: bool,
    /// Replays at once [default: the number of processors]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,
    /// Listen beyond loopback although the connection is not encrypted
    #[arg(long)]
    pub(crate) insecure: bool,
    #[command(flatten)]
    pub(crate) limits: ServeLimits,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The folder
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The server's address
    #[arg(long, value_name = "URL", env = "OPSHIP_SERVER", default_value = "http://127.0.0.1:7420")]
    pub(crate) server: String,
    /// The workspace's name
    #[arg(long, value_name = "NAME")]
    pub(crate) workspace: String,
    /// What others see this client called [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Clone {
    /// The server's address and the workspace's name: http://host:port/NAME
    #[arg(value_name = "URL/NAME", required_unless_present = "bundle")]
    pub(crate) source: Option<String>,
    /// Get it out of a bundle, without the server that the bundle names
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// The folder to make [default: the workspace's name]
    pub(crate) dir: Option<PathBuf>,
    /// What others see this client called [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Leave {
    /// Leave although entries wait to be shipped; they are lost, the files stay
    #[arg(long)]
    pub(crate) force: bool,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A registered module's name, or a .wasm file (a WASI preview 1 command); with --native a program's name
    pub(crate) module: OsString,
    /// Run this machine's own program, and record it as the module that stands for it
    #[arg(long, conflicts_with_all = ["environment", "stdin", "output", "argv0"])]
    pub(crate) native: bool,
    /// Give the module an environment variable; it sees no other but LANG and TZ
    #[arg(long = "env", value_name = "K=V")]
    pub(crate) environment: Vec<OsString>,
    /// Read standard input from a file ('-': this command's own)
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin: Option<OsString>,
    /// Write standard output to a workspace file, as an effect of the operation
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output: Option<OsString>,
    /// First argument that the module sees [default: the module's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) argv0: Option<OsString>,
    #[command(flatten)]
    pub(crate) limits: RunLimits,
    /// Arguments for the module, after '--'
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Shims {
    /// Make shims for programs
    Enable {
        /// The programs' names
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove shims
    Disable {
        /// Their names
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// List the shims, with the programs and modules that they stand for
    List {},
}

#[derive(Debug, Args)]
pub(crate) struct Status {}

#[derive(Debug, Args)]
pub(crate) struct Sync {
    /// Show every entry, also those that need no attention
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Only say what would be shipped, and how
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) link: LinkArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Drop {
    /// The entry's number; what waits for it is dropped too
    pub(crate) entry: u64,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Log {
    /// At most N entries, newest first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,
    /// List the workspace's versions instead, with who made them
    #[arg(long)]
    pub(crate) versions: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// The entry's number
    pub(crate) entry: u64,
    /// Undo although paths were changed since; what is there now is kept beside
    #[arg(long)]
    pub(crate) force: bool,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Conflicts {}

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// The paths, or copies of them; patterns such as 'docs/**' are in quotes
    #[arg(value_name = "PATH", required_unless_present = "all")]
    pub(crate) paths: Vec<String>,
    /// All conflicts
    #[arg(long, conflicts_with = "paths")]
    pub(crate) all: bool,
    /// What to keep: mine is the copy, theirs is what is at the path
    #[arg(long, value_enum)]
    pub(crate) keep: Keep,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Keep {
    /// The copy comes to the path
    Mine,
    /// The copy goes
    Theirs,
    /// The copy stays under another name
    Both,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// Files and folders; '.' from the root is everything
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// The version; 'opship log --versions' lists them
    #[arg(long, value_name = "N")]
    pub(crate) version: u64,
    /// Put them below this folder instead, in the working copy or elsewhere
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Only what is at and below this path
    pub(crate) path: Option<PathBuf>,
    /// The first version [default: the one that the working copy stands on]
    #[arg(long, value_name = "A")]
    pub(crate) version: Option<u64>,
    /// The second version [default: the folder as it is]
    #[arg(long, value_name = "B")]
    pub(crate) to: Option<u64>,
    /// Only names, kinds of change and sizes
    #[arg(long)]
    pub(crate) brief: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The entry's number
    pub(crate) entry: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The path
    pub(crate) path: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Module {
    /// Register a module under a name
    Add {
        /// The .wasm file
        file: PathBuf,
        /// The name
        #[arg(long)]
        name: String,
        /// A folder that the module finds read-only at a path
        #[arg(long = "mount", value_name = "/PATH=DIR")]
        mounts: Vec<OsString>,
        /// First argument that the module sees [default: its name]
        #[arg(long, value_name = "NAME")]
        argv0: Option<String>,
    },
    /// List the modules that can be named here
    List,
    /// Show one module: hash, size, mounts, imports
    Show {
        /// The name
        name: String,
    },
    /// Tell what a module's output depends on and what it costs, by running it in worlds that differ in one thing each
    Check(ModuleCheck),
    /// Remove a module's name; entries that used it stay
    Remove {
        /// The name
        name: String,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ModuleCheck {
    /// A registered module's name, or a .wasm file (a WASI preview 1 command)
    pub(crate) module: OsString,
    /// Give the module an environment variable; it sees no other but LANG and TZ
    #[arg(long = "env", value_name = "K=V")]
    pub(crate) environment: Vec<OsString>,
    /// Read standard input from a file ('-': this command's own)
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin: Option<OsString>,
    /// Run on a folder, which is only read [default: the working copy; an empty tree outside of one]
    #[arg(long, value_name = "DIR")]
    pub(crate) tree: Option<PathBuf>,
    /// Limits of each run.
    #[command(flatten)]
    pub(crate) limits: RunLimits,
    /// Arguments for the module, after '--'
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}
