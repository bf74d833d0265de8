//! opship's side: a server, two working copies, all traffic through a relay.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server, succeed};
use opship_tap::Tap;
use std::path::{Path, PathBuf};

/// A workspace with two working copies.
pub(super) struct Opship<'a> {
    place: &'a Place,
    server: Server,
    tap: Tap,
    here: PathBuf,
    there: PathBuf,
}

impl Opship<'_> {
    /// Starts a server of its own and makes `here` a working copy.
    pub(super) fn start<'a>(place: &'a Place, case: &str, here: &Path) -> Result<Opship<'a>> {
        let server = place.serve_with(&format!("{case}/server"), &[])?;
        let tap = Tap::start(server.address).map_err(BenchError::io("start the relay"))?;
        let there = place.path(&format!("{case}/opship-there"));
        let opship = Opship { place, server, tap, here: here.to_owned(), there };
        opship.run(here, &["init", "--server", &opship.url(), "--workspace", "bench"])?;
        Ok(opship)
    }

    fn url(&self) -> String {
        format!("http://{}", self.tap.address())
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> Result<()> {
        succeed(self.place.command(folder).env("OPSHIP_TOKEN", &self.server.token).args(arguments))
    }

    fn counted(&self, work: impl FnOnce() -> Result<()>) -> Result<u64> {
        let before = self.tap.count().total();
        work()?;
        Ok(self.tap.count().total() - before)
    }

    /// Ships what is new here.
    pub(super) fn push(&self) -> Result<u64> {
        self.counted(|| self.run(&self.here, &["sync"]))
    }

    /// Makes the other working copy.
    pub(super) fn clone_there(&self) -> Result<()> {
        let there = self.there.display().to_string();
        self.run(&self.place.path(""), &["clone", &format!("{}/bench", self.url()), &there])
    }

    /// Brings what is new to the other working copy.
    pub(super) fn pull(&self) -> Result<u64> {
        self.counted(|| self.run(&self.there, &["sync"]))
    }

    /// The other working copy.
    pub(super) fn there(&self) -> PathBuf {
        self.there.clone()
    }
}
