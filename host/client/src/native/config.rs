//! Which program a name stands for, and which module stands for it.
//!
//! Programs come from the user's own configuration alone. What a workspace brings (`opship.toml` at its root) may name
//! modules and give hints, and nothing else: a file that tries is refused as a whole.

use crate::ClientError;
use crate::db::index;
use crate::modules::is_module_name;
use crate::working_copy::Shared;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use opship_record::TreePath;
use opship_record::node::Kind;
use opship_residual::Hint;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// `[native] NAME = { … }` of the user's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeProgram {
    /// The program: an absolute path, or a name to be looked up in `PATH`; absent: the name itself.
    pub program: Option<PathBuf>,
    /// The module that stands for it; absent: the workspace's choice, or the name itself.
    pub module: Option<String>,
    /// Further files that it reads and may destroy: patterns as in `.gitignore`.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// What to ship where the module writes other bytes: `none`, `delta`, `parity(n)` or `auto`; absent: the workspace's
    /// hint, or `auto`.
    #[serde(default, deserialize_with = "hint")]
    pub hint: Option<Hint>,
}

/// What stands for a program, by all that is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The module's name.
    pub module: String,
    /// Patterns of further inputs.
    pub inputs: Vec<String>,
    /// What to ship where the module writes other bytes.
    pub hint: Hint,
}

/// What a workspace says about programs: `opship.toml` at its root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    #[serde(default)]
    native: BTreeMap<String, WorkspaceProgram>,
}

/// `[native] NAME = { … }` of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkspaceProgram {
    module: Option<String>,
    #[serde(default)]
    inputs: Vec<String>,
    #[serde(default, deserialize_with = "hint")]
    hint: Option<Hint>,
}

fn hint<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Hint>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

/// The file's name at a workspace's root.
pub(crate) const WORKSPACE_FILE: &str = "opship.toml";
/// Longest such file in bytes.
const MAX_WORKSPACE_FILE: u64 = 64 << 10;

impl NativeProgram {
    /// What is wrong with it.
    pub(crate) fn check(&self, name: &str) -> Result<(), String> {
        if name.is_empty() || name.contains('/') || name.starts_with('-') {
            return Err(format!("[native] '{name}': a program's name has no '/' and does not start with '-'"));
        }
        if let Some(program) = &self.program
            && !program.is_absolute()
            && program.components().count() != 1
        {
            let program = program.display();
            return Err(format!("[native] {name}: program '{program}' must be a name or an absolute path"));
        }
        self.module.iter().try_for_each(|module| check_module(name, module))?;
        patterns(&self.inputs).map(drop).map_err(|error| format!("[native] {name}: inputs: {error}"))
    }

    /// What stands for the program `name`: what the user says comes before what the workspace says.
    pub fn with(&self, name: &str, workspace: &Workspace) -> Chosen {
        let theirs = workspace.native.get(name);
        let inputs = self.inputs.iter().chain(theirs.into_iter().flat_map(|program| &program.inputs)).cloned();
        Chosen {
            module: self.module.clone().or_else(|| theirs?.module.clone()).unwrap_or_else(|| name.to_owned()),
            inputs: inputs.collect(),
            hint: self.hint.or_else(|| theirs?.hint).unwrap_or_default(),
        }
    }
}

impl Workspace {
    /// Reads `opship.toml` of the working copy at `root`. Without the file nothing is said.
    ///
    /// # Errors
    /// [`ClientError::Config`] if it cannot be understood, or says what a workspace may not say: it names the key.
    pub fn read(root: &Path) -> Result<Workspace, ClientError> {
        let file = root.join(WORKSPACE_FILE);
        let wrong = |detail: String| ClientError::Config { file: file.clone(), detail };
        // The file came from others: a link or a device is not followed or waited for.
        match std::fs::symlink_metadata(&file) {
            Ok(found) if found.is_file() && found.len() <= MAX_WORKSPACE_FILE => {}
            Ok(_) => return Err(wrong("it is no plain file of at most 64 KiB".to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Workspace::default()),
            Err(error) => return Err(wrong(error.to_string())),
        }
        let text = std::fs::read_to_string(&file).map_err(|error| wrong(error.to_string()))?;
        Workspace::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Workspace, String> {
        let workspace: Workspace = toml::from_str(text).map_err(|error| {
            let error = error.to_string();
            format!("a workspace may only say 'module', 'inputs' and 'hint' of a program; {}", error.trim())
        })?;
        for (name, program) in &workspace.native {
            program.module.iter().try_for_each(|module| check_module(name, module))?;
            patterns(&program.inputs).map_err(|error| format!("[native] {name}: inputs: {error}"))?;
        }
        Ok(workspace)
    }
}

fn check_module(name: &str, module: &str) -> Result<(), String> {
    match is_module_name(module.strip_prefix("std/").unwrap_or(module)) {
        true => Ok(()),
        false => Err(format!("[native] {name}: '{module}' cannot name a module")),
    }
}

fn patterns(lines: &[String]) -> Result<Gitignore, String> {
    let mut builder = GitignoreBuilder::new("");
    for line in lines {
        builder.add_line(None, line).map_err(|error| format!("the pattern '{line}' is none: {error}"))?;
    }
    builder.build().map_err(|error| error.to_string())
}

/// The recorded files that patterns choose, `most` of them at most.
pub(super) fn chosen(shared: &Shared, lines: &[String], most: usize) -> Result<Vec<TreePath>, ClientError> {
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let patterns = patterns(lines).map_err(ClientError::Refused)?;
    let rows = index::all_below(&shared.db.read(), &TreePath::root())?;
    let is_chosen = |path: &TreePath, kind: Kind| patterns.matched(path.as_str(), kind == Kind::Directory).is_ignore();
    let chosen = rows.into_iter().filter(|(path, row)| row.node.kind() == Kind::File && is_chosen(path, Kind::File));
    Ok(chosen.map(|(path, _)| path).take(most).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_workspace_may_name_modules_and_inputs_and_nothing_else() {
        let text = "[native]\ncc = { module = \"c-compiler\", inputs = [\"*.h\"], hint = \"parity(16)\" }\n";
        let workspace = Workspace::parse(text).unwrap();
        let Chosen { module, inputs, hint } = NativeProgram::default().with("cc", &workspace);
        assert_eq!((module.as_str(), inputs, hint), ("c-compiler", vec!["*.h".to_owned()], Hint::Parity(16)));
        let mine = NativeProgram { module: Some("mine".to_owned()), ..NativeProgram::default() };
        assert_eq!(mine.with("cc", &workspace).module, "mine");
        assert_eq!(NativeProgram::default().with("sort", &workspace).module, "sort");
        for key in ["program", "path", "command", "environment", "arguments"] {
            let error = Workspace::parse(&format!("[native]\ncc = {{ {key} = \"/bin/sh\" }}\n")).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
        let hint = "[native]\ncc = { hint = \"parity(3)\" }\n";
        for bad in
            [hint, "[run]\n", "[native]\ncc = { module = \"../x\" }\n", "[native]\ncc = \"sh\"\n", "native = 1\n"]
        {
            assert!(Workspace::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_program_is_a_name_or_an_absolute_path() {
        let program = |path: &str| NativeProgram { program: Some(path.into()), ..NativeProgram::default() };
        assert_eq!(program("gzip").check("gzip"), Ok(()));
        assert_eq!(program("/opt/bin/gzip").check("gzip"), Ok(()));
        assert!(program("bin/gzip").check("gzip").is_err());
        assert!(NativeProgram::default().check("a/b").is_err());
    }
}
