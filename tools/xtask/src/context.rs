//! Where the repository and its target directory are, and how long each step took.

use std::cell::RefCell;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::process;

/// What every command knows.
pub(crate) struct Context {
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// `CARGO_TARGET_DIR`, or `target` in the repository; absolute.
    pub(crate) target: PathBuf,
    /// Whether `CI=true`: nothing may be skipped then.
    pub(crate) ci: bool,
    /// Whether system packages are installed without asking.
    pub(crate) yes: bool,
    steps: RefCell<Vec<Step>>,
}

struct Step {
    name: String,
    time: Duration,
    failed: bool,
}

impl Context {
    /// Finds the repository from what cargo says of this package.
    pub(crate) fn discover(yes: bool) -> Result<Self> {
        // At run time, so that a moved working tree is found where it is now.
        let package =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.join("../..");
        let root = root.canonicalize().map_err(Error::io("find the repository at", &root))?;
        let target = match env::var_os("CARGO_TARGET_DIR").filter(|value| !value.is_empty()) {
            Some(value) => std::path::absolute(&value).map_err(Error::io("resolve", Path::new(&value)))?,
            None => root.join("target"),
        };
        Ok(Self { root, target, ci: env::var("CI").is_ok_and(|value| value == "true"), yes, steps: RefCell::default() })
    }

    /// The folder of the guest workspace.
    pub(crate) fn guest_ops(&self) -> PathBuf {
        self.root.join("guest-ops")
    }

    /// Where notes from one run to the next are kept; made when missing.
    pub(crate) fn notes(&self) -> Result<PathBuf> {
        let folder = self.target.join("xtask");
        std::fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
        Ok(folder)
    }

    /// The cargo that runs this program, started in the host workspace.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = process::clean(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        // Only where it was set, so that build scripts that watch it see what plain cargo shows them.
        if env::var_os("CARGO_TARGET_DIR").is_some() {
            command.env("CARGO_TARGET_DIR", &self.target);
        }
        command
    }

    /// The same in the guest workspace, with a target directory of its own inside ours.
    pub(crate) fn guest_cargo(&self, target: &str) -> Command {
        let mut command = self.cargo();
        command.current_dir(self.guest_ops());
        command.env("CARGO_TARGET_DIR", self.target.join(target));
        command
    }

    /// Does one step, and remembers how long it took and whether it failed.
    pub(crate) fn step<T>(&self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = work();
        self.steps.borrow_mut().push(Step { name: name.to_owned(), time: start.elapsed(), failed: result.is_err() });
        result
    }

    /// A step that a command can do without: `None` if it failed and `flaw` says what is lacking then. With CI=true
    /// nothing may be lacking.
    pub(crate) fn optional<T>(&self, name: &str, flaw: &str, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        match self.step(name, work) {
            Err(error) if !self.ci => {
                eprintln!("note: {name}: {flaw}: {error}");
                if let Some(step) = self.steps.borrow_mut().last_mut() {
                    step.failed = false;
                }
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// A step that the command goes on after: a failure is told at once and counted by `verdict`.
    pub(crate) fn attempt(&self, name: &str, work: impl FnOnce() -> Result<()>) {
        announce(name);
        if let Err(error) = self.step(name, work) {
            eprintln!("error: {error}");
        }
    }

    /// Prints the time of each step so far, and the sum.
    pub(crate) fn print_times(&self) {
        let steps = self.steps.borrow();
        let width = steps.iter().map(|step| step.name.len()).max().unwrap_or(0);
        eprintln!();
        for Step { name, time, failed } in steps.iter() {
            let mark = if *failed { "  FAILED" } else { "" };
            eprintln!("{name:width$} {:8.1} s{mark}", time.as_secs_f64());
        }
        let total: Duration = steps.iter().map(|step| step.time).sum();
        eprintln!("{:width$} {:8.1} s", "total", total.as_secs_f64());
    }

    /// The names of the steps that failed, as the error of the whole.
    pub(crate) fn verdict(&self) -> Result<()> {
        let steps = self.steps.borrow();
        let failed: Vec<String> = steps.iter().filter(|step| step.failed).map(|step| step.name.clone()).collect();
        if failed.is_empty() {
            return Ok(());
        }
        Err(Error::Steps(failed))
    }
}

/// Says that something that takes more than a second begins.
pub(crate) fn announce(what: &str) {
    eprintln!("· {what}");
}
