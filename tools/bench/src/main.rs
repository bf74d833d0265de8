//! The benchmarks: `cargo xtask bench NAME`. Each prints a table, and under it a line for each goal; the same goes as JSON
//! to `<target>/bench/NAME.json`.
#![forbid(unsafe_code)]

mod coda;
mod error;
mod machine;
mod place;
mod recorder;
mod replay;
mod report;
mod residual;
mod scale;
mod shims;
mod shipper;
mod stats;
mod text;
mod value;

use error::{BenchError, Result};
use std::process::ExitCode;

/// Room for what the benchmark itself needs, beside the runs on the same thread.
const OWN_STACK_BYTES: usize = 1 << 20;

fn main() -> ExitCode {
    // Guests run on this thread, and need more stack than the main thread may have.
    let stack = opship_engine::RUN_STACK_BYTES + OWN_STACK_BYTES;
    let thread = std::thread::Builder::new().stack_size(stack).spawn(bench);
    let ended = thread.map_err(BenchError::io("start a thread")).and_then(|thread| {
        thread
            .join()
            .unwrap_or_else(|_| Err(BenchError::Failed("the benchmark ended by a fault of its own".to_owned())))
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["replay", ref parts @ ..] => replay::run(parts),
        ["residual", ref arguments @ ..] => residual::run(arguments),
        ["value", ref cases @ ..] => value::run(cases),
        ["coda", ref tests @ ..] => coda::run(tests),
        ["scale", ref parts @ ..] => scale::run(parts),
        ["shims"] => shims::run(),
        _ => Err(BenchError::Failed(
            "which benchmark? There are: replay, residual, value, coda, scale, shims".to_owned(),
        )),
    }
}
