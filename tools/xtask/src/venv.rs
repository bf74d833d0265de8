//! Tools and modules that Python packages carry: each set in a virtual environment of its own in the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::context::{Context, announce};
use crate::error::{Error, Result};
use crate::{apt, process};

/// Some 75 MB; on a slow line it may take a while, but not for ever.
const LIMIT: Duration = Duration::from_secs(600);

/// A set of packages.
pub(crate) struct Venv {
    /// Its folder, below the target folder.
    pub(crate) folder: &'static str,
    /// What is installed, in pip's notation: exactly these files and no dependency of theirs.
    pub(crate) pinned: &'static str,
    /// What it is for, as in "installing …".
    pub(crate) what: &'static str,
}

impl Venv {
    /// Makes the environment where it is not there yet, and returns the folder of its packages.
    pub(crate) fn ensure(&self, context: &Context) -> Result<PathBuf> {
        let folder = context.target.join(self.folder);
        let installed = folder.join("installed.txt");
        if !fs::read_to_string(&installed).is_ok_and(|text| text == self.pinned) {
            self.install(context, &folder)?;
            fs::write(&installed, self.pinned).map_err(Error::io("write", &installed))?;
        }
        site_packages(&folder)
    }

    fn install(&self, context: &Context, folder: &Path) -> Result<()> {
        let can_make_venv = |python: &str| {
            let probe = ["-c", "import ensurepip, venv"];
            process::output(process::clean(python).args(probe)).is_ok()
        };
        if !can_make_venv("python3") {
            apt::install(context, &["python3", "python3-venv"], &format!("installing {}", self.what))?;
        }
        announce(&format!("installing {}", self.what));
        let name = self.folder.replace('/', "-");
        let log = context.notes()?.join(format!("{name}.log"));
        let mut python = process::clean("python3");
        python.args(["-m", "venv", "--clear"]).arg(folder);
        process::run_logged(&mut python, &log, LIMIT)?;

        let list = context.notes()?.join(format!("{name}.txt"));
        fs::write(&list, self.pinned).map_err(Error::io("write", &list))?;
        let mut pip = process::clean(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--disable-pip-version-check"]);
        // Wheels only: nothing of a package runs while it is installed.
        pip.args(["--only-binary=:all:", "--no-deps", "--require-hashes", "-r"]);
        process::run_logged(pip.arg(&list), &log, LIMIT)
    }
}

/// `lib/python3.N/site-packages`, whichever N the machine has.
fn site_packages(folder: &Path) -> Result<PathBuf> {
    let lib = folder.join("lib");
    for item in fs::read_dir(&lib).map_err(Error::io("list", &lib))? {
        let packages = item.map_err(Error::io("list", &lib))?.path().join("site-packages");
        if packages.is_dir() {
            return Ok(packages);
        }
    }
    Err(Error::Missing(format!("{} lacks its packages; remove that folder and run this again", folder.display())))
}
