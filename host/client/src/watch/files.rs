//! Hearing of changes in the folder: inotify, or, where the system has no more watches, a look from time to time.

use crate::tree::{Sight, View};
use crate::{ClientError, WorkingCopy};
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Config, ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use opship_record::TreePath;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// With more changed paths than this, which they are makes no difference.
const MAX_PATHS: usize = 1000;

/// What has changed since it was asked last.
#[derive(Debug, Default)]
struct Changed {
    paths: BTreeSet<PathBuf>,
    /// More than the paths say.
    more: bool,
    /// Why no more is heard.
    deaf: Option<String>,
}

/// File events of a working copy.
pub(super) struct Files {
    // Ends the events when it is dropped.
    _watcher: Option<RecommendedWatcher>,
    changed: Arc<Mutex<Changed>>,
    heard: Arc<Notify>,
}

/// What was heard.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Paths, absolute.
    paths: BTreeSet<PathBuf>,
    /// More than the paths say.
    more: bool,
    /// Why no more will be heard, with what to do about it.
    pub(super) deaf: Option<String>,
}

impl Files {
    /// Begins to listen. If that is not possible, the first [`Files::heard`] says why.
    pub(super) fn listen(copy: &WorkingCopy) -> Files {
        let (changed, heard): (Arc<Mutex<Changed>>, Arc<Notify>) = Default::default();
        let (to, wake, own) = (Arc::clone(&changed), Arc::clone(&heard), copy.own_folder());
        let handler = move |event: notify::Result<notify::Event>| {
            if note(&mut to.lock().unwrap_or_else(PoisonError::into_inner), event, &own) {
                wake.notify_one();
            }
        };
        let watcher = RecommendedWatcher::new(handler, Config::default().with_follow_symlinks(false));
        let watcher = watcher.and_then(|mut watcher| {
            watcher.watch(copy.path(), RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        let watcher = watcher.inspect_err(|error| {
            changed.lock().unwrap_or_else(PoisonError::into_inner).deaf = Some(why_deaf(error));
            heard.notify_one();
        });
        Files { _watcher: watcher.ok(), changed, heard }
    }

    /// Waits until something is heard.
    pub(super) async fn wait(&self) {
        self.heard.notified().await;
    }

    /// What was heard since this was asked last.
    pub(super) fn heard(&self) -> Heard {
        let changed = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        Heard { paths: changed.paths, more: changed.more, deaf: changed.deaf }
    }
}

impl Heard {
    /// Adds what was heard later.
    pub(super) fn add(&mut self, later: Heard) {
        self.more |= later.more || self.paths.len() + later.paths.len() > MAX_PATHS;
        self.paths.extend(later.paths);
        self.deaf = self.deaf.take().or(later.deaf);
    }

    /// May this concern the tree? Ignored paths and those that came and went do not, so that a compiler at work beside
    /// the synced files does not make the watch look at all of them again and again.
    pub(super) fn concerns(&self, copy: &WorkingCopy) -> Result<bool, ClientError> {
        if self.more {
            return Ok(true);
        }
        let view = View::new(&copy.shared);
        for path in &self.paths {
            let Ok(below) = path.strip_prefix(copy.path()) else { return Ok(true) };
            let Ok(path) = TreePath::from_bytes(below.as_os_str().as_bytes()) else { continue };
            match view.look(&path)? {
                Sight::Hidden(reason) if reason == "ignored" => {}
                Sight::Absent if copy.node(&path)?.is_none() => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// Takes an event down. `true`: it is worth waking somebody.
fn note(changed: &mut Changed, event: notify::Result<notify::Event>, own: &Path) -> bool {
    let event = match event {
        Ok(event) => event,
        Err(error) => {
            match error.kind {
                ErrorKind::MaxFilesWatch => changed.deaf = Some(why_deaf(&error)),
                // A folder that is gone before it could be listened to, or cannot be read.
                _ => tracing::debug!(%error, "file events"),
            }
            changed.more = true;
            return true;
        }
    };
    if matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write)) {
        return false;
    }
    if event.need_rescan() {
        changed.more = true;
        return true;
    }
    // A watch whose own folder goes away has to end.
    let moves = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
    let mut news = moves && event.paths.iter().any(|path| path == own);
    for path in event.paths.into_iter().filter(|path| !path.starts_with(own)) {
        news = true;
        if changed.paths.len() < MAX_PATHS {
            changed.paths.insert(path);
        } else {
            changed.more = true;
        }
    }
    news
}

fn why_deaf(error: &notify::Error) -> String {
    match &error.kind {
        ErrorKind::MaxFilesWatch => "the system has no more file watches for this user; raise their number with \
                                     'sysctl fs.inotify.max_user_watches=1048576' and start the watch again"
            .to_owned(),
        ErrorKind::Io(error) if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            "the system has no more inotify instances for this user; raise their number with 'sysctl \
             fs.inotify.max_user_instances=1024' and start the watch again"
                .to_owned()
        }
        _ => format!("the system does not tell of changes here ({error})"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use notify::event::{CreateKind, Flag, RemoveKind};

    fn event(kind: EventKind, path: &str) -> notify::Result<notify::Event> {
        Ok(notify::Event::new(kind).add_path(PathBuf::from(path)))
    }

    #[test]
    fn what_is_our_own_or_changes_nothing_wakes_nobody() {
        let (own, mut changed) = (Path::new("/w/.opship"), Changed::default());
        assert!(!note(&mut changed, event(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/w/a"), own));
        assert!(!note(&mut changed, event(EventKind::Modify(ModifyKind::Any), "/w/.opship/state.db-wal"), own));
        assert!(note(&mut changed, event(EventKind::Access(AccessKind::Close(AccessMode::Write)), "/w/a"), own));
        assert!(note(&mut changed, event(EventKind::Create(CreateKind::Any), "/w/.opshipignore"), own));
        assert!(note(&mut changed, event(EventKind::Remove(RemoveKind::Folder), "/w/.opship"), own));
        assert_eq!(changed.paths.len(), 2);
    }

    #[test]
    fn lost_events_and_floods_mean_that_anything_may_have_changed() {
        let (own, mut changed) = (Path::new("/w/.opship"), Changed::default());
        let lost = notify::Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert!(note(&mut changed, Ok(lost), own) && changed.more);
        let mut changed = Changed::default();
        for n in 0..2 * MAX_PATHS {
            note(&mut changed, event(EventKind::Create(CreateKind::Any), &format!("/w/{n}")), own);
        }
        assert!(changed.more && changed.paths.len() == MAX_PATHS);
    }

    #[test]
    fn a_lack_of_watches_is_told_with_what_to_do() {
        let mut changed = Changed::default();
        assert!(note(&mut changed, Err(notify::Error::new(ErrorKind::MaxFilesWatch)), Path::new("/w/.opship")));
        assert!(changed.deaf.unwrap().contains("max_user_watches"));
    }
}
