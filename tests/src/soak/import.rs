//! A large import that is killed again and again, at both ends.

use super::Counts;
use super::chance::Chance;
use crate::{Place, Server, snapshot};
use opship_tap::Tap;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes that a file takes in a list of changes and as a part, besides its content: path, hash, length, mode, time, the state
/// before, and what frames them.
const LISTED: u64 = 100;
/// Bytes of heads and questions for each time that a sync begins.
const BEGIN: u64 = 8 << 10;
/// Bytes of a sync's first request. While requests are answered soon, each is twice as large as the one before.
const FIRST_REQUEST: u64 = 128 << 10;

/// What to import, and how often to kill.
#[derive(Debug, Clone, Copy)]
pub struct Import {
    /// Files.
    pub files: u64,
    /// Times that the client or the server is killed.
    pub kills: u64,
    /// Decides when.
    pub seed: u64,
    /// Bytes of the longest files.
    pub longest: u64,
    /// Most files of an entry.
    pub piece: u64,
    /// Bytes a second of the link; `None`: as fast as it goes.
    pub rate: Option<u64>,
}

impl Import {
    /// One with entries as they are without a test, on a link as fast as it goes.
    pub fn new(files: u64, kills: u64, seed: u64) -> Import {
        Import { files, kills, seed, longest: 512, piece: 1000, rate: None }
    }

    /// The most that may be sent: all once, and for each kill an entry that was cut and the request that was under way or not
    /// answered yet. Of what a sync had sent when it was cut, `cut`, that is at most half, and half of the first request.
    fn most_sent(&self, bytes: u64, cut: &[u64]) -> u64 {
        let all = bytes + self.files * LISTED;
        let entry = all * self.piece / self.files;
        all + BEGIN + cut.iter().map(|sent| (sent + FIRST_REQUEST) / 2 + entry + BEGIN).sum::<u64>()
    }
}

struct Importer<'a> {
    place: &'a Place,
    folder: PathBuf,
    tap: Tap,
    token: String,
    piece: u64,
}

impl Importer<'_> {
    fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = self.place.command(directory);
        command.args(arguments).env("OPSHIP_TOKEN", &self.token).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("OPSHIP_TEST_ENTRY_PATHS", self.piece.to_string());
        command
    }

    fn json(&self, directory: &Path, arguments: &[&str]) -> Value {
        let mut command = self.command(directory, &["--json"]);
        let output = command.args(arguments).stdout(Stdio::piped()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }
}

/// Makes the files, imports them, kills on the way, counts what was sent, and compares with a clone.
///
/// # Errors
/// What is not as it must be, in words.
pub fn import(import: Import) -> Result<Counts, String> {
    let mut place = Place::new();
    import_in(&place, import).map_err(|error| format!("{error}\nall is kept in {}", place.keep().display()))
}

fn import_in(place: &Place, import: Import) -> Result<Counts, String> {
    let mut server = Server::start(place);
    let mut chance = Chance::new(import.seed);
    let folder = place.folder("here");
    let bytes = make(&folder, &import, &mut chance);
    let to = server.authority().parse().unwrap();
    let tap = match import.rate {
        Some(rate) => Tap::start_paced(to, rate).unwrap(),
        None => Tap::start(to).unwrap(),
    };
    let importer = Importer { place, folder, tap, token: server.token(), piece: import.piece };
    let address = format!("http://{}", importer.tap.address());
    let mut init = importer.command(&importer.folder, &["init", "--workspace", "main", "--server", &address]);
    assert!(init.status().unwrap().success());
    let begun = Instant::now();
    let cut = kill_on_the_way(&importer, &import, bytes, &mut server, &mut chance);
    if !importer.command(&importer.folder, &["sync"]).status().unwrap().success() {
        return Err("the last sync failed".to_owned());
    }
    let seconds = begun.elapsed().as_secs();
    let sent = importer.tap.count().sent;
    let (most, kills) = (import.most_sent(bytes, &cut), cut.len() as u64);
    if kills < import.kills {
        return Err(format!("the import ended after {kills} of {} kills", import.kills));
    }
    if sent > most {
        return Err(format!("{sent} bytes were sent, {most} at most are needed with {kills} kills"));
    }
    let source = format!("{address}/main");
    assert!(importer.command(&place.path(""), &["clone", &source, "there"]).status().unwrap().success());
    if snapshot(&importer.folder) != snapshot(&place.path("there")) {
        return Err("the clone differs".to_owned());
    }
    let versions = count(&importer, &import, bytes)?;
    Ok(Counts::from([
        ("files", import.files),
        ("bytes of files", bytes),
        ("kills", kills),
        ("versions", versions),
        ("bytes sent", sent),
        ("bytes sent at most", most),
        ("seconds of import", seconds),
        ("MB of memory at the server's peak", server.peak_memory() >> 20),
    ]))
}

/// Syncs, and kills client or server again and again; gives what each of these syncs had sent.
fn kill_on_the_way(
    importer: &Importer<'_>,
    import: &Import,
    bytes: u64,
    server: &mut Server,
    chance: &mut Chance,
) -> Vec<u64> {
    let sent = || importer.tap.count().sent;
    let mut cut = Vec::new();
    for number in 0..import.kills {
        let mut child = importer.command(&importer.folder, &["sync"]).spawn().unwrap();
        let before = sent();
        // The first while files are looked at; the others on the way.
        let until = before + bytes / import.kills / 4 + chance.next() % (bytes / import.kills);
        let time = Instant::now() + Duration::from_millis(import.files / 80 + chance.next() % (import.files / 40));
        let early = |now: Instant| if number == 0 { now < time } else { sent() < until };
        while child.try_wait().unwrap().is_none() && early(Instant::now()) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if child.try_wait().unwrap().is_some_and(|status| status.success()) {
            break;
        }
        if number % 2 == 0 {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            server.signal(Signal::KILL);
            server.wait();
            child.wait().unwrap();
            *server = Server::start(importer.place);
            importer.tap.move_to(server.authority().parse().unwrap());
        }
        cut.push(sent() - before);
        println!("kill {}: {} bytes sent so far", cut.len(), sent());
    }
    cut
}

/// What the server holds, counted: each file once, each version made by one entry. Gives the versions.
fn count(importer: &Importer<'_>, import: &Import, bytes: u64) -> Result<u64, String> {
    let usage = importer.json(&importer.folder, &["admin", "du"]);
    let main = &usage["workspaces"][0];
    if (&main["files"], &main["head_bytes"]) != (&import.files.into(), &bytes.into()) {
        return Err(format!("the server does not hold {} files of {bytes} bytes: {usage}", import.files));
    }
    let checked = importer.json(&importer.folder, &["admin", "fsck"]);
    let versions = checked["versions"].as_u64().unwrap_or(0);
    // Version 0 is the empty one that no entry made.
    if checked["findings"] != serde_json::json!([]) || checked["entries"] != versions - 1 {
        return Err(format!("the server is not well, or has entries that made no version: {checked}"));
    }
    if versions - 1 < import.files / import.piece {
        return Err(format!("{versions} versions are fewer than {} files in pieces of {}", import.files, import.piece));
    }
    Ok(versions)
}

/// Small files that do not compress, 500 a folder; gives the sum of their lengths.
fn make(folder: &Path, import: &Import, chance: &mut Chance) -> u64 {
    let words = usize::try_from(import.longest / 8).unwrap();
    let mut sum = 0;
    for number in 0..import.files {
        let below = folder.join(format!("d{:04}", number / 500));
        if number % 500 == 0 {
            fs::create_dir_all(&below).unwrap();
        }
        let bytes: Vec<u8> = (0..chance.below(words - 4) + 5).flat_map(|_| chance.next().to_le_bytes()).collect();
        fs::write(below.join(format!("file-{number:06}")), &bytes).unwrap();
        sum += bytes.len() as u64;
    }
    sum
}
