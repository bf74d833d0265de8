//! Runs a folder of conformance cases in the engine: `cargo xtask conformance DIR`.
#![forbid(unsafe_code)]

use clap::Parser;
use opship_engine::{Compiler, Engine, EngineConfig};
use opship_tests::conformance::{Case, cases, run};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Runs each X.wasm of a folder in the deterministic world and compares what X.json beside it wants.
#[derive(Parser)]
#[command(name = "cargo xtask conformance")]
struct Arguments {
    /// The folder of cases
    dir: PathBuf,
}

fn main() -> ExitCode {
    match all(&Arguments::parse().dir) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all cases and says whether all passed.
fn all(folder: &Path) -> Result<bool, String> {
    let modules = cases(folder).map_err(|error| error.to_string())?;
    if modules.is_empty() {
        return Err(format!("'{}' holds no .wasm file; name the folder that holds the cases itself", folder.display()));
    }
    let engine = Engine::new(EngineConfig::new(Compiler::InProcess)).map_err(|error| error.to_string())?;
    let mut failed = 0;
    for module in &modules {
        let start = Instant::now();
        let name = module.file_stem().unwrap_or_default().to_string_lossy();
        let result = Case::read(module).map_err(|error| error.to_string()).and_then(|case| run(&engine, &case));
        match result {
            Ok(()) => println!("pass {name} ({} ms)", start.elapsed().as_millis()),
            Err(reason) => {
                failed += 1;
                println!("FAIL {name}: {reason}");
            }
        }
    }
    println!("{} passed, {failed} failed", modules.len() - failed);
    Ok(failed == 0)
}
