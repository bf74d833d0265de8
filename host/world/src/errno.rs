//! Errors of the guest and ends of the run.

use crate::SourceError;
use std::io;

/// An errno of WASI preview 1, with its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
#[expect(missing_docs, reason = "the names are those of POSIX")]
pub enum Errno {
    Success = 0,
    TooBig = 1,
    Acces = 2,
    Again = 6,
    Badf = 8,
    Busy = 10,
    Exist = 20,
    Fault = 21,
    Fbig = 22,
    Ilseq = 25,
    Inval = 28,
    Io = 29,
    Isdir = 31,
    Loop = 32,
    Mfile = 33,
    Mlink = 34,
    Nametoolong = 37,
    Noent = 44,
    Nosys = 52,
    Notdir = 54,
    Notempty = 55,
    Notsock = 57,
    Notsup = 58,
    Overflow = 61,
    Perm = 63,
    Rofs = 69,
    Spipe = 70,
    Xdev = 75,
    Notcapable = 76,
}

impl Errno {
    /// The number that the guest gets.
    pub fn raw(self) -> u16 {
        self as u16
    }
}

/// How a call ends other than with success.
#[derive(Debug)]
pub enum Trap {
    /// The guest gets this errno and goes on.
    Errno(Errno),
    /// The guest called `proc_exit` with this code.
    Exit(u32),
    /// The run ends, changes nothing and is not recorded.
    Fault(Fault),
}

/// Why a run ended that has no result.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The source could not give what the run asked for.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An operator's limit was exceeded.
    #[error("the run needs more than {limit} {what}; raise that limit or ship the result by value")]
    Limit {
        /// What was counted, with its unit.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The plan does not fit the tree or what was supplied with it.
    #[error("the run was refused: {detail}")]
    Refused {
        /// What does not fit and what to do next.
        detail: String,
    },
    /// Produced bytes could not be kept on disk.
    #[error("what the run writes could not be kept on disk: {0}; free some space and run again")]
    Spill(#[source] io::Error),
    /// The plan, or what the run did, cannot be recorded.
    #[error("the run cannot be recorded: {0}")]
    Record(#[from] opship_record::Error),
    /// Whoever runs the world ended the run ([`crate::Look`]), for this reason.
    #[error(transparent)]
    Stopped(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Errno> for Trap {
    fn from(errno: Errno) -> Trap {
        Trap::Errno(errno)
    }
}

impl From<Fault> for Trap {
    fn from(fault: Fault) -> Trap {
        Trap::Fault(fault)
    }
}

impl From<SourceError> for Trap {
    fn from(error: SourceError) -> Trap {
        Trap::Fault(Fault::Source(error))
    }
}
