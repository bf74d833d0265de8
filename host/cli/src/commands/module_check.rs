//! `opship module check`.

use super::sync::Bars;
use super::{book, examination, here, module, run};
use crate::args::ModuleCheck;
use crate::{output, standard};
use opship_client::examine::{Examination, ExamineRequest, examine};
use opship_client::modules::ModuleChoice;
use opship_client::sync::Progress;
use opship_client::{ClientError, FolderTree, StdinRequest, StepRequest, WorkingCopy};
use opship_record::{Hash, TreePath};
use opship_world::MemoryTree;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long one run may take where no limit is given.
const PATIENCE: Duration = Duration::from_secs(600);
/// It did something else in worlds that are equal for it.
const CONTRADICTION: u8 = 1;

pub(super) fn check(arguments: &ModuleCheck, json: bool) -> ExitCode {
    match try_check(arguments, json) {
        Ok(code) => code,
        Err(error) => output::failed(&error, json),
    }
}

fn try_check(arguments: &ModuleCheck, json: bool) -> Result<ExitCode, ClientError> {
    let copy = match here() {
        Ok(copy) => Some(copy),
        Err(ClientError::NoWorkingCopy(_)) => None,
        Err(error) => return Err(error),
    };
    let Some((choice, bytes)) = find(copy.as_ref(), &arguments.module)? else {
        output::error(&module::unknown(&arguments.module.to_string_lossy()).to_string());
        return Ok(ExitCode::from(output::UNKNOWN_MODULE));
    };
    let bars = Arc::new(Bars::new(json));
    let request = request(arguments, copy.as_ref(), &choice, bytes, &bars)?;
    let examination = examine(&request);
    bars.clear();
    let examination = examination?;
    if json {
        output::json(&examination::as_json(&choice, &examination));
    } else {
        examination::print(&choice.name, &examination);
    }
    if copy.is_none() && arguments.tree.is_none() {
        output::note("it ran on an empty tree, since this is no working copy; '--tree DIR' takes a folder");
    }
    Ok(ExitCode::from(exit_code(&examination)))
}

fn exit_code(examination: &Examination) -> u8 {
    match &examination.ran {
        Ok(ran) if ran.contradictions().is_empty() => 0,
        Ok(_) => CONTRADICTION,
        Err(_) => output::FAILURE,
    }
}

/// The module and its bytes. `None`: there is none of that name.
fn find(copy: Option<&WorkingCopy>, module: &OsStr) -> Result<Option<(ModuleChoice, Vec<u8>)>, ClientError> {
    if run::is_name(module) {
        let name = module.to_string_lossy();
        return match copy {
            Some(copy) => registered(copy, &name),
            None => Ok(embedded(&name)),
        };
    }
    let path = Path::new(module);
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some((choice(&path.file_stem().unwrap_or(module).to_string_lossy(), &bytes), bytes))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ClientError::io(format!("reading '{}'", path.display()))(error)),
    }
}

fn registered(copy: &WorkingCopy, name: &str) -> Result<Option<(ModuleChoice, Vec<u8>)>, ClientError> {
    let book = book(copy)?;
    let Some(choice) = run::choose_named(copy, &book, name)? else { return Ok(None) };
    let bytes = book.bytes(&choice.hash)?;
    Ok(bytes.map(|bytes| (choice, bytes)))
}

fn embedded(name: &str) -> Option<(ModuleChoice, Vec<u8>)> {
    let name = name.strip_prefix("std/").unwrap_or(name);
    let (_, bytes) = standard::MODULES.iter().find(|(known, _)| *known == name)?;
    Some((choice(name, bytes), bytes.to_vec()))
}

fn choice(name: &str, bytes: &[u8]) -> ModuleChoice {
    ModuleChoice { name: name.to_owned(), hash: Hash::of(bytes), argv0: name.to_owned(), mounts: Vec::new() }
}

fn request(
    arguments: &ModuleCheck,
    copy: Option<&WorkingCopy>,
    choice: &ModuleChoice,
    module: Vec<u8>,
    bars: &Arc<Bars>,
) -> Result<ExamineRequest, ClientError> {
    let on_copy = copy.filter(|_| arguments.tree.is_none());
    let step = StepRequest {
        environment: run::environment(&arguments.environment)?,
        directory: on_copy.map_or(Ok(TreePath::root()), run::current_directory)?,
        stdin: match on_copy {
            Some(copy) => run::stdin(copy, arguments.stdin.as_deref())?,
            None => stdin(arguments.stdin.as_deref())?,
        },
        mounts: copy.map(book).transpose()?.map_or(Vec::new(), |book| run::mounts(&book, choice)),
        ..StepRequest::new(choice.hash, &choice.name, argument_list(arguments, choice))
    };
    let bars = Arc::clone(bars);
    Ok(ExamineRequest {
        module,
        step,
        tree: match (&arguments.tree, copy) {
            (Some(folder), _) => Arc::new(FolderTree::open(folder)?),
            (None, Some(copy)) => copy.tree()?,
            (None, None) => Arc::new(MemoryTree::new()),
        },
        clock_start: now(),
        compiler: run::compiler()?,
        scratch: std::env::temp_dir(),
        deadline: arguments.limits.time().unwrap_or(PATIENCE),
        budget: arguments.limits.budget(),
        memory_bytes: arguments.limits.memory_bytes(),
        progress: Some(Box::new(move |done, all| bars.step("running in other worlds", done as u64, all as u64))),
    })
}

fn argument_list(arguments: &ModuleCheck, choice: &ModuleChoice) -> Vec<Vec<u8>> {
    let first = OsString::from(&choice.argv0);
    std::iter::once(first).chain(arguments.arguments.iter().cloned()).map(OsString::into_vec).collect()
}

/// Standard input where there is no working copy: any file.
fn stdin(file: Option<&OsStr>) -> Result<StdinRequest, ClientError> {
    match file {
        None => Ok(StdinRequest::Empty),
        Some(file) if file == "-" => run::own_stdin(),
        Some(file) => {
            let path = Path::new(file);
            let opened = File::open(path).map_err(ClientError::io(format!("reading '{}'", path.display())))?;
            Ok(StdinRequest::File(opened))
        }
    }
}

/// In nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opship_client::examine::{Comparison, Found, Perturbation, Ran};
    use opship_engine::{ModuleInfo, RunError};

    /// A module that ended otherwise in this world.
    fn ended_in(world: Perturbation) -> Examination {
        let ran =
            Ran { comparisons: vec![Comparison { world, found: Found::Ended("a trap".to_owned()) }], ..Ran::default() };
        let info = ModuleInfo { bytes: 8, functions: 1, imports: Vec::new(), memory_pages: 0 };
        Examination { info, compiled: Vec::new(), ran: Ok(ran) }
    }

    #[test]
    fn only_a_difference_between_equal_worlds_is_a_failure() {
        let (seed, repeat) = (ended_in(Perturbation::Seed), ended_in(Perturbation::Repeat));
        assert_eq!((exit_code(&seed), exit_code(&repeat)), (0, CONTRADICTION));
        assert_eq!(exit_code(&Examination { ran: Err(RunError::Deadline), ..repeat }), output::FAILURE);
        let json = examination::as_json(&choice("m", b""), &ended_in(Perturbation::Interpreter));
        assert_eq!((&json["deterministic"], &json["contradictions"][0]), (&false.into(), &"interpreter".into()));
        assert_eq!(json["worlds"][0]["detail"], "a trap");
    }
}
