//! What can go wrong with a module, a run and the engine itself.

use opship_record::Hash;
use opship_world::{Fault, SourceError};

/// Why an engine could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The cache folder or its key could not be made private.
    #[error("the module cache '{path}' cannot be used: {detail}; remove it or choose another folder")]
    Cache {
        /// The folder or file.
        path: String,
        /// What happened.
        detail: String,
    },
    /// This machine cannot run the engine.
    #[error("the sandbox cannot run on this machine: {detail}")]
    Host {
        /// What the engine said.
        detail: String,
    },
}

/// Why a module was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// A size or count is over its limit ([`crate::ModuleLimits`]).
    #[error("the module's {what} is {actual}, over the limit of {limit}; make it smaller or raise that limit")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The size met.
        actual: u64,
        /// The limit.
        limit: u64,
    },
    /// The bytes are not a WebAssembly module.
    #[error("this is no WebAssembly module that runs here: {detail}; build it for the target wasm32-wasip1")]
    Malformed {
        /// What the parser met.
        detail: String,
    },
    /// The bytes are a component.
    #[error("this is a component, not a core module; build it for the target wasm32-wasip1, not wasm32-wasip2")]
    Component,
    /// There is no `_start` without parameters and results.
    #[error(
        "the module does not export a function '_start' without parameters and results; build it as a command, not as a library (reactor)"
    )]
    NoStart,
    /// It calls functions that work on its memory, but does not export it.
    #[error("the module does not export its memory under the name 'memory'; have the linker export it")]
    NoMemory,
    /// It imports what no world holds, or with another signature.
    #[error(
        "the module imports {}, which the sandbox does not offer; build it for WASI preview 1 (wasm32-wasip1) \
         without these",
        list(wanted, *count)
    )]
    Imports {
        /// Module and name of the first hundred such imports, in the module's order; long names are cut.
        wanted: Vec<(String, String)>,
        /// How many there are in all.
        count: usize,
    },
    /// The bytes are not those that were asked for.
    #[error("the module's bytes have the hash {actual} where {expected} was expected; fetch the module again")]
    HashMismatch {
        /// The hash asked for.
        expected: Hash,
        /// The hash of the bytes.
        actual: Hash,
    },
    /// Compiling needed more than its limits allow.
    #[error("compiling the module needs more {what}; make the module smaller or raise that limit")]
    CompileLimit {
        /// What ran out, with the limit.
        what: String,
    },
    /// The compiler refused the module.
    #[error("the module does not compile: {detail}; check the compiler's target and features")]
    CompileFailed {
        /// What the compiler said.
        detail: String,
    },
    /// The host could not do its part; the module is not to blame.
    #[error("the module could not be prepared: {detail}; try again")]
    Host {
        /// What happened.
        detail: String,
    },
}

/// Why a run has no result. Such a run changes nothing and is not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The module trapped.
    #[error(
        "step {step} stopped with a fault in the module: {message}{}; nothing was changed: mend the module or its input",
        quoted(said)
    )]
    Trap {
        /// The step's index, from 0.
        step: usize,
        /// What happened and where, with function names if the module has them.
        message: String,
        /// The end of what it wrote to standard error; nothing that could steer a terminal.
        said: String,
    },
    /// The module recursed too deep.
    #[error("step {step} recursed deeper than the sandbox's stack of {} KiB; nothing was changed", crate::MAX_WASM_STACK >> 10)]
    StackOverflow {
        /// The step's index, from 0.
        step: usize,
    },
    /// A limit was exceeded.
    #[error("the run needs more than {limit} {what}; raise that limit or ship the result by value")]
    Limit {
        /// What was counted, with its unit.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Other runs have the memory that it asked for ([`crate::Run::room`]).
    #[error("other runs have the memory that this one needs; nothing was changed: run it again later")]
    Crowded,
    /// The deadline passed.
    #[error("the run took longer than it may; raise the time limit or ship the result by value")]
    Deadline,
    /// It was cancelled.
    #[error("the run was cancelled; nothing was changed")]
    Cancelled,
    /// The source could not give what the run asked for.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The plan does not fit the tree or what was supplied with it.
    #[error("the run was refused: {detail}")]
    Refused {
        /// What does not fit and what to do next.
        detail: String,
    },
    /// A module of the run was refused.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The plan, or what the run did, cannot be recorded.
    #[error("the run cannot be recorded: {0}")]
    Record(#[from] opship_record::Error),
    /// The host could not do its part; the module is not to blame.
    #[error("the run failed on this machine: {detail}; nothing was changed: run it again")]
    Host {
        /// What happened.
        detail: String,
    },
}

impl From<Fault> for RunError {
    fn from(fault: Fault) -> RunError {
        match fault {
            Fault::Source(error) => RunError::Source(error),
            Fault::Limit { what, limit } => RunError::Limit { what, limit },
            Fault::Refused { detail } => RunError::Refused { detail },
            Fault::Record(error) => RunError::Record(error),
            Fault::Stopped(why) => match why.downcast::<RunError>() {
                Ok(error) => *error,
                Err(why) => RunError::Host { detail: why.to_string() },
            },
            Fault::Spill(error) => RunError::Host {
                detail: format!("what it writes could not be kept on disk ({error}): free some space"),
            },
        }
    }
}

/// The last words of a module, if there are any.
fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; its standard error ended with \"{said}\"") }
}

/// Names for people, at most 20 of them.
fn list(wanted: &[(String, String)], count: usize) -> String {
    const SHOWN: usize = 20;
    let name = |(module, name): &(String, String)| format!("'{}.{}'", printable(module, 80), printable(name, 80));
    let mut names: Vec<String> = wanted.iter().take(SHOWN).map(name).collect();
    if count > names.len() {
        names.push(format!("and {} more", count - names.len()));
    }
    names.join(", ")
}

/// At most `most` characters of a text that a module may have made up, without those that steer a terminal.
pub(crate) fn printable(text: &str, most: usize) -> String {
    let steers = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown: String = text.chars().take(most).map(|c| if steers(c) { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Most characters of a detail in a message.
pub(crate) const DETAIL: usize = 1000;
