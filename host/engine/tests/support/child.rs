//! A program for the tests: a compiling process, and what such a process can and cannot do once it is locked down.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

use std::process::{Command, ExitCode};

const MEMORY_BYTES: u64 = 8 << 30;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("probe") => probe(),
        Some("spin") => spin(),
        _ => opship_engine::compile_child_main(),
    }
}

/// Prints what still works.
fn probe() -> ExitCode {
    opship_engine::lock_down(MEMORY_BYTES, 60).unwrap();
    let tries: [(&str, bool); 9] = [
        ("thread", std::thread::spawn(|| 1).join().is_ok()),
        ("memory", vec![1_u8; 64 << 20].iter().all(|byte| *byte == 1)),
        ("open", std::fs::File::open("/etc/passwd").is_ok()),
        ("create", std::fs::write("/tmp/opship-probe", b"x").is_ok()),
        ("list", std::fs::read_dir("/").is_ok()),
        ("connect", std::net::TcpStream::connect("127.0.0.1:9").is_ok_and(|_| true)),
        ("listen", std::net::TcpListener::bind("127.0.0.1:0").is_ok()),
        ("exec", Command::new("/bin/true").status().is_ok()),
        ("signal", rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::CONT).is_ok()),
    ];
    for (what, works) in tries {
        println!("{what} {}", if works { "works" } else { "denied" });
    }
    ExitCode::SUCCESS
}

/// Uses up its processor time.
fn spin() -> ExitCode {
    opship_engine::lock_down(MEMORY_BYTES, 1).unwrap();
    loop {
        std::hint::spin_loop();
    }
}
