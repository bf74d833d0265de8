//! The second host: wasmtime's own WASI on a real directory, driven by a Python program (`tests/reference/host.py`).

use crate::conformance::read_tree;
use crate::languages::{FIXED_VARIABLES, Scenario};
use crate::target_folder;
use crate::world_run::{Seen, shown};
use opship_world::{MemoryTree, SourceNode};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a module in the second host, each scenario on a real directory of its own that holds `tree`. `None` where that
/// host is not installed and nobody insists (`OPSHIP_REQUIRE_ALL`); a test then has nothing to test.
pub fn run_in_reference(module: &Path, scenarios: &[Scenario], tree: &MemoryTree) -> Option<Vec<Seen>> {
    let python = target_folder().join("tools/reference/bin/python");
    if !python.is_file() {
        let insisted = std::env::var_os("OPSHIP_REQUIRE_ALL").is_some();
        assert!(!insisted, "{} is missing: run the tests by 'cargo xtask test'", python.display());
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    let folders: Vec<PathBuf> = (0..scenarios.len()).map(|index| place.path().join(index.to_string())).collect();
    let runs: Vec<Value> = scenarios.iter().zip(&folders).map(|(scenario, at)| prepare(scenario, at, tree)).collect();
    let exits = drive(&python, &json!({ "module": module, "runs": runs }));
    Some(folders.iter().zip(exits).map(|(folder, exit)| seen(folder, &exit)).collect())
}

/// Makes the directory of a run, and what the driver must know of it.
fn prepare(scenario: &Scenario, folder: &Path, tree: &MemoryTree) -> Value {
    let root = folder.join("root");
    write_tree(tree, &root);
    fs::write(folder.join("stdin"), &scenario.stdin).unwrap();
    let fixed = FIXED_VARIABLES.iter().map(|(name, value)| json!([name, value]));
    let own = scenario.environment.iter().map(|(name, value)| json!([name, value]));
    let arguments = std::iter::once("guest").chain(scenario.arguments.iter().map(String::as_str));
    json!({
        "argv": arguments.collect::<Vec<_>>(),
        "env": fixed.chain(own).collect::<Vec<_>>(),
        "root": root,
        "stdin": folder.join("stdin"),
        "stdout": folder.join("stdout"),
        "stderr": folder.join("stderr"),
    })
}

fn write_tree(tree: &MemoryTree, root: &Path) {
    fs::create_dir_all(root).unwrap();
    for (path, node, content) in tree.nodes() {
        let place = root.join(path.as_str());
        match node {
            SourceNode::File { .. } => fs::write(place, content).unwrap(),
            SourceNode::Directory { .. } => fs::create_dir_all(place).unwrap(),
            SourceNode::Symlink { target, .. } => symlink(std::str::from_utf8(target).unwrap(), place).unwrap(),
        }
    }
}

/// The exit code of each run, or a text where it ended otherwise.
fn drive(python: &Path, work: &Value) -> Vec<Value> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference/host.py");
    let mut command = Command::new(python);
    // Isolated: no settings and no packages of the user's.
    command.arg("-I").arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(work.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the second host failed; its words are above");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn seen(folder: &Path, exit: &Value) -> Seen {
    let exit = match exit.as_u64() {
        Some(code) => Ok(u32::try_from(code).unwrap()),
        None => Err(exit.as_str().unwrap_or_default().to_owned()),
    };
    Seen {
        exit,
        stdout: fs::read(folder.join("stdout")).unwrap(),
        stderr: fs::read(folder.join("stderr")).unwrap(),
        tree: shown(&read_tree(&folder.join("root")).unwrap()),
    }
}
