//! One client of the soak.

use super::chance::Chance;
use super::edits;
use super::memory::Peak;
use crate::tree::differing;
use crate::{Place, Server};
use opship_tap::Tap;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What opship's own folder may take besides twice the files.
const OWN_BYTES: u64 = 64 << 20;

pub(super) struct Client {
    pub name: &'static str,
    pub folder: PathBuf,
    pub tap: Tap,
    /// Seconds that its clock is wrong.
    pub clock: i64,
    /// Of its syncs.
    pub peak: Peak,
    token: String,
}

impl Client {
    pub(super) fn new(place: &Place, server: &Server, name: &'static str) -> Client {
        let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
        let client =
            Client { name, folder: place.folder(name), tap, clock: 0, peak: Peak::default(), token: server.token() };
        let address = format!("http://{}", client.tap.address());
        let made = client.command(place, &["init", "--workspace", "main", "--server", &address]).status().unwrap();
        assert!(made.success());
        client
    }

    fn command(&self, place: &Place, arguments: &[&str]) -> Command {
        let mut command = place.command(&self.folder);
        command.args(arguments).env("OPSHIP_TOKEN", &self.token).env("OPSHIP_TEST_CLOCK", self.clock.to_string());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn json(&self, place: &Place, command: &str) -> Value {
        let output = self.command(place, &["--json", command]).stdout(Stdio::piped()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Exit code, and what it said.
    pub(super) fn sync(&self, place: &Place) -> (Option<i32>, String) {
        let mut command = self.command(place, &["sync"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        self.peak.watch(&child);
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }

    pub(super) fn start_sync(&self, place: &Place) -> Child {
        let child = self.command(place, &["sync"]).spawn().unwrap();
        self.peak.watch(&child);
        child
    }

    /// Runs an operation on what is there. `false`: it was refused or ended badly.
    pub(super) fn operate(&self, place: &Place, chance: &mut Chance) -> bool {
        let Some(path) = edits::file(&self.folder, chance) else { return false };
        let name = path.strip_prefix(&self.folder).unwrap().to_str().unwrap().to_owned();
        let (packed, sorted) = (format!("{name}.gz"), format!("{name}.sorted"));
        let arguments = match chance.below(3) {
            0 => vec!["run", "gzip", "--", "-kf", &name],
            1 => vec!["run", "sort", "-o", &sorted, "--", &name],
            _ => vec!["run", "tar", "--", "-cf", &packed, &name],
        };
        self.command(place, &arguments).status().unwrap().success()
    }

    /// Entries without a verdict.
    pub(super) fn waiting(&self, place: &Place) -> usize {
        self.json(place, "status")["pending"].as_array().map_or(usize::MAX, Vec::len)
    }

    /// Entries that wait for one that ended badly become ordinary changes.
    pub(super) fn drop_parked(&self, place: &Place) {
        let status = self.json(place, "status");
        for entry in status["pending"].as_array().into_iter().flatten().filter(|entry| entry["parked"] == true) {
            self.command(place, &["drop", &entry["number"].to_string()]).status().unwrap();
        }
    }

    /// Is there nothing to ship and nothing left alone?
    pub(super) fn is_settled(&self, place: &Place) -> bool {
        let status = self.json(place, "status");
        ["pending", "changes", "deferred"].iter().all(|list| status[list].as_array().is_some_and(Vec::is_empty))
    }

    /// For a failure: what it has to ship, and what it left alone.
    pub(super) fn standing(&self, place: &Place) -> String {
        let status = self.json(place, "status");
        format!("{}: {status:#}\n", self.name)
    }

    /// The paths that differ from another's.
    pub(super) fn differs(&self, other: &Client) -> String {
        let lines = differing(&self.folder, &other.folder);
        lines.iter().map(|line| format!("{} / {}: {line}\n", self.name, other.name)).collect()
    }

    /// What opship keeps for itself must not grow without end.
    pub(super) fn check_disk(&self) -> Result<(), String> {
        let (own, all) = (size(&self.folder.join(".opship")), size(&self.folder));
        let files = all - own;
        if own > 2 * files + OWN_BYTES {
            return Err(format!("'.opship' of {} takes {own} bytes beside {files} of files", self.name));
        }
        Ok(())
    }
}

/// Bytes of all files at and below a path.
pub(super) fn size(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::read_dir(path).unwrap().map(|entry| size(&entry.unwrap().path())).sum(),
        Ok(found) => found.len(),
        Err(_) => 0,
    }
}
