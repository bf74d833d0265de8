//! A large import that is killed again and again, at both ends.

use super::Counts;
use super::chance::Chance;
use crate::{Place, Server, snapshot};
use opship_tap::Tap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What to import, and how often to kill.
#[derive(Debug, Clone, Copy)]
pub struct Import {
    /// Files.
    pub files: u64,
    /// Times that the client or the server is killed.
    pub kills: u64,
    /// Decides when.
    pub seed: u64,
}

/// Makes the files, imports them, kills on the way, and compares with a clone.
///
/// # Errors
/// What is not as it must be, in words.
pub fn import(import: Import) -> Result<Counts, String> {
    let mut place = Place::new();
    let mut server = Server::start(&place);
    let mut chance = Chance::new(import.seed);
    let folder = place.folder("here");
    let bytes = make(&folder, import.files, &mut chance);
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    let token = server.token();
    let command = |directory: &Path, arguments: &[&str]| -> Command {
        let mut command = place.command(directory);
        command.args(arguments).env("OPSHIP_TOKEN", &token).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let address = format!("http://{}", tap.address());
    let mut init = command(&folder, &["init", "--workspace", "main", "--server", &address]);
    assert!(init.status().unwrap().success());
    let begun = Instant::now();
    let mut kills = 0;
    for number in 0..import.kills {
        let mut child = command(&folder, &["sync"]).spawn().unwrap();
        // The first while files are looked at; the others on the way.
        let until = tap.count().sent + 1 + chance.next() % (bytes / import.kills);
        let time = Instant::now() + Duration::from_millis(500 + chance.next() % 3000);
        let early = |now: Instant| if number == 0 { now < time } else { tap.count().sent < until };
        while child.try_wait().unwrap().is_none() && early(Instant::now()) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if child.try_wait().unwrap().is_some_and(|status| status.success()) {
            break;
        }
        kills += 1;
        if number % 2 == 0 {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            drop(server);
            child.wait().unwrap();
            server = Server::start(&place);
            tap.move_to(server.authority().parse().unwrap());
        }
        println!("kill {kills}: {} bytes sent so far", tap.count().sent);
    }
    if !command(&folder, &["sync"]).status().unwrap().success() {
        return Err("the last sync failed".to_owned());
    }
    let seconds = begun.elapsed().as_secs();
    let sent = tap.count().sent;
    let source = format!("{address}/main");
    assert!(command(&place.path(""), &["clone", &source, "there"]).status().unwrap().success());
    if snapshot(&folder) != snapshot(&place.path("there")) {
        return Err(format!("the clone differs; all is kept in {}", place.keep().display()));
    }
    Ok(Counts::from([
        ("files", import.files),
        ("bytes of files", bytes),
        ("kills", kills),
        ("bytes sent", sent),
        ("seconds of import", seconds),
        ("MB of memory at the server's peak", server.peak_memory() >> 20),
    ]))
}

/// Small files that do not compress, 500 a folder; gives the sum of their lengths.
fn make(folder: &Path, files: u64, chance: &mut Chance) -> u64 {
    let mut sum = 0;
    for number in 0..files {
        let below = folder.join(format!("d{:04}", number / 500));
        if number % 500 == 0 {
            fs::create_dir_all(&below).unwrap();
        }
        let bytes: Vec<u8> = (0..chance.below(60) + 5).flat_map(|_| chance.next().to_le_bytes()).collect();
        fs::write(below.join(format!("file-{number:06}")), &bytes).unwrap();
        sum += bytes.len() as u64;
    }
    sum
}
