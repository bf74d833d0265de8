//! Reading cases from a folder.

use super::read_tree;
use opship_world::MemoryTree;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// One case.
#[derive(Debug)]
pub struct Case {
    /// Its file's name without `.wasm`.
    pub name: String,
    /// The module's bytes.
    pub module: Vec<u8>,
    /// Arguments after the module's name.
    pub arguments: Vec<String>,
    /// The environment, in byte order of the names.
    pub environment: BTreeMap<String, String>,
    /// What it finds at `/`; without it, it has no directory at all.
    pub root: Option<MemoryTree>,
    /// The exit code that it must end with.
    pub exit_code: u32,
    /// What it must write to standard output, if that matters.
    pub stdout: Option<String>,
    /// What it must write to standard error, if that matters.
    pub stderr: Option<String>,
}

/// What `X.json` says. Members that are not known fail the case, since what they ask for would not be tested.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Spec {
    args: Vec<String>,
    env: BTreeMap<String, String>,
    root: Option<PathBuf>,
    exit_code: u32,
    stdout: Option<String>,
    stderr: Option<String>,
}

/// Why a folder or a case cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A file or folder cannot be read.
    #[error("'{path}' cannot be read: {source}; check the folder of cases")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `X.json` is none, or asks for something that the runner does not do.
    #[error("'{path}' describes no case: {source}; its members are args, env, root, exit_code, stdout and stderr")]
    Spec {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The root holds something that no tree can hold.
    #[error("'{path}' cannot be part of a case's root: {detail}; leave it out")]
    Root {
        /// Which.
        path: PathBuf,
        /// Why.
        detail: String,
    },
}

impl CaseError {
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> CaseError {
        let path = path.to_owned();
        |source| CaseError::Read { path, source }
    }
}

/// The modules of a folder, sorted by name; its subfolders are not searched.
///
/// # Errors
/// [`CaseError::Read`].
pub fn cases(folder: &Path) -> Result<Vec<PathBuf>, CaseError> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(folder).map_err(CaseError::read(folder))? {
        let path = item.map_err(CaseError::read(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

impl Case {
    /// Reads the case of a module, with a fresh copy of its root.
    ///
    /// # Errors
    /// [`CaseError`].
    pub fn read(module: &Path) -> Result<Case, CaseError> {
        let path = module.with_extension("json");
        let spec = match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|source| CaseError::Spec { path, source })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Spec::default(),
            Err(error) => return Err(CaseError::read(&path)(error)),
        };
        let folder = module.parent().unwrap_or(Path::new("."));
        let root = spec.root.map(|root| read_tree(&folder.join(root))).transpose()?;
        Ok(Case {
            name: module.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            module: std::fs::read(module).map_err(CaseError::read(module))?,
            arguments: spec.args,
            environment: spec.env,
            root,
            exit_code: spec.exit_code,
            stdout: spec.stdout,
            stderr: spec.stderr,
        })
    }
}
