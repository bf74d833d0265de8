//! `opship run`.

use super::sync::Bars;
use super::{book, here, inspect, module, wait};
use crate::args::Run;
use crate::output;
use opship_client::modules::{ModuleBook, ModuleChoice, is_module_name};
use opship_client::native::typed;
use opship_client::sync::{Progress, api_for};
use opship_client::watch::nudge;
use opship_client::{ClientError, RunReport, RunRequest, StdinRequest, StepRequest, UserCache, WorkingCopy};
use opship_engine::{Compiler, Engine, EngineConfig};
use opship_record::{Hash, TreePath};
use opship_world::TreeSource;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// What a shell reports of a program that a broken pipe ended: 128 + SIGPIPE.
const BROKEN_PIPE: u8 = 141;

pub(super) fn run(arguments: &Run, json: bool) -> ExitCode {
    match try_run(arguments, json) {
        Ok(code) => code,
        Err(error) => output::failed(&error, json),
    }
}

fn try_run(arguments: &Run, json: bool) -> Result<ExitCode, ClientError> {
    let copy = here()?;
    let book = book(&copy)?;
    let Some(choice) = choose(&copy, &book, &arguments.module)? else {
        output::error(&module::unknown(&arguments.module.to_string_lossy()).to_string());
        return Ok(ExitCode::from(output::UNKNOWN_MODULE));
    };
    let engine = engine_with(|config| arguments.limits.apply_to_engine(config))?;
    let mut bytes =
        || book.bytes(&choice.hash).map_err(std::io::Error::other)?.ok_or_else(|| ErrorKind::NotFound.into());
    let (loaded, _) = engine.load(&choice.hash, &mut bytes).map_err(|error| ClientError::Refused(error.to_string()))?;
    let step = StepRequest {
        module: choice.hash,
        name: choice.name.clone(),
        arguments: argument_list(arguments, &choice),
        environment: environment(&arguments.environment)?,
        directory: current_directory(&copy)?,
        stdin: stdin(&copy, arguments.stdin.as_deref())?,
        stdout: arguments.output.as_deref().map(|path| inspect::inside(&copy, Path::new(path))).transpose()?,
        mounts: mounts(&book, &choice),
    };
    let modules = BTreeMap::from([(choice.hash, loaded)]);
    hint_at_standard_input(arguments);
    let bars = Arc::new(Bars::new(json));
    let progress = {
        let bars = Arc::clone(&bars);
        Arc::new(move |done, total| bars.step("running", done, total)) as _
    };
    let mut request = RunRequest {
        steps: vec![step],
        modules,
        command: command_line(arguments),
        progress: Some(progress),
        ..RunRequest::default()
    };
    arguments.limits.apply(&mut request);
    bars.step("running", 0, 0);
    let report = copy.run(&engine, request);
    bars.clear();
    let report = report?;
    // A run that changed no file makes no event that a watch would hear.
    nudge(&copy);
    if json {
        output::note_json(&json!({
            "entry": report.entry, "exits": report.exits, "changes": report.changes, "micros": report.micros,
        }));
    }
    Ok(finish(&report))
}

/// A module reads standard input only where `--stdin` says so, since it must be recorded; people forget that.
fn hint_at_standard_input(arguments: &Run) {
    let own = std::io::stdin();
    if arguments.stdin.is_none() && !own.is_terminal() && rustix::io::ioctl_fionread(&own).is_ok_and(|bytes| bytes > 0)
    {
        output::note("this command's standard input is not passed on; use '--stdin -' if the module is to read it");
    }
}

/// Passes the streams and the exit code on.
fn finish(report: &RunReport) -> ExitCode {
    match report.copy_streams(&mut std::io::stdout().lock(), &mut std::io::stderr().lock()) {
        Ok(()) => ExitCode::from(u8::try_from(report.exit()).unwrap_or(u8::MAX)),
        // The operation stands; whoever read the stream has left.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            output::error(&format!("the operation stands, but its output could not be passed on: {error}"));
            ExitCode::from(output::FAILURE)
        }
    }
}

/// The engine with the user's cache of compiled modules.
pub(crate) fn engine() -> Result<Engine, ClientError> {
    engine_with(|_| ())
}

fn engine_with(adjust: impl FnOnce(&mut EngineConfig)) -> Result<Engine, ClientError> {
    let mut config = EngineConfig::new(compiler()?);
    let user = UserCache::of_user(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"));
    config.cache = user.map(|user| user.compiled());
    adjust(&mut config);
    Engine::new(config).map_err(|error| ClientError::Refused(error.to_string()))
}

/// Compiles in a process of this program.
pub(super) fn compiler() -> Result<Compiler, ClientError> {
    let program = std::env::current_exe().map_err(ClientError::io("finding this program"))?;
    Ok(Compiler::Child { program, arguments: vec!["__compile".into()] })
}

/// The module of the command line: a file if it looks like one, else a name.
fn choose(copy: &WorkingCopy, book: &ModuleBook, module: &OsStr) -> Result<Option<ModuleChoice>, ClientError> {
    let path = Path::new(module);
    if is_name(module) {
        return choose_named(copy, book, &module.to_string_lossy());
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ClientError::io(format!("reading '{}'", path.display()))(error)),
    };
    let name = path.file_stem().unwrap_or(module).to_string_lossy().into_owned();
    let hash = book.keep(&bytes)?;
    Ok(Some(ModuleChoice { argv0: name.clone(), name, hash, mounts: Vec::new() }))
}

/// Does the command line mean a name, not a file?
pub(super) fn is_name(module: &OsStr) -> bool {
    module.to_str().is_some_and(|name| !name.ends_with(".wasm") && (!name.contains('/') || name.starts_with("std/")))
}

/// A module by name: as pinned here, else as the server knows it, else as this build carries it.
pub(super) fn choose_named(
    copy: &WorkingCopy,
    book: &ModuleBook,
    name: &str,
) -> Result<Option<ModuleChoice>, ClientError> {
    if let Some(choice) = book.pinned(name) {
        if !book.is_complete(&choice)? {
            wait(async { book.download(&mut api_for(copy)?, &choice).await })?;
        }
        return Ok(Some(choice));
    }
    if !is_module_name(name.strip_prefix("std/").unwrap_or(name)) {
        return Ok(None);
    }
    let asked = wait(async {
        let mut api = api_for(copy)?;
        let found = api.module(name).await?;
        Ok((api, found))
    });
    match asked {
        Ok((_, None)) => Ok(book.embedded(name)),
        Ok((_, Some(found))) => {
            let mut book = super::book(copy)?;
            book.learn(vec![found])?;
            let Some(choice) = book.pinned(name) else { return Ok(None) };
            if !book.is_complete(&choice)? {
                wait(async { book.download(&mut api_for(copy)?, &choice).await })?;
            }
            Ok(Some(choice))
        }
        Err(error) => match book.embedded(name) {
            Some(choice) => Ok(Some(choice)),
            None => Err(error),
        },
    }
}

type Mounts = Vec<(TreePath, Hash, Arc<dyn TreeSource>)>;

/// The read-only trees of a module.
pub(super) fn mounts(book: &ModuleBook, choice: &ModuleChoice) -> Mounts {
    let store = book.mounts();
    choice.mounts.iter().map(|(path, tree)| (path.clone(), *tree, Arc::new(store.tree(*tree)) as _)).collect()
}

fn argument_list(arguments: &Run, choice: &ModuleChoice) -> Vec<Vec<u8>> {
    let first = arguments.argv0.clone().unwrap_or_else(|| OsString::from(&choice.argv0));
    std::iter::once(first).chain(arguments.arguments.iter().cloned()).map(OsString::into_vec).collect()
}

pub(super) type Variable = (Vec<u8>, Vec<u8>);

pub(super) fn environment(variables: &[OsString]) -> Result<Vec<Variable>, ClientError> {
    let parse = |variable: &OsString| {
        let bytes = variable.as_bytes();
        let at = bytes.iter().position(|b| *b == b'=').filter(|at| *at > 0);
        let at =
            at.ok_or_else(|| ClientError::Refused(format!("'{}' is no variable; write K=V", variable.display())))?;
        Ok((bytes[..at].to_vec(), bytes[at + 1..].to_vec()))
    };
    variables.iter().map(parse).collect()
}

/// The current directory as the module sees it.
pub(super) fn current_directory(copy: &WorkingCopy) -> Result<TreePath, ClientError> {
    let directory = std::env::current_dir().map_err(ClientError::io("finding the current folder"))?;
    inspect::inside(copy, &directory)
}

pub(super) fn stdin(copy: &WorkingCopy, file: Option<&OsStr>) -> Result<StdinRequest, ClientError> {
    match file {
        None => Ok(StdinRequest::Empty),
        Some(file) if file == "-" => own_stdin(),
        Some(file) => Ok(StdinRequest::Path(inspect::inside(copy, Path::new(file))?)),
    }
}

/// This command's own standard input.
pub(super) fn own_stdin() -> Result<StdinRequest, ClientError> {
    let own = std::io::stdin().as_fd().try_clone_to_owned().map_err(ClientError::io("reading standard input"))?;
    Ok(StdinRequest::File(own.into()))
}

/// The command as one could type it, for the log.
fn command_line(arguments: &Run) -> String {
    let words = std::iter::once(&arguments.module).chain(&arguments.arguments);
    let mut line = typed(words.map(|word| word.to_string_lossy()));
    if let Some(output) = &arguments.output {
        line = format!("{line} > {}", output.to_string_lossy());
    }
    line
}
