//! Prints all that differs between two runs where nothing is recorded: real time, elapsed time,
//! random bytes, the order of a hash map's keys; then its arguments and environment.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let started = Instant::now();
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => println!("time {}.{:09}", since.as_secs(), since.subsec_nanos()),
        Err(_) => println!("time before 1970"),
    }
    std::thread::sleep(Duration::from_millis(5));
    println!("elapsed {} ns", started.elapsed().as_nanos());

    let mut bytes = [0u8; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        eprintln!("clock-random: no random bytes: {error}");
        return ExitCode::FAILURE;
    }
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    println!("random {hex}");

    let order: Vec<String> = (0..16).collect::<HashSet<u32>>().iter().map(u32::to_string).collect();
    println!("order {}", order.join(" "));
    for (n, arg) in std::env::args_os().enumerate() {
        println!("argument {n} {}", arg.to_string_lossy());
    }
    for (name, value) in std::env::vars_os() {
        println!("variable {}={}", name.to_string_lossy(), value.to_string_lossy());
    }
    ExitCode::SUCCESS
}
