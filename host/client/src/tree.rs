//! What of the folder is in the tree: exactly what a version would hold.
//!
//! Not shown: opship's own folder, ignored paths, and what cannot be synced (DESIGN.md §13). Ignore rules apply only to
//! paths that are not in the index. A folder outside the index that holds nothing but such things is not shown either:
//! it is what stays when a run or a pull removes a folder.

mod ignores;
mod rules;

pub use rules::RuleTrouble;

use crate::ClientError;
use crate::db::index::{self, Row};
use crate::fs::{Found, OPSHIP, now_nanos};
use crate::working_copy::Shared;
use ignores::Ignores;
use opship_record::TreePath;
use opship_record::node::{DEFAULT_DIRECTORY_MODE, Kind};
use opship_world::SourceNode;
use rustix::fs::FileType;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A look at the folder. It caches ignore rules, so one serves one run or scan.
pub(crate) struct View {
    pub shared: Arc<Shared>,
    ignores: Ignores,
}

/// What is at a path.
#[derive(Debug, Clone)]
pub(crate) enum Sight {
    /// Nothing.
    Absent,
    /// Something that is not in the tree, and why.
    Hidden(String),
    /// Something that is in the index but cannot be synced as it is now, and why.
    Broken(String),
    /// A path of the tree.
    Visible(Box<Visible>),
}

/// A path of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Visible {
    /// As the world shows it.
    pub node: SourceNode,
    /// As it is on disk.
    pub found: Found,
    /// When that was looked at, in nanoseconds since 1970.
    pub taken: i64,
    /// Its row in the index.
    pub row: Option<Row>,
    /// Is it a file whose signature proves that it has the row's content?
    pub trusted: bool,
}

/// What is in a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Names in the tree with their kinds, in byte order.
    pub names: Vec<(String, Kind)>,
    /// Names that cannot be synced, for people, with the reason.
    pub unsupported: Vec<(String, String)>,
}

impl View {
    pub(crate) fn new(shared: &Arc<Shared>) -> View {
        View { shared: shared.clone(), ignores: Ignores::default() }
    }

    /// Is this the name of a file of ignore rules?
    pub(crate) fn is_rules(name: &[u8]) -> bool {
        name == rules::FILE.as_bytes()
    }

    /// Reads the ignore rules of a folder, although nothing asks for them, so that what is wrong with them is known.
    pub(crate) fn read_rules(&self, folder: &TreePath) {
        self.ignores.read(&self.shared, folder);
    }

    /// What of the ignore rules that were read does not count.
    pub(crate) fn rule_troubles(&self) -> Vec<RuleTrouble> {
        self.ignores.troubles()
    }

    /// What is at a path.
    pub(crate) fn look(&self, path: &TreePath) -> Result<Sight, ClientError> {
        let row = if path.is_root() { None } else { index::get(&self.shared.db.read(), path)? };
        self.look_with(path, row)
    }

    /// As [`View::look`], with the path's row at hand.
    pub(crate) fn look_with(&self, path: &TreePath, row: Option<Row>) -> Result<Sight, ClientError> {
        let taken = now_nanos();
        let found = match self.shared.root.stat(path.as_str()) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Sight::Absent),
            Err(error) => return cannot_use(row.as_ref(), &error),
        };
        if path.is_root() {
            let node = SourceNode::Directory { mode: DEFAULT_DIRECTORY_MODE };
            return Ok(Sight::Visible(Box::new(Visible { node, found, taken, row: None, trusted: false })));
        }
        let Some(kind) = self.supported(&found) else {
            let reason = "a socket, FIFO, device, or on another file system".to_owned();
            return Ok(if row.is_some() { Sight::Broken(reason) } else { Sight::Hidden(reason) });
        };
        if row.is_none() && self.ignores.is_ignored(&self.shared, path, kind == Kind::Directory) {
            return Ok(Sight::Hidden("ignored".to_owned()));
        }
        match self.node(path, kind, &found, row.as_ref()) {
            Ok((node, trusted)) => {
                if kind == Kind::Directory && row.is_none() && self.holds_only_hidden(path)? {
                    return Ok(Sight::Hidden("it holds only what is not synced".to_owned()));
                }
                Ok(Sight::Visible(Box::new(Visible { node, found, taken, row, trusted })))
            }
            Err(error) if crate::fs::is_absent(&error) => Ok(Sight::Absent),
            Err(error) => cannot_use(row.as_ref(), &error),
        }
    }

    fn supported(&self, found: &Found) -> Option<Kind> {
        // Across file systems nothing can be exchanged in one step.
        found.kind.filter(|_| found.signature.device == self.shared.root.device())
    }

    fn node(&self, path: &TreePath, kind: Kind, found: &Found, row: Option<&Row>) -> io::Result<(SourceNode, bool)> {
        let root = &self.shared.root;
        match kind {
            Kind::Directory => {
                if row.is_none() {
                    root.open_directory(path.as_str())?;
                }
                Ok((SourceNode::Directory { mode: found.mode }, false))
            }
            Kind::Symlink => {
                let target = root.read_link(path.as_str())?;
                Ok((SourceNode::Symlink { mtime: found.signature.mtime, target }, false))
            }
            Kind::File => match row {
                Some(row) if row.is_proved_by(&found.signature) && row.node.kind() == Kind::File => {
                    Ok((row.node.clone().into(), true))
                }
                _ => {
                    root.open_file(path.as_str())?;
                    let (mtime, length) = (found.signature.mtime, found.signature.size);
                    Ok((SourceNode::File { mode: found.mode, mtime, length }, false))
                }
            },
        }
    }

    fn holds_only_hidden(&self, path: &TreePath) -> Result<bool, ClientError> {
        let names = match self.shared.root.list(path.as_str()) {
            Ok(names) => names,
            Err(_) => return Ok(false),
        };
        for (name, _) in &names {
            let Ok(child) = std::str::from_utf8(name).map_err(|_| ()).and_then(|n| path.join(n).map_err(|_| ())) else {
                continue;
            };
            if matches!(self.look(&child)?, Sight::Visible(_) | Sight::Broken(_)) {
                return Ok(false);
            }
        }
        Ok(!names.is_empty())
    }

    /// The names of the tree in a directory.
    pub(crate) fn list(&self, path: &TreePath) -> Result<Listing, ClientError> {
        let shown = if path.is_root() { "." } else { path.as_str() };
        let failed = || ClientError::io(format!("reading the folder '{shown}'"));
        let names = self.shared.root.list(path.as_str()).map_err(failed())?;
        let mut rows: BTreeMap<TreePath, Row> = index::children(&self.shared.db.read(), path)?.into_iter().collect();
        let mut listing = Listing::default();
        for (name, file_type) in names {
            if path.is_root() && name == OPSHIP.as_bytes() {
                continue;
            }
            let child = match std::str::from_utf8(&name) {
                Ok(name) => path.join(name),
                Err(_) => TreePath::from_bytes(&name),
            };
            match child {
                Ok(child) => self.add(&mut listing, &child, file_type, rows.remove(&child))?,
                Err(error) => {
                    let shown = format!("{}{}", prefix(path), String::from_utf8_lossy(&name));
                    listing.unsupported.push((shown, error.to_string()));
                }
            }
        }
        listing.names.sort_unstable();
        Ok(listing)
    }

    fn add(
        &self,
        listing: &mut Listing,
        path: &TreePath,
        file_type: FileType,
        row: Option<Row>,
    ) -> Result<(), ClientError> {
        let name = path.name().unwrap_or_default().to_owned();
        let known = match file_type {
            FileType::RegularFile => Some(Kind::File),
            FileType::Directory => Some(Kind::Directory),
            FileType::Symlink => Some(Kind::Symlink),
            _ => None,
        };
        if let (Some(_), Some(kind)) = (&row, known) {
            listing.names.push((name, kind));
            return Ok(());
        }
        let kind_in_index = row.as_ref().map(|row| row.node.kind());
        match self.look_with(path, row)? {
            Sight::Visible(visible) => listing.names.push((name, visible.node.kind())),
            Sight::Broken(reason) => {
                listing.unsupported.push((path.to_string(), reason));
                listing.names.extend(kind_in_index.map(|kind| (name, kind)));
            }
            Sight::Hidden(reason) if reason != "ignored" => listing.unsupported.push((path.to_string(), reason)),
            Sight::Hidden(_) | Sight::Absent => {}
        }
        Ok(())
    }
}

fn prefix(path: &TreePath) -> String {
    if path.is_root() { String::new() } else { format!("{path}/") }
}

fn cannot_use(row: Option<&Row>, error: &io::Error) -> Result<Sight, ClientError> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {}
        // A path that is too long for the system, or another answer that concerns this path alone.
        io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput | io::ErrorKind::CrossesDevices => {}
        _ => {
            let error = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or_default());
            return Err(ClientError::io("looking at a file of the folder")(error));
        }
    }
    let reason = format!("unreadable ({error})");
    Ok(if row.is_some() { Sight::Broken(reason) } else { Sight::Hidden(reason) })
}
