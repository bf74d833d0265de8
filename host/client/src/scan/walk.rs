//! The walk of a scan over the whole folder, by a few threads. A file whose signature the index proves costs one system
//! call; whatever is in doubt is looked at as a run would see it.

use super::folders::{Names, Queue, Rows, Task};
use super::{Found, Fresh, keep_unreadable};
use crate::ClientError;
use crate::db::hashed::{self, Hashed};
use crate::db::index::{self, Row};
use crate::exchange::hash_at;
use crate::fs::{self, OPSHIP, is_absent, is_racy, now_nanos};
use crate::tree::{Sight, View, Visible};
use crate::values::{State, node_of};
use crate::working_copy::Shared;
use opship_record::TreePath;
use opship_record::node::{Kind, Node};
use std::ffi::CString;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Most threads: beyond, the file system is the bottleneck.
const MAX_THREADS: usize = 8;
/// Names that one thread looks at before another may take over, where they are in the index.
const KNOWN_AT_ONCE: usize = 2048;
/// The same of names that must be read.
const NEW_AT_ONCE: usize = 64;
/// Hashes, and bytes read for them, after which the hashes are made durable: a scan that is killed reads no more again.
const REMEMBER_HASHES: usize = 4096;
const REMEMBER_BYTES: u64 = 1 << 30;

/// Compares the folder with the index. The caller has the lock.
pub(super) fn walk(shared: &Arc<Shared>) -> Result<Found, ClientError> {
    let (rows, remembered) = {
        let db = shared.db.read();
        (Rows::new(index::by_folder(&db)?), hashed::all(&db)?)
    };
    let queue = Queue::new(Task::Folder(TreePath::root()));
    let fresh = Mutex::new((Vec::new(), 0));
    let work =
        Work { shared, view: View::new(shared), rows: &rows, remembered: &remembered, queue: &queue, fresh: &fresh };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let results: Vec<Result<Found, ClientError>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work.work())).collect();
        let fault = || Err(ClientError::Refused("the scan ended by a fault of opship".to_owned()));
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| fault())).collect()
    });
    let mut found = Found { rule_troubles: work.view.rule_troubles(), ..Found::default() };
    for result in results {
        let part = result?;
        found.states.extend(part.states);
        found.unsupported.extend(part.unsupported);
    }
    remember(shared, &mut fresh.lock().unwrap_or_else(PoisonError::into_inner).0)?;
    let gone = State { node: None, signature: None, racy: false };
    found.states.extend(rows.into_rest().map(|path| (path, gone.clone())));
    found.remembered = remembered;
    keep_unreadable(&mut found);
    Ok(found)
}

fn remember(shared: &Shared, fresh: &mut Vec<Fresh>) -> Result<(), ClientError> {
    if fresh.is_empty() {
        return Ok(());
    }
    let fresh = std::mem::take(fresh);
    shared.db.write(|db| {
        Ok(fresh.iter().try_for_each(|(path, signature, hash)| hashed::remember(db, path, signature, hash))?)
    })
}

struct Work<'a> {
    shared: &'a Arc<Shared>,
    view: View,
    rows: &'a Rows,
    remembered: &'a Hashed,
    queue: &'a Queue,
    /// Hashes made and not yet remembered, and the bytes read for them.
    fresh: &'a Mutex<(Vec<Fresh>, u64)>,
}

impl Work<'_> {
    fn work(&self) -> Result<Found, ClientError> {
        let mut found = Found::default();
        while let Some(task) = self.queue.next() {
            let _working = Working(self.queue);
            let result = match task {
                Task::Folder(path) => self.folder(&path, &mut found),
                Task::Names(names) => self.names(names, &mut found),
            };
            if result.is_err() {
                self.queue.stop();
            }
            result?;
        }
        Ok(found)
    }

    /// Lists a folder and hands out its names.
    fn folder(&self, folder: &TreePath, found: &mut Found) -> Result<(), ClientError> {
        let mut rows = self.rows.take(folder).into_iter().peekable();
        let listed = self.shared.root.names(folder.as_str());
        let (directory, mut names) = match listed {
            Ok(listed) => listed,
            // Nothing can be told of it: it must not pass for empty.
            Err(error) if folder.is_root() => return Err(ClientError::io("reading the working copy's folder")(error)),
            // Its rows are neither met nor gone.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                unsupported(found, folder.to_string(), &format!("unreadable ({error})"));
                return Ok(());
            }
            Err(error) if is_absent(&error) => {
                rows.for_each(|(path, _)| gone(found, path));
                return Ok(());
            }
            Err(error) => return Err(ClientError::io(format!("reading the folder '{folder}'"))(error)),
        };
        let directory = Arc::new(directory);
        names.sort_unstable();
        let batch = || Names { folder: folder.clone(), directory: directory.clone(), names: Vec::new() };
        let (mut known, mut new) = (batch(), batch());
        for name in names {
            if folder.is_root() && name.as_bytes() == OPSHIP.as_bytes() {
                continue;
            }
            // Both are in byte order: what is passed over is gone.
            let name_of = |path: &TreePath| path.name().unwrap_or_default().as_bytes().to_vec();
            while let Some((path, _)) = rows.next_if(|(path, _)| name_of(path).as_slice() < name.as_bytes()) {
                gone(found, path);
            }
            if View::is_rules(name.as_bytes()) {
                self.view.read_rules(folder);
            }
            let row = rows.next_if(|(path, _)| name_of(path) == name.as_bytes());
            let (into, at_once) = if row.is_some() { (&mut known, KNOWN_AT_ONCE) } else { (&mut new, NEW_AT_ONCE) };
            into.names.push((name, row));
            if into.names.len() >= at_once {
                self.queue.add(Task::Names(std::mem::replace(into, batch())));
            }
        }
        rows.for_each(|(path, _)| gone(found, path));
        self.names(known, found)?;
        if !new.names.is_empty() {
            self.queue.add(Task::Names(new));
        }
        Ok(())
    }

    fn names(&self, names: Names, found: &mut Found) -> Result<(), ClientError> {
        for (name, row) in names.names {
            match row {
                Some((path, row)) => {
                    if !self.is_unchanged(&names.directory, &name, &path, &row)? {
                        self.path(&path, Some(row), found)?;
                    }
                }
                None => self.new_name(&names.folder, &name, found)?,
            }
        }
        Ok(())
    }

    /// Is a path surely as the index says? A folder is gone into.
    fn is_unchanged(
        &self,
        directory: &std::os::fd::OwnedFd,
        name: &CString,
        path: &TreePath,
        row: &Row,
    ) -> Result<bool, ClientError> {
        let Ok(now) = fs::stat_in(directory, name) else { return Ok(false) };
        if now.kind != Some(row.node.kind()) || now.signature.device != self.shared.root.device() {
            return Ok(false);
        }
        Ok(match &row.node {
            Node::File { .. } => row.is_proved_by(&now.signature),
            Node::Directory { mode } if *mode == now.mode => {
                self.queue.add(Task::Folder(path.clone()));
                true
            }
            _ => false,
        })
    }

    fn new_name(&self, folder: &TreePath, name: &CString, found: &mut Found) -> Result<(), ClientError> {
        let path = match std::str::from_utf8(name.as_bytes()) {
            Ok(name) => folder.join(name),
            Err(_) => TreePath::from_bytes(name.as_bytes()),
        };
        match path {
            Ok(path) => self.path(&path, None, found),
            Err(error) => {
                let folder = if folder.is_root() { String::new() } else { format!("{folder}/") };
                unsupported(found, format!("{folder}{}", name.to_string_lossy()), &error.to_string());
                Ok(())
            }
        }
    }

    /// A path that is not surely as the index says.
    fn path(&self, path: &TreePath, row: Option<Row>, found: &mut Found) -> Result<(), ClientError> {
        match self.view.look_with(path, row.clone())? {
            Sight::Visible(visible) => {
                if !visible.trusted {
                    self.untrusted(path, &visible, row, found)?;
                }
                if visible.node.kind() == Kind::Directory {
                    self.queue.add(Task::Folder(path.clone()));
                }
            }
            Sight::Broken(reason) => unsupported(found, path.to_string(), &reason),
            Sight::Hidden(reason) if row.is_none() && reason != "ignored" => {
                unsupported(found, path.to_string(), &reason);
            }
            Sight::Hidden(_) | Sight::Absent if row.is_some() => gone(found, path.clone()),
            Sight::Hidden(_) | Sight::Absent => {}
        }
        Ok(())
    }

    fn untrusted(
        &self,
        path: &TreePath,
        visible: &Visible,
        row: Option<Row>,
        found: &mut Found,
    ) -> Result<(), ClientError> {
        let Some(state) = self.state(path, visible)? else {
            unsupported(found, path.to_string(), "it is being written to; it is taken up when it is quiet");
            return Ok(());
        };
        let is_file = matches!(state.node, Some(Node::File { .. }));
        if is_file || row.map(|row| row.node) != state.node {
            found.states.insert(path.clone(), state);
        }
        Ok(())
    }

    /// The state of a path, the content hashed while it stays the same; `None` if it does not.
    fn state(&self, path: &TreePath, visible: &Visible) -> Result<Option<State>, ClientError> {
        if visible.node.kind() != Kind::File {
            let node = node_of(&visible.node, None);
            return Ok(Some(State { node, signature: None, racy: false }));
        }
        let failed = || ClientError::io(format!("reading '{path}'"));
        for _ in 0..3 {
            let taken = now_nanos();
            let Some(before) = self.shared.root.stat(path.as_str()).map_err(failed())? else { break };
            let s = before.signature;
            let known = self.remembered.get(path).filter(|(signature, _)| *signature == s).map(|(_, hash)| *hash);
            let hash = match known {
                Some(hash) => Some(hash),
                None => match hash_at(self.shared, path.as_str(), &before) {
                    Err(error) if is_absent(&error) => break,
                    other => other.map_err(failed())?,
                },
            };
            let after = self.shared.root.stat(path.as_str()).map_err(failed())?;
            if after != Some(before) || before.kind != Some(Kind::File) {
                continue;
            }
            let racy = is_racy(&s, taken);
            if let (Some(hash), None, false) = (hash, known, racy) {
                self.hashed((path.clone(), s, hash))?;
            }
            let node = hash.map(|hash| Node::File { mode: before.mode, mtime: s.mtime, length: s.size, hash });
            return Ok(Some(State { node, signature: Some(s), racy }));
        }
        Ok(None)
    }

    /// Remembers a hash, many at a time.
    fn hashed(&self, fresh: Fresh) -> Result<(), ClientError> {
        let mut kept = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1 += fresh.1.size;
        kept.0.push(fresh);
        if kept.0.len() < REMEMBER_HASHES && kept.1 < REMEMBER_BYTES {
            return Ok(());
        }
        kept.1 = 0;
        remember(self.shared, &mut kept.0)
    }
}

/// Ends a task, also where it ends by a fault.
struct Working<'a>(&'a Queue);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
        self.0.done();
    }
}

fn gone(found: &mut Found, path: TreePath) {
    found.states.insert(path, State { node: None, signature: None, racy: false });
}

fn unsupported(found: &mut Found, path: String, reason: &str) {
    found.unsupported.entry(path).or_insert_with(|| reason.to_owned());
}
