//! A program that has ended, and how that is handed to the process that records it.
//!
//! What was captured has no name on disk: it goes from one process to the other by descriptors that are inherited, and the
//! rest as a document.

use super::capture::{Before, Start};
use super::config::Chosen;
use super::words::NativeCommand;
use crate::{ClientError, WorkingCopy};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use opship_record::{TreePath, codec};
use opship_residual::Hint;
use rustix::io::FdFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub(super) head: Head,
    pub(super) held: BTreeMap<TreePath, File>,
}

/// The part of it that can be written down.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) struct Head {
    #[n(0)]
    pub start: Start,
    /// What the user calls the program.
    #[n(1)]
    pub name: String,
    /// The module that stands for it.
    #[n(2)]
    pub module: String,
    /// What to ship where the module writes other bytes ([`opship_residual::Hint`]).
    #[n(7)]
    pub hint: String,
    /// Its arguments as the module sees them, without the first.
    #[n(3)]
    pub arguments: Vec<ByteVec>,
    /// The command as one could type it.
    #[n(4)]
    pub line: String,
    /// Its exit code; `None`: a signal ended it.
    #[n(5)]
    pub exit: Option<u8>,
    /// Why the workspace's own file forbids to record it.
    #[n(6)]
    pub refused: Option<String>,
}

#[derive(Encode, Decode)]
struct Document {
    #[n(0)]
    head: Head,
    /// Descriptors by path.
    #[n(1)]
    held: Vec<(TreePath, i32)>,
}

impl Before {
    /// The program has ended. `chosen`: what stands for it, or why the workspace forbids to record it.
    pub fn ended(
        self,
        copy: &WorkingCopy,
        command: &NativeCommand,
        chosen: Result<Chosen, String>,
        exit: Exit,
    ) -> Ended {
        let (module, hint, refused) = match chosen {
            Ok(Chosen { module, hint, .. }) => (module, hint, None),
            Err(refused) => (String::new(), Hint::None, Some(refused)),
        };
        let redirected =
            |sign: &str, path: &Option<TreePath>| path.as_ref().map_or(String::new(), |p| format!(" {sign} {p}"));
        let line = command.line() + &redirected("<", &self.start.stdin) + &redirected(">", &self.start.stdout);
        let head = Head {
            start: self.start,
            name: command.name.clone(),
            module,
            hint: hint.to_string(),
            arguments: command.module_arguments(copy).into_iter().map(Into::into).collect(),
            line,
            exit: match exit {
                Exit::Code(code) => Some(code),
                Exit::Signal(_) => None,
            },
            refused,
        };
        Ended { head, held: self.held }
    }
}

impl Ended {
    /// The document for [`Ended::take_over`] of a process that this one starts next: it inherits the descriptors from here on.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn hand_over(&self) -> Result<Vec<u8>, ClientError> {
        let mut held = Vec::new();
        for (path, file) in &self.held {
            rustix::io::fcntl_setfd(file, FdFlags::empty())
                .map_err(ClientError::io("handing over what was captured"))?;
            held.push((path.clone(), file.as_raw_fd()));
        }
        Ok(codec::encode(&Document { head: self.head.clone(), held }))
    }

    /// What the process that started this one handed over.
    ///
    /// # Errors
    /// [`ClientError`] if the document, or a descriptor, is not as it should be.
    pub fn take_over(document: &[u8]) -> Result<Ended, ClientError> {
        let Document { head, held } = codec::decode(document, "native run")?;
        let open = |(path, descriptor): (TreePath, i32)| {
            // Also what has no name any more can be opened so.
            let file = File::open(format!("/proc/self/fd/{descriptor}"));
            Ok((path, file.map_err(ClientError::io("taking over what was captured"))?))
        };
        Ok(Ended { head, held: held.into_iter().map(open).collect::<Result<_, ClientError>>()? })
    }
}
