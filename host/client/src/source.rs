//! The working copy as a tree for a world to stand on.

use crate::fs::{KeptContent, LiveContent, Signature, changed, copy_hashed, is_racy, unreadable};
use crate::own::OwnOutputs;
use crate::staging::{Staging, kept_path};
use crate::tree::{Sight, View, Visible};
use crate::working_copy::Shared;
use crate::{ClientError, db};
use opship_record::node::{Kind, Node};
use opship_record::{Hash, TreePath};
use opship_world::{FileContent, SourceError, SourceNode, TreeSource};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The tree as a run sees it. What it showed stays as it showed it; whether that is still true is checked afterwards.
pub(crate) struct WorkingTree {
    view: View,
    staging: Arc<Staging>,
    own: OwnOutputs,
    seen: Mutex<Sights>,
}

/// All that a run was shown.
#[derive(Default)]
struct Sights {
    paths: BTreeMap<TreePath, Seen>,
    /// A path of each content of which the hash is known.
    contents: HashMap<Hash, TreePath>,
}

/// What a run was shown of a path.
#[derive(Clone)]
pub(crate) enum Seen {
    /// Nothing, though there may be something that is not in the tree.
    Absent,
    /// A path of the tree.
    Present(Box<Present>),
}

/// A path that a run was shown.
#[derive(Clone)]
pub(crate) struct Present {
    pub visible: Visible,
    /// The content's hash, once it is known.
    pub hash: Option<Hash>,
    /// Where the content was copied to, below the root, once it was.
    pub copy: Option<String>,
    /// Is it the caller's own standard output or error?
    pub own: bool,
    /// Open somewhere, if it still is: a run may look at more files than there are descriptors.
    content: Weak<dyn FileContent>,
}

impl WorkingTree {
    pub(crate) fn new(shared: &Arc<Shared>, staging: Arc<Staging>, own: OwnOutputs) -> WorkingTree {
        WorkingTree { view: View::new(shared), staging, own, seen: Mutex::default() }
    }

    /// What the run was shown of a path, `None` if it never looked.
    pub(crate) fn seen(&self, path: &TreePath) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).paths.get(path).cloned()
    }

    /// The content of a file, kept and hashed if the server does not hold it. Used by the run, and by capture for files
    /// of which the run saw the metadata only.
    pub(crate) fn present(&self, path: &TreePath) -> Result<Option<Present>, SourceError> {
        if let Some(seen) = self.seen(path) {
            return Ok(match seen {
                Seen::Absent => None,
                Seen::Present(present) => Some(*present),
            });
        }
        let seen = match self.view.look(path).map_err(|error| source_error(path, &error))? {
            Sight::Absent | Sight::Hidden(_) => Seen::Absent,
            Sight::Broken(reason) => return Err(broken(path, &reason)),
            Sight::Visible(visible) => Seen::Present(Box::new(self.shown(*visible))),
        };
        self.remember(path, seen.clone());
        Ok(match seen {
            Seen::Absent => None,
            Seen::Present(present) => Some(*present),
        })
    }

    fn remember(&self, path: &TreePath, seen: Seen) {
        let mut sights = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Seen::Present(present) = &seen
            && let Some(hash) = present.hash
        {
            sights.contents.insert(hash, path.clone());
        }
        sights.paths.insert(path.clone(), seen);
    }

    fn shown(&self, mut visible: Visible) -> Present {
        let own = self.own.at_start(&visible.found.signature);
        if let (Some(start), Kind::File) = (own, visible.node.kind()) {
            let s = start.signature;
            visible.node = SourceNode::File { mode: start.mode, mtime: s.mtime, length: s.size };
            (visible.found, visible.trusted) = (start, false);
        }
        let hash = visible.row.as_ref().filter(|_| visible.trusted).and_then(|row| row.hash());
        Present { visible, hash, copy: None, own: own.is_some(), content: Weak::<KeptContent>::new() }
    }

    /// Opens, keeping first what the server does not hold.
    pub(crate) fn content(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        let not_a_file = || SourceError { path: path.to_string(), detail: "it is no file".to_owned(), changed: false };
        let mut present = self.present(path)?.ok_or_else(not_a_file)?;
        if let Some(content) = present.content.upgrade() {
            return Ok(content);
        }
        if present.visible.node.kind() != Kind::File {
            return Err(not_a_file());
        }
        let content = self.open_content(path, &mut present)?;
        present.content = Arc::downgrade(&content);
        self.remember(path, Seen::Present(Box::new(present)));
        Ok(content)
    }

    fn open_content(&self, path: &TreePath, present: &mut Present) -> Result<Arc<dyn FileContent>, SourceError> {
        let shown = path.to_string();
        let root = &self.view.shared.root;
        if let (Some(hash), Some(copy)) = (present.hash, &present.copy) {
            // Capture moves it to where contents are kept.
            let file = root.open_file(copy).or_else(|_| root.open_file(&kept_path(&hash)));
            let file = file.map_err(|error| unreadable(&shown, &error))?;
            let length = file.metadata().map_err(|error| unreadable(&shown, &error))?.len();
            return Ok(Arc::new(KeptContent { file, length, hash, path: shown }));
        }
        self.prove(path, present)?;
        if let (Some(hash), Some(row)) = (present.hash, &present.visible.row) {
            if let Ok(file) = root.open_file(&kept_path(&hash)) {
                let length = file.metadata().map_err(|error| unreadable(&shown, &error))?.len();
                return Ok(Arc::new(KeptContent { file, length, hash, path: shown }));
            }
            if row.synced {
                let file = root.open_file(path.as_str()).map_err(|error| unreadable(&shown, &error))?;
                let signature = signature_of(&file).map_err(|error| unreadable(&shown, &error))?;
                if signature != present.visible.found.signature {
                    return Err(changed(&shown));
                }
                return Ok(Arc::new(LiveContent { file, signature, hash, path: shown }));
            }
        }
        let (file, length, hash, copy) = self.keep(path, present)?;
        (present.hash, present.copy) = (Some(hash), Some(copy));
        Ok(Arc::new(KeptContent { file, length, hash, path: shown }))
    }

    /// Hashes a file whose signature is the index's, but was taken too soon after its last change to be trusted: if the
    /// server holds its content, it need not be kept.
    fn prove(&self, path: &TreePath, present: &mut Present) -> Result<(), SourceError> {
        let found = &present.visible.found;
        let Some(row) = present.visible.row.as_ref().filter(|row| row.synced && present.hash.is_none()) else {
            return Ok(());
        };
        if row.signature != Some(found.signature) || present.own {
            return Ok(());
        }
        let hash = crate::exchange::hash_at(&self.view.shared, path.as_str(), found);
        let hash = hash.map_err(|error| unreadable(&path.to_string(), &error))?;
        if hash == row.hash() {
            present.hash = hash;
        }
        Ok(())
    }

    /// Copies a live file into the staging folder; it must be as it was shown, before and after.
    fn keep(&self, path: &TreePath, present: &Present) -> Result<(File, u64, Hash, String), SourceError> {
        let shown = path.to_string();
        let found = &present.visible.found.signature;
        let live =
            self.view.shared.root.open_file(path.as_str()).map_err(|error| match crate::fs::is_absent(&error) {
                true => changed(&shown),
                false => unreadable(&shown, &error),
            })?;
        let same = |file: &File| -> Result<bool, SourceError> {
            let now = signature_of(file).map_err(|error| unreadable(&shown, &error))?;
            let same_file = (now.device, now.inode) == (found.device, found.inode);
            Ok(if present.own { same_file && now.size >= found.size } else { now == *found })
        };
        if !same(&live)? {
            return Err(changed(&shown));
        }
        let limit = if present.own { found.size } else { u64::MAX };
        let failed = |error: std::io::Error| SourceError {
            path: shown.clone(),
            detail: format!("keeping a copy failed: {error}; free disk space and run again"),
            changed: false,
        };
        let (mut copy, copy_path) = self.staging.new_file().map_err(failed)?;
        let (length, hash) = copy_hashed(&live, &mut copy, limit).map_err(failed)?;
        if !same(&live)? || length != found.size {
            return Err(changed(&shown));
        }
        Ok((copy, length, hash, copy_path))
    }
}

impl TreeSource for WorkingTree {
    fn stat(&self, path: &TreePath) -> Result<Option<SourceNode>, SourceError> {
        Ok(self.present(path)?.map(|present| present.visible.node))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, SourceError> {
        Ok(self.view.list(path).map_err(|error| source_error(path, &error))?.names)
    }

    fn open(&self, path: &TreePath) -> Result<Arc<dyn FileContent>, SourceError> {
        self.content(path)
    }
}

impl Present {
    /// May the file have been changed within the same tick of the clock in which it was looked at?
    pub(crate) fn is_racy(&self) -> bool {
        is_racy(&self.visible.found.signature, self.visible.taken)
    }
}

/// The signature of an open file.
pub(crate) fn signature_of(file: &File) -> std::io::Result<Signature> {
    Ok(Signature::of(&rustix::fs::fstat(file)?))
}

fn broken(path: &TreePath, reason: &str) -> SourceError {
    SourceError {
        path: path.to_string(),
        detail: format!("it is in the workspace, but now {reason}; mend it or remove it"),
        changed: false,
    }
}

fn source_error(path: &TreePath, error: &ClientError) -> SourceError {
    SourceError { path: path.to_string(), detail: error.to_string(), changed: false }
}

/// The content of a file whose state the log holds, if it is still at hand: kept, displaced, or live and unchanged, but for
/// what was appended since.
pub(crate) fn content_of(shared: &Shared, hash: &Hash) -> Result<Option<Arc<dyn FileContent>>, ClientError> {
    if let Some(content) = content_in(shared, &kept_path(hash), hash, None) {
        return Ok(Some(content));
    }
    let (displaced, live) = {
        let db = shared.db.read();
        (db::keep::displaced_with(&db, hash)?, db::index::path_of_hash(&db, hash)?)
    };
    let displaced = displaced.into_iter().map(|displaced| (displaced.file, None));
    let live = live.into_iter().map(|(path, row)| {
        let length = match row.node {
            Node::File { length, .. } => Some(length),
            _ => None,
        };
        (path.as_str().to_owned(), length)
    });
    Ok(displaced.chain(live).find_map(|(path, length)| content_in(shared, &path, hash, length)))
}

/// A file, or the first `length` bytes of it, if that has this content.
///
/// The bytes may be written to while they are read for shipping; the receiver checks the hash again.
pub(crate) fn content_in(
    shared: &Shared,
    path: &str,
    hash: &Hash,
    length: Option<u64>,
) -> Option<Arc<dyn FileContent>> {
    let file = shared.root.open_file(path).ok()?;
    let (length, found) = hash_start(&file, length.unwrap_or(u64::MAX)).ok()?;
    (found == *hash).then(|| Arc::new(KeptContent { file, length, hash: found, path: path.to_owned() }) as _)
}

/// Length and hash of all of a file.
pub(crate) fn hash_file(file: &File) -> std::io::Result<(u64, Hash)> {
    hash_start(file, u64::MAX)
}

/// Length and hash of a file, or of as many bytes of its start.
fn hash_start(file: &File, most: u64) -> std::io::Result<(u64, Hash)> {
    let mut hasher = opship_record::Hasher::new();
    // Most files are small, and a large buffer costs more than reading them.
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut buffer = vec![0; length.saturating_add(1).clamp(512, 256 << 10)];
    let mut offset = 0;
    loop {
        let wanted = usize::try_from(most - offset).unwrap_or(usize::MAX).min(buffer.len());
        let count = opship_world::read_fully_at(file, offset, &mut buffer[..wanted])?;
        hasher.update(&buffer[..count]);
        offset += count as u64;
        if count < buffer.len() {
            return Ok((offset, hasher.finish()));
        }
    }
}

impl WorkingTree {
    /// A content that the run saw, by its hash: of a file that it only renamed or linked.
    pub(crate) fn content_with(&self, hash: &Hash) -> Result<Arc<dyn FileContent>, ClientError> {
        let path = self.seen.lock().unwrap_or_else(PoisonError::into_inner).contents.get(hash).cloned();
        let missing = || ClientError::Refused(format!("the content {} of the run is not here", hash.short()));
        Ok(self.content(&path.ok_or_else(missing)?)?)
    }
}
