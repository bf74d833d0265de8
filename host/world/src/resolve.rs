//! From a path to its place in the tree.

use crate::inode::{InodeId, Node};
use crate::tree::Tree;
use crate::{Errno, Trap, limits};

/// Where a path leads.
#[derive(Debug)]
pub(crate) struct Place {
    /// The directory that holds the last name; what the path leads to if it has none (`.`, `a/..`).
    pub(crate) directory: InodeId,
    /// The last name.
    pub(crate) name: Option<String>,
    /// What is there.
    pub(crate) found: Option<InodeId>,
    /// Did the path end in a slash?
    pub(crate) slash: bool,
}

impl Place {
    /// What is there, or `ENOENT`.
    pub(crate) fn existing(&self) -> Result<InodeId, Trap> {
        self.found.ok_or(Errno::Noent.into())
    }

    /// The name, or `errno` if the path leads to `.` or `..`.
    pub(crate) fn named(&self, errno: Errno) -> Result<&str, Trap> {
        self.name.as_deref().ok_or(errno.into())
    }
}

impl Tree {
    /// Walks `path` from the last directory of `stack`. The first one of `stack` is never left, not even for a moment.
    /// A link at the end is followed if `follow` is set or a slash is behind it.
    ///
    /// All that was seen on the way is observed: links followed, names missing, and that the end exists.
    pub(crate) fn resolve(&mut self, mut stack: Vec<InodeId>, path: &str, follow: bool) -> Result<Place, Trap> {
        if path.is_empty() {
            return Err(Errno::Noent.into());
        }
        let grown = self.observations.take_growth();
        self.hold(grown)?;
        let mut rest: Vec<String> = Vec::new();
        push_components(path, &mut rest)?;
        let mut links = 0;
        while let Some(name) = rest.pop() {
            let at = *stack.last().ok_or(Errno::Perm)?;
            if name.is_empty() || name == "." {
                continue;
            }
            if name == ".." {
                stack.pop();
                self.observe_exists(at);
                if stack.is_empty() {
                    return Err(Errno::Perm.into());
                }
                continue;
            }
            let is_last = rest.iter().all(String::is_empty);
            let slash = is_last && !rest.is_empty();
            let Some(id) = self.lookup(at, &name)? else {
                self.observe_missing(at, &name, &names(&rest));
                return if is_last {
                    Ok(Place { directory: at, name: Some(name), found: None, slash })
                } else {
                    Err(Errno::Noent.into())
                };
            };
            match &self.inode(id).node {
                Node::Symlink(target) if !is_last || follow || slash => {
                    let target = target.clone();
                    self.observe_target(id);
                    links += 1;
                    if links > limits::LINKS {
                        return Err(Errno::Loop.into());
                    }
                    let target = std::str::from_utf8(&target).map_err(|_| Errno::Noent)?;
                    push_components(target, &mut rest)?;
                }
                Node::Directory(_) if !is_last => stack.push(id),
                Node::Directory(_) => {
                    self.observe_exists(id);
                    return Ok(Place { directory: at, name: Some(name), found: Some(id), slash });
                }
                _ if is_last && !slash => {
                    self.observe_exists(id);
                    return Ok(Place { directory: at, name: Some(name), found: Some(id), slash });
                }
                _ => {
                    self.observe_below(id, &names(&rest));
                    return Err(Errno::Notdir.into());
                }
            }
        }
        let end = *stack.last().ok_or(Errno::Perm)?;
        self.observe_exists(end);
        Ok(Place { directory: end, name: None, found: Some(end), slash: false })
    }
}

/// Puts a path's components before what is still to be walked, which is kept last one first.
fn push_components(path: &str, rest: &mut Vec<String>) -> Result<(), Trap> {
    if path.starts_with('/') {
        return Err(Errno::Perm.into());
    }
    if rest.len() > limits::PATH as usize {
        return Err(Errno::Nametoolong.into());
    }
    rest.extend(path.split('/').rev().map(str::to_owned));
    Ok(())
}

/// The names still to be walked; none if they are not all plain names.
fn names(rest: &[String]) -> Vec<&str> {
    let names: Vec<&str> = rest.iter().rev().map(String::as_str).filter(|name| !name.is_empty()).collect();
    if names.iter().any(|name| matches!(*name, "." | "..")) { Vec::new() } else { names }
}
