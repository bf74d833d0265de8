//! Installing Debian packages, with the consent that the machine's owner gave.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::process::Command;
use std::time::Duration;

use crate::context::{Context, announce};
use crate::error::{Error, Result};
use crate::process;

/// A mirror that hangs must not hang us for ever; downloads of this size take minutes at most.
const LIMIT: Duration = Duration::from_secs(900);

/// Installs `packages`: as root at once; otherwise by sudo with `--yes` or a yes at the terminal.
/// Without either, the error is the exact command to type, and `why` says what needs it.
pub(crate) fn install(context: &Context, packages: &[&str], why: &str) -> Result<()> {
    let command = by_hand(packages);
    if process::find("apt-get").is_none() {
        return Err(Error::Missing(format!(
            "{why} needs the Debian packages {}, and this machine has no apt-get; \
             install what they hold by its own means",
            packages.join(" ")
        )));
    }
    let root = rustix::process::geteuid().is_root();
    if !root && !consent(context, &command, why)? {
        return Err(Error::Missing(format!(
            "{why} needs more Debian packages; install them with\n    {command}\n\
             or run this command again with --yes"
        )));
    }
    announce(&format!("installing {} ({why})", packages.join(" ")));
    let log = context.notes()?.join("apt.log");
    process::run_logged(&mut apt_get(root, &["update"]), &log, LIMIT)?;
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(packages);
    process::run_logged(&mut apt_get(root, &arguments), &log, LIMIT)
}

/// The command that installs `packages`, as one types it.
pub(crate) fn by_hand(packages: &[&str]) -> String {
    format!("sudo apt-get install -y --no-install-recommends {}", packages.join(" "))
}

fn consent(context: &Context, command: &str, why: &str) -> Result<bool> {
    if process::find("sudo").is_none() {
        return Ok(false);
    }
    if context.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    eprint!("{why} needs\n    {command}\nRun it now? [y/N] ");
    let to_terminal = |source| Error::Io { what: "cannot ask at the terminal".to_owned(), source };
    io::stderr().flush().map_err(to_terminal)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(to_terminal)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn apt_get(root: bool, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = if root {
        process::clean("apt-get")
    } else {
        // sudo drops the environment, so the setting goes on its command line.
        let mut sudo = process::clean("sudo");
        sudo.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["-o", "Dpkg::Use-Pty=0", "-o", "Acquire::Retries=3"]);
    command.args(arguments);
    command
}
