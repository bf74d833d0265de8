//! The start of a step: its arguments, environment, standard streams and preopened directories.

use crate::body::Body;
use crate::descriptors::{Handle, Input, OpenDirectory, Output};
use crate::inode::{FileNode, InodeId, Node, ROOT};
use crate::{Errno, Fault, Trap, World};
use opship_record::TreePath;
use opship_record::plan::{Stdin, Step};
use std::sync::Arc;

/// Variables that every step has, unless the plan sets them.
const FIXED: [(&str, &str); 2] = [("LANG", "C.UTF-8"), ("TZ", "UTC")];

impl World {
    /// Begins a step: arguments, environment, current directory, standard streams and preopens are those of the plan.
    ///
    /// # Errors
    /// [`Fault::Refused`] if the step does not fit the tree, or something that it names was not supplied; other faults
    /// from the source or the disk.
    pub fn begin_step(&mut self, index: usize) -> Result<(), Fault> {
        let Some(step) = self.plan.steps.get(index).cloned() else {
            return Err(Fault::Refused { detail: format!("there is no step {index}") });
        };
        if index != self.streams.len() {
            return Err(Fault::Refused { detail: format!("step {index} is not the next one") });
        }
        self.streams.push((Body::new(), Body::new()));
        self.arguments = step.arguments.iter().map(|argument| with_nul(argument)).collect();
        self.environment = environment(&step, self.fixtures.variables);
        self.mount_all(&step)?;
        let input = self.input(&step)?;
        let output = self.output(&step)?;
        let directory = step.current_directory();
        let current = self.current(&directory)?;
        let opened = self.open_standard(input, output).and_then(|()| match self.fixtures.directories {
            true => self.open_directories(&step, current),
            false => Ok(()),
        });
        opened.map_err(|trap| refused(trap, "the preopened directories"))
    }

    fn mount_all(&mut self, step: &Step) -> Result<(), Fault> {
        for mount in step.mounts.as_deref().unwrap_or_default() {
            let Some(source) = self.mounts.get(&mount.tree).cloned() else {
                let detail = format!("the tree {} of mount '{}' was not supplied", mount.tree.short(), mount.path);
                return Err(Fault::Refused { detail });
            };
            self.tree.mount(&mount.path, source).map_err(|trap| refused(trap, &format!("mount '{}'", mount.path)))?;
        }
        Ok(())
    }

    fn input(&mut self, step: &Step) -> Result<Input, Fault> {
        match &step.stdin {
            None => Ok(Input::Empty),
            Some(Stdin::Step { step }) => Ok(Input::Stream(usize::from(*step))),
            Some(Stdin::Blob { hash }) => match self.stdin_blobs.get(hash) {
                Some(content) => Ok(Input::Content(Arc::clone(content))),
                None => Err(Fault::Refused { detail: format!("the standard input {} was not supplied", hash.short()) }),
            },
            Some(Stdin::Path { path }) => {
                self.input_file(path).map_err(|trap| refused(trap, &format!("standard input '{path}'")))
            }
        }
    }

    fn input_file(&mut self, path: &TreePath) -> Result<Input, Trap> {
        let id = self.tree.resolve(vec![ROOT], path.as_str(), true)?.existing()?;
        match self.tree.inode(id).file() {
            Some(file) if file.produced.is_some() => Ok(Input::File(id)),
            Some(_) => {
                self.tree.observe_content(id)?;
                Ok(self.tree.content(id)?.map_or(Input::Empty, Input::Content))
            }
            None => Err(Errno::Isdir.into()),
        }
    }

    fn output(&mut self, step: &Step) -> Result<Output, Fault> {
        match &step.stdout {
            None => Ok(Output::Stdout),
            Some(path) => self
                .output_file(path)
                .map(|inode| Output::File { inode, position: 0 })
                .map_err(|trap| refused(trap, &format!("standard output '{path}'"))),
        }
    }

    fn output_file(&mut self, path: &TreePath) -> Result<InodeId, Trap> {
        let place = self.tree.resolve(vec![ROOT], path.as_str(), true)?;
        let now = self.clock.file_time();
        let Some(id) = place.found else {
            let node = Node::File(FileNode { produced: Some(Box::new(Body::new())), ..FileNode::default() });
            return self.tree.create(place.directory, place.named(Errno::Isdir)?, node, now);
        };
        if self.tree.inode(id).file().is_none() {
            return Err(Errno::Isdir.into());
        }
        self.truncate(id)?;
        Ok(id)
    }

    /// The current directory's inode, `None` for the root.
    fn current(&mut self, path: &TreePath) -> Result<Option<InodeId>, Fault> {
        if path.is_root() {
            return Ok(None);
        }
        let found = self.tree.resolve(vec![ROOT], path.as_str(), true).and_then(|place| place.existing());
        let id = found.map_err(|trap| refused(trap, &format!("current directory '{path}'")))?;
        match self.tree.inode(id).directory() {
            Some(_) => Ok(Some(id)),
            None => Err(refused(Errno::Notdir.into(), &format!("current directory '{path}'"))),
        }
    }

    fn open_standard(&mut self, from: Input, output: Output) -> Result<(), Trap> {
        self.open(Handle::Input { from, position: 0 }, 0, true, false)?;
        self.open(Handle::Output(output), 0, false, true)?;
        self.open(Handle::Output(Output::Stderr), 0, false, true)?;
        Ok(())
    }

    fn open_directories(&mut self, step: &Step, current: Option<InodeId>) -> Result<(), Trap> {
        self.preopen(ROOT, "/".to_owned(), false)?;
        if let Some(inode) = current {
            self.preopen(inode, ".".to_owned(), true)?;
        }
        for mount in step.mounts.as_deref().unwrap_or_default() {
            let inode = self.tree.resolve(vec![ROOT], mount.path.as_str(), true)?.existing()?;
            self.preopen(inode, format!("/{}", mount.path), false)?;
        }
        Ok(())
    }

    fn preopen(&mut self, inode: InodeId, name: String, is_current: bool) -> Result<(), Trap> {
        let directory = OpenDirectory { inode, preopen: Some(name), is_current, listing: None, listing_bytes: 0 };
        self.open(Handle::Directory(directory), 0, true, false)?;
        Ok(())
    }
}

/// What a step's environment holds: the fixed variables first, then the plan's in its order; one that the plan sets again
/// keeps the place of its first mention and the value of its last.
fn environment(step: &Step, fixed: bool) -> Vec<Vec<u8>> {
    let mut variables: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    if fixed {
        variables.extend(FIXED.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())));
        let directory = step.directory.as_ref().map(|directory| format!("/{directory}").into_bytes());
        variables.extend(directory.map(|directory| (b"PWD".to_vec(), directory)));
    }
    for (name, value) in step.environment.as_deref().unwrap_or_default() {
        match variables.iter_mut().find(|(known, _)| known.as_slice() == name.as_slice()) {
            Some((_, old)) => *old = value.to_vec(),
            None => variables.push((name.to_vec(), value.to_vec())),
        }
    }
    variables.into_iter().map(|(name, value)| with_nul(&[name.as_slice(), b"=", value.as_slice()].concat())).collect()
}

fn with_nul(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0]].concat()
}

/// What a guest would get as an errno ends the run here, where there is no guest yet.
fn refused(trap: Trap, what: &str) -> Fault {
    let reason = match trap {
        Trap::Fault(fault) => return fault,
        Trap::Exit(_) => "it ended",
        Trap::Errno(Errno::Noent) => "it does not exist",
        Trap::Errno(Errno::Isdir) => "it is a directory",
        Trap::Errno(Errno::Notdir) => "it is, or lies below, something that is no directory",
        Trap::Errno(Errno::Rofs) => "it lies in a read-only mount",
        Trap::Errno(Errno::Perm) => "it leads out of the workspace",
        Trap::Errno(Errno::Loop) => "it leads through too many symbolic links",
        Trap::Errno(_) => "it cannot be used",
    };
    Fault::Refused { detail: format!("{what}: {reason}; correct the path and run again") }
}
