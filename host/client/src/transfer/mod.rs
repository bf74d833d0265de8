//! Large contents on their way: what this end keeps for them, uploads and downloads that go on where they were cut.

mod download;
mod memory;
mod source;
mod upload;

pub(crate) use download::{Base, download, finished, keep_finished, unpack_small};
pub(crate) use memory::Memory;
pub(crate) use source::{Counting, Plain, Signed, chunk_hashes, packed_length, packed_sample, small_document};
pub(crate) use upload::{Like, Outcome, Upload};
