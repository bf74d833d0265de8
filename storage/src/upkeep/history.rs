//! Checking what happened: entries, the versions that they made, and what is in these.

use super::check::{Check, find, plain};
use super::mark::Marks;
use super::places::{Lack, Walk, modules};
use super::{Affected, OnProgress, Progress};
use crate::sqlite::rows::{self, Maker, Makers, VersionRow};
use crate::sqlite::{self, Result, nodes, upkeep};
use opship_record::Hash;
use opship_record::version::Version;
use std::collections::{BTreeMap, BTreeSet};

impl Check<'_> {
    /// Each entry is as it was written, and none is missing.
    pub(super) fn entries(&mut self, progress: &mut OnProgress<'_>) -> Result<()> {
        // Asked first: entries come meanwhile.
        let given = self.read("the numbers of entries", rows::last_entry)?.unwrap_or(0);
        let (mut after, mut seen, mut summed) = (0, 0, false);
        loop {
            let some = self.next("entry", &mut after, rows::entries, |entry| entry.id)?;
            let end = some.is_empty();
            for entry in some {
                self.missing_entries(seen + 1, entry.id - 1);
                seen = entry.id;
                self.report.entries += 1;
                for fault in entry.faults {
                    self.find("entry-damaged", format!("entry {} {fault}", entry.id));
                }
                if summed && !entry.is_summed {
                    self.find("entry-damaged", format!("entry {} has no checksum", entry.id));
                }
                summed |= entry.is_summed;
            }
            progress(Progress { step: "reading entries", done: self.report.entries, total: given.unsigned_abs() });
            if end {
                self.missing_entries(seen + 1, given);
                return Ok(());
            }
        }
    }

    fn missing_entries(&mut self, first: i64, last: i64) {
        match last - first {
            ..0 => {}
            0 => drop(self.find("entry-missing", format!("entry {first} is missing"))),
            _ => drop(self.find("entry-missing", format!("entries {first} to {last} are missing"))),
        }
    }

    pub(super) fn workspace(&mut self, workspace: i64, name: &str, progress: &mut OnProgress<'_>) -> Result<()> {
        let (versions, makers) = self.versions(workspace, name)?;
        let (decoded, mut broken) = read_chain(&versions);
        if let Some(makers) = makers {
            broken.extend(unmade(&decoded, &makers));
        }
        for what in broken {
            self.find("version-chain", format!("workspace '{name}': {what}"));
        }
        let forgotten: BTreeSet<u64> = versions.iter().filter(|row| row.is_forgotten).map(|row| row.number).collect();
        let kept: Vec<(u64, Hash)> = decoded
            .iter()
            .filter(|(number, _)| !forgotten.contains(number))
            .map(|(number, version)| (*number, version.root))
            .collect();
        self.follow(workspace, name, &kept, progress)
    }

    /// All versions that can be read, and what entries say of them. Of a table that cannot be read whole each row is tried.
    fn versions(&mut self, workspace: i64, name: &str) -> Result<(Vec<VersionRow>, Option<Makers>)> {
        let what = format!("the versions of workspace '{name}'");
        if let Some((versions, makers)) = self.read(&what, |connection| rows::history(connection, workspace))? {
            return Ok((versions, Some(makers)));
        }
        let makers = self.read(&what, |connection| rows::makers(connection, workspace))?;
        if let Some(versions) = self.read(&what, |connection| rows::versions(connection, workspace, 0, i64::MAX))? {
            return Ok((versions, makers));
        }
        let mut some = Vec::new();
        // Numbers may be damaged too: no further than there can be rows, and where entries speak of versions.
        let made = makers.iter().flat_map(|makers| makers.by_version.iter().map(|(number, _)| *number));
        let rows = makers.as_ref().map_or(0, |makers| makers.by_version.len() as u64);
        let numbers: BTreeSet<u64> = (0..=rows).chain(made).collect();
        for number in numbers.into_iter().filter_map(|number| i64::try_from(number).ok()) {
            let found = self.read(&what, |connection| rows::versions(connection, workspace, number, number))?;
            some.extend(found.unwrap_or_default());
        }
        Ok((some, makers))
    }

    /// Follows trees and modules to what they name.
    fn follow(
        &mut self,
        workspace: i64,
        name: &str,
        kept: &[(u64, Hash)],
        progress: &mut OnProgress<'_>,
    ) -> Result<()> {
        let what = format!("the contents of workspace '{name}'");
        let Some(lengths) = self.read(&what, |connection| upkeep::lengths(connection, workspace))? else {
            return Ok(());
        };
        let (findings, inner) = (&mut self.report.findings, self.inner);
        let mut found = |lack: Lack| match lack {
            Lack::Node(hash) => find(findings, "node-missing", format!("tree node {hash} is not here")),
            Lack::Blob(hash) => find(findings, "blob-missing", format!("blob {hash} is not in workspace '{name}'")),
            Lack::Length(hash) => {
                find(findings, "blob-length", format!("blob {hash} has another length than trees say"))
            }
        };
        let mut walk = Walk::new(inner, lengths, &mut self.bad, &mut found);
        let total = kept.len() as u64;
        for (done, (number, root)) in (0..).zip(kept) {
            walk.version(*number, root)?;
            progress(Progress { step: "following versions", done, total });
        }
        let places = walk.places(name);
        self.report.versions += total;
        for (finding, (affected, more)) in places {
            self.report.findings[finding].affected.extend(affected);
            self.report.findings[finding].more += more;
        }
        self.modules(workspace, name)
    }

    fn modules(&mut self, workspace: i64, name: &str) -> Result<()> {
        let what = format!("the modules of workspace '{name}'");
        let own = self.read(&what, |connection| sqlite::modules::own(connection, workspace))?.unwrap_or_default();
        for (finding, module) in modules(name, &own, &self.bad) {
            self.report.findings[finding].affected.push(module);
        }
        for module in &own {
            for mount in &module.mounts {
                let Some((kind, what)) = self.mount(workspace, &mount.tree)? else { continue };
                let finding = self.find(kind, format!("the mount '{}' of a module: {what}", mount.path));
                let place = format!("module {}", module.name);
                let affected = Affected { workspace: name.to_owned(), place, versions: None };
                self.report.findings[finding].affected.push(affected);
            }
        }
        Ok(())
    }

    /// Is a mounted tree here, with all that it names? If not, the kind of the finding and what it is.
    fn mount(&self, workspace: i64, tree: &Hash) -> Result<Option<(&'static str, String)>> {
        let database = &self.inner.database;
        let mut load = |hash: &Hash| database.read(|connection| nodes::load(connection, hash));
        let mut marks = Marks::default();
        let followed = database.read(|connection| nodes::is_visible(connection, workspace, tree)).and_then(|visible| {
            marks.tree(tree, &mut load)?;
            Ok(visible)
        });
        match followed {
            Ok(true) => {}
            Ok(false) => return Ok(Some(("node-missing", format!("tree {tree} is not in the workspace")))),
            Err(error) if error.is_damage() => return Ok(Some(("node-missing", plain(&error)))),
            Err(error) => return Err(error),
        }
        for hash in &marks.blobs {
            if self.bad.blobs.contains_key(hash) {
                return Ok(Some(("blob-damaged", format!("blob {hash}"))));
            }
            if database.read(|connection| sqlite::blobs::length(connection, workspace, hash))?.is_none() {
                return Ok(Some(("blob-missing", format!("blob {hash} is not in the workspace"))));
            }
        }
        Ok(None)
    }
}

/// The versions that can be read, by number, and what is wrong with their chain.
fn read_chain(rows: &[VersionRow]) -> (BTreeMap<u64, Version>, Vec<String>) {
    let (mut decoded, mut broken) = (BTreeMap::<u64, Version>::new(), Vec::new());
    if rows.is_empty() {
        broken.push("it has no version".to_owned());
    }
    let mut expected = 0;
    for row in rows {
        let number = row.number;
        if number > expected {
            broken.push(format!("versions {expected} to {} are missing", number - 1));
        }
        expected = number + 1;
        let Ok(version) = Version::decode(&row.bytes) else {
            broken.push(format!("version {number} cannot be read"));
            continue;
        };
        if version.number != number || row.root != version.root.as_bytes() || row.id != version.id().as_bytes() {
            broken.push(format!("version {number} is not what its row says"));
        }
        let before = number.checked_sub(1).and_then(|before| decoded.get(&before)).map(Version::id);
        if before.is_some() && version.parent != before {
            broken.push(format!("version {number} names another parent than the version before it"));
        }
        decoded.insert(number, version);
    }
    // The first one and the head are kept always.
    for row in [rows.first(), rows.last()].into_iter().flatten().filter(|row| row.is_forgotten) {
        broken.push(format!("version {} is forgotten, and may not be", row.number));
    }
    (decoded, broken)
}

/// Where versions and the entries that made them do not fit.
fn unmade(versions: &BTreeMap<u64, Version>, makers: &Makers) -> Vec<String> {
    let mut unfit = Vec::new();
    let by_number: BTreeMap<u64, &Maker> = makers.by_version.iter().map(|(number, maker)| (*number, maker)).collect();
    if versions.last_key_value().is_none_or(|(head, _)| *head < makers.last) {
        unfit.push(format!("entries speak of version {}, which is not here", makers.last));
    }
    for (number, version) in versions.iter().filter(|(number, _)| **number > 0) {
        let said = match (&version.author, version.sequence, &version.entry) {
            (Some(author), Some(sequence), Some(entry)) => {
                Some(Maker { client: author.as_bytes().to_vec(), sequence, body: entry.as_bytes().to_vec() })
            }
            _ => None,
        };
        match by_number.get(number) {
            None => unfit.push(format!("version {number} has no entry")),
            Some(maker) if said.as_ref() != Some(*maker) => unfit.push(format!("version {number} names another entry")),
            Some(_) => {}
        }
    }
    for number in by_number.keys().filter(|number| !versions.contains_key(number)) {
        unfit.push(format!("version {number}, which an entry made, is missing"));
    }
    unfit
}
