//! Large contents on their way: uploads that go on where they were cut, and documents in both directions
//! (docs/wire-format.md, "Transfers").

mod compose;
mod take;
mod uploads;

pub(crate) use compose::{Composed, compose, small_document};
pub(crate) use take::{Refused, take_document, take_packed};
pub(crate) use uploads::{Appended, MADE_AT_ONCE, Name, Turn, Uploads};
