//! The calls of preview 1 and of `opship_1`, as [`crate::for_each_import`] lists them.

mod args;
mod dirs;
mod files;
mod links;
mod modes;
mod open;
mod paths;
mod poll;
mod sock;
mod stat;
