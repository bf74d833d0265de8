//! The soak: `cargo xtask soak`. Prints what happened, and the seed that repeats it.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use opship_tests::soak::{Import, import, soak};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Parser)]
#[command(
    name = "cargo xtask soak",
    bin_name = "cargo xtask soak",
    about = "Random work on three clients, with faults"
)]
struct Arguments {
    /// How long the clients work
    #[arg(long, value_name = "MINUTES", default_value_t = 20.0)]
    minutes: f64,
    /// Repeats the decisions of an earlier run
    #[arg(long, global = true)]
    seed: Option<u64>,
    #[command(subcommand)]
    command: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// Import many files and kill both ends on the way
    Import {
        /// How many files
        #[arg(long, default_value_t = 200_000)]
        files: u64,
        /// How often to kill
        #[arg(long, default_value_t = 20)]
        kills: u64,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = arguments.seed.unwrap_or(now.as_secs());
    println!("seed {seed}");
    let result = match arguments.command {
        None => soak(seed, Duration::from_secs_f64((arguments.minutes * 60.0).clamp(0.0, 1e6))),
        Some(Part::Import { files, kills }) => import(Import::new(files, kills, seed)),
    };
    match result {
        Ok(counts) => {
            counts.iter().for_each(|(what, count)| println!("{count:>12} {what}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\nseed {seed}");
            ExitCode::FAILURE
        }
    }
}
