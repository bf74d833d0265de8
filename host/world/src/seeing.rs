//! What calls record as seen, by inode: only what the source holds counts, never what the run made.

use crate::Trap;
use crate::inode::{InodeId, Node};
use crate::tree::Tree;
use opship_record::node::Kind;

impl Tree {
    /// Records that `name` is not in a directory of the source; `rest` is what was to be looked up below it.
    pub(crate) fn observe_missing(&mut self, directory: InodeId, name: &str, rest: &[&str]) {
        let inode = &self.inodes[directory];
        let is_overlaid = inode.directory().is_some_and(|d| d.entries.contains_key(name));
        let Some(missing) = inode.tree_origin().filter(|_| !is_overlaid).and_then(|origin| origin.join(name).ok())
        else {
            return;
        };
        let path = rest.iter().try_fold(missing.clone(), |path, name| path.join(name)).unwrap_or(missing.clone());
        self.observations.absent(path, missing, Kind::Directory);
    }

    /// Records that a name was looked up below something that is no directory.
    pub(crate) fn observe_below(&mut self, id: InodeId, rest: &[&str]) {
        let inode = &self.inodes[id];
        let Some(origin) = inode.tree_origin() else { return };
        let kind = inode.kind();
        match rest.split_first().and_then(|(first, rest)| Some((origin.join(first).ok()?, rest))) {
            Some((missing, rest)) => {
                let path = rest.iter().try_fold(missing.clone(), |path, n| path.join(n)).unwrap_or(missing.clone());
                self.observations.absent(path, missing, kind);
            }
            None => self.observations.exists(&origin.clone()),
        }
    }

    pub(crate) fn observe_exists(&mut self, id: InodeId) {
        if let Some(origin) = self.inodes[id].tree_origin() {
            self.observations.exists(origin);
        }
    }

    pub(crate) fn observe_metadata(&mut self, id: InodeId) {
        let Some(origin) = self.inodes[id].tree_origin() else { return };
        self.observations.metadata(origin);
    }

    pub(crate) fn observe_target(&mut self, id: InodeId) {
        let Some(origin) = self.inodes[id].tree_origin() else { return };
        self.observations.target(origin);
    }

    pub(crate) fn observe_listing(&mut self, id: InodeId) {
        let Some(origin) = self.inodes[id].tree_origin() else { return };
        self.observations.listing(origin);
    }

    /// Records that the source's content of a file was seen, unless the run has made it its own, and has it at hand for as
    /// long as the file is open.
    pub(crate) fn observe_content(&mut self, id: InodeId) -> Result<(), Trap> {
        match self.inodes[id].file() {
            Some(file) if file.produced.is_none() && !(file.observed && file.content.is_some()) => {}
            _ => return Ok(()),
        }
        let Some(content) = self.content(id)? else { return Ok(()) };
        let inode = &mut self.inodes[id];
        let is_open = inode.opens > 0;
        let Node::File(file) = &mut inode.node else { return Ok(()) };
        let is_new = !std::mem::replace(&mut file.observed, true);
        if !is_open {
            file.content = None;
        }
        if is_new && let Some(origin) = inode.tree_origin() {
            self.observations.content(origin, content.hash()?);
        }
        Ok(())
    }
}
