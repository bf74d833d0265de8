//! The commands, one file each.

mod admin;
mod bundle;
mod decide;
mod entries;
mod examination;
mod history;
mod inspect;
pub(crate) mod invite;
pub(crate) mod join;
pub(crate) mod link;
mod module;
mod module_check;
pub(crate) mod pause;
mod record_api;
pub(crate) mod run;
mod serve;
mod setup;
mod shims;
mod status;
mod sync;
pub(crate) mod watch;

use crate::args::{Cli, Command, Module};
use crate::{output, standard};
use clap::CommandFactory;
use opship_client::modules::ModuleBook;
use opship_client::{ClientError, WorkingCopy};
use std::process::ExitCode;

/// Runs the command that was asked for.
pub(crate) fn dispatch(cli: Cli) -> ExitCode {
    let json = cli.json;
    let result = match cli.command {
        Command::Serve(arguments) => return serve::serve(arguments, json),
        Command::Run(arguments) if arguments.native => {
            return crate::native::run(&arguments.module, &arguments.arguments, json);
        }
        Command::Run(arguments) => return run::run(&arguments, json),
        Command::Init(arguments) => setup::init(arguments, json),
        Command::Clone(arguments) => setup::clone(arguments, json),
        Command::Join(arguments) => join::join(&arguments, json),
        Command::Bundle(arguments) => bundle::bundle(&arguments, json),
        Command::Leave(arguments) => setup::leave(&arguments, json),
        Command::Status(_) => status::status(json),
        Command::Sync(arguments) => return sync::sync(&arguments, json),
        Command::Watch(arguments) => watch::watch(&arguments, json),
        Command::Pause(arguments) => pause::pause(&arguments, json),
        Command::Resume(arguments) => pause::resume(&arguments, json),
        Command::Drop(arguments) => sync::drop_entry(&arguments, json),
        Command::Undo(arguments) => decide::undo(&arguments, json),
        Command::Conflicts(_) => decide::conflicts(json),
        Command::Resolve(arguments) => decide::resolve(&arguments, json),
        Command::Restore(arguments) => history::restore(&arguments, json),
        Command::Diff(arguments) => history::diff(&arguments, json),
        Command::Log(arguments) if arguments.versions => history::versions(&arguments, json),
        Command::Log(arguments) => inspect::log(&arguments, json),
        Command::Show(arguments) => inspect::show(&arguments, json),
        Command::Why(arguments) => inspect::why(&arguments, json),
        Command::Module(Module::Check(arguments)) => return module_check::check(&arguments, json),
        Command::Module(arguments) => module::module(arguments, json),
        Command::RecordApi => record_api::serve(json),
        Command::Shims(command) => shims::shims(&command, json),
        Command::Du {} => admin::usage(json),
        Command::Admin(command) => return admin::admin(&command, json),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "opship", &mut script);
            output::line(&String::from_utf8_lossy(&script));
            Ok(())
        }
        // Handled before the command line is parsed.
        Command::Compile | Command::Record => Ok(()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(&error, json),
    }
}

/// The working copy that this process was started in.
fn here() -> Result<WorkingCopy, ClientError> {
    let directory = std::env::current_dir().map_err(ClientError::io("finding the current folder"))?;
    WorkingCopy::open(&directory)
}

/// The module names of a working copy.
pub(crate) fn book(copy: &WorkingCopy) -> Result<ModuleBook, ClientError> {
    ModuleBook::open(&copy.own_folder(), standard::MODULES)
}

/// Waits for network calls.
fn wait<T>(work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(ClientError::io("starting"))?.block_on(work)
}
