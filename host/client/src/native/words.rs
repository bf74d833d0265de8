//! The command line of a native run, as the module sees it, and the paths that it names.

use crate::{ClientError, WorkingCopy};
use opship_record::TreePath;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// A program that is about to run in the working copy.
#[derive(Debug, Clone)]
pub struct NativeCommand {
    /// What the user calls it; the name of the mapping.
    pub name: String,
    /// Its arguments, without the program's name.
    pub arguments: Vec<OsString>,
    /// Its current directory, absolute and without links in it.
    pub directory: PathBuf,
}

impl NativeCommand {
    /// The command as one could type it, for the log.
    pub fn line(&self) -> String {
        let arguments = self.arguments.iter().map(|argument| argument.to_string_lossy());
        typed(std::iter::once(Cow::from(self.name.as_str())).chain(arguments))
    }

    /// The current directory in the tree.
    pub(super) fn tree_directory(&self, copy: &WorkingCopy) -> Result<TreePath, ClientError> {
        below(copy, &self.directory).ok_or_else(|| {
            let directory = self.directory.display();
            ClientError::Refused(format!("'{directory}' is not in the working copy {}", copy.path().display()))
        })
    }

    /// The arguments as the module sees them: an absolute path in the working copy starts at the module's root.
    pub(super) fn module_arguments(&self, copy: &WorkingCopy) -> Vec<Vec<u8>> {
        let root = copy.path().as_os_str().as_bytes();
        self.arguments.iter().map(|argument| from_the_root(argument.as_bytes(), root)).collect()
    }

    /// The paths of the tree that arguments name: each argument itself, and what follows the first `=` of an option.
    pub(super) fn named(&self, copy: &WorkingCopy) -> BTreeSet<TreePath> {
        let mut named = BTreeSet::new();
        for argument in &self.arguments {
            let bytes = argument.as_bytes();
            let value = bytes.iter().position(|b| *b == b'=').map(|at| &bytes[at + 1..]);
            for text in std::iter::once(bytes).chain(value).filter(|text| !text.is_empty()) {
                let path = self.directory.join(OsString::from_vec(text.to_vec()));
                named.extend(below(copy, &path).filter(|path| !path.is_root()));
            }
        }
        named
    }
}

/// Words as one could type them.
pub fn typed<'a>(words: impl Iterator<Item = Cow<'a, str>>) -> String {
    let quoted = words.map(|word| {
        let plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "._-/=:,+@%".contains(c));
        if plain { word.into_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// An absolute path as one of the tree; `None` if it is not in the working copy. `..` is taken by its word.
pub(super) fn below(copy: &WorkingCopy, path: &Path) -> Option<TreePath> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(clean.pop()),
            component => clean.push(component),
        }
    }
    TreePath::from_bytes(clean.strip_prefix(copy.path()).ok()?.as_os_str().as_bytes()).ok()
}

fn from_the_root(argument: &[u8], root: &[u8]) -> Vec<u8> {
    let start = match argument.iter().position(|b| *b == b'=') {
        Some(at) if argument.starts_with(b"-") => at + 1,
        _ => 0,
    };
    let (option, path) = argument.split_at(start);
    match path.strip_prefix(root) {
        Some([]) => [option, b"/"].concat(),
        Some(rest) if rest.starts_with(b"/") => [option, rest].concat(),
        _ => argument.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_in_the_working_copy_start_at_the_modules_root() {
        let seen =
            |argument: &str| String::from_utf8_lossy(&from_the_root(argument.as_bytes(), b"/home/u/w")).into_owned();
        for (argument, expected) in [
            ("/home/u/w/a/b", "/a/b"),
            ("/home/u/w", "/"),
            ("--output=/home/u/w/a", "--output=/a"),
            ("/home/u/wide", "/home/u/wide"),
            ("a=/home/u/w/b", "a=/home/u/w/b"),
            ("-k", "-k"),
        ] {
            assert_eq!(seen(argument), expected);
        }
    }
}
