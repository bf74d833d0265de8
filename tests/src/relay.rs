//! Working copies that reach their server through a relay, and what went through it.

use crate::{Place, Printed, Server};
use opship_tap::Tap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// Bytes that do not compress, others for each seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Makes a working copy use another address of its server.
pub fn point(directory: &Path, address: SocketAddr) {
    let config = directory.join(".opship/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let line = text.lines().find(|line| line.starts_with("server")).unwrap();
    fs::write(&config, text.replace(line, &format!("server = \"http://{address}\""))).unwrap();
}

/// Runs `opship`, which must succeed, in a working copy that reaches its server through a relay meanwhile.
pub fn run_through(place: &Place, tap: &Tap, server: &Server, directory: &Path, arguments: &[&str]) -> Printed {
    point(directory, tap.address());
    let output = place.command(directory).args(arguments).env("OPSHIP_TOKEN", server.token()).output().unwrap();
    let printed = Printed::from(output);
    assert_eq!(printed.code, Some(0), "{printed}");
    point(directory, server.authority().parse().unwrap());
    printed
}

/// The addresses of all requests that went through a relay that keeps, whatever stands before one on its line, such as the
/// body of the answer before.
pub fn requests(tap: &Tap) -> Vec<String> {
    let kept = tap.kept();
    let text = String::from_utf8_lossy(&kept);
    let mut heads: Vec<&str> = text.split(" HTTP/1.1\r\n").collect();
    heads.pop();
    heads.into_iter().map(|head| head.rsplit(' ').next().unwrap_or_default().to_owned()).collect()
}
