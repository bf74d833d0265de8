//! Prints what a preview 1 host does: `conform-rust SCENARIO [ARGUMENT…]`.
//!
//! What is printed is the same on every host that does what preview 1 and POSIX say, and the same as the guests in other
//! languages print (`guest-ops/conformance/expected`).

mod bulk;
mod directories;
#[cfg(target_os = "wasi")]
mod edges;
mod errors;
mod files;
mod links;
#[cfg(target_os = "wasi")]
mod preview1;
mod process;
#[cfg(target_os = "wasi")]
mod raw;
mod text;
mod time;
#[cfg(target_os = "wasi")]
mod world;

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{}: {}", words.first().unwrap_or(&"no scenario"), text::name(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> io::Result<u8> {
    let done = match words {
        ["arguments", ..] => process::arguments(words),
        ["stdin"] => process::stdin(),
        ["output", lines] => process::output(number(lines)?),
        ["exit", code] => return process::exit(number(code)?),
        ["files"] => files::run(),
        ["directories"] => directories::run(),
        ["links"] => links::run(),
        ["clocks"] => time::clocks(),
        ["random"] => time::random(),
        ["large", mib] => bulk::large(number(mib)?),
        ["deep", levels] => bulk::deep(number(levels)?),
        ["many", count] => bulk::many(number(count)?),
        ["errors"] => errors::run(),
        ["escapes"] => errors::escapes(),
        #[cfg(target_os = "wasi")]
        ["raw"] => raw::run(),
        #[cfg(target_os = "wasi")]
        ["edges"] => edges::run(),
        #[cfg(target_os = "wasi")]
        ["world"] => world::run(),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "unknown scenario")),
    };
    done.map(|()| 0)
}

fn number<T: std::str::FromStr>(word: &str) -> io::Result<T> {
    word.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not a number in range"))
}
