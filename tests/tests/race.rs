//! Where a replay takes longer than the results would, they go while it runs, and whichever is first wins.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::answer::{Answer, Reason, Status, Verdict};
use opship_record::entry::{Body, Entry, Part, PartKind};
use opship_record::{Hash, codec, effect};
use opship_tap::Tap;
use opship_tests::{Place, Server, assert_same_tree, claim, guest, noise, point, requests, run_through, until};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Bytes a second of the link over which the input goes, so that results are predicted to take a while.
const RATE: u64 = 200_000;
/// Bytes of the results that cannot be compressed: as many as it takes to measure a link.
const NOISE: u64 = 300_000;

/// A working copy with an operation that waits, and a server on which nothing that takes long is begun, since replays that
/// never end have all the places for that.
struct Busy {
    place: Place,
    server: Server,
    copy: PathBuf,
    endless: [Entry; 2],
}

fn serve<'a>(command: &'a mut Command, address: Option<&str>) -> &'a mut Command {
    command.args(["--workers", "1"]);
    match address {
        Some(address) => command.args(["--listen", address]),
        None => command,
    }
}

/// An entry whose replay faults at once and that is not decided then, since its lists are lacking.
fn undecided(module: Hash) -> Entry {
    let entry = claim(90, module, |step| step, &["recurse"], vec![]);
    let Body::Operation(record) = entry.body else { panic!("an operation") };
    let record = opship_record::record::Record { observations: Some(Hash::of(b"something")), ..record };
    Entry::new(entry.envelope.client, 1, &[], Body::Operation(record), vec![])
}

/// Such a place, with a server that may be killed at a point of its own after it has the operation's input.
fn busy(failpoint: Option<&str>) -> Busy {
    let place = Place::new();
    let mut server = Server::start_with(&place, "data", |command| serve(command, None));
    let copy = place.init(&server, "here", "main");
    // Much to pack, of which little is left: the replay is a long one, and the results are small.
    fs::write(copy.join("input"), [noise(1, NOISE as usize), vec![0; 16 << 20]].concat()).unwrap();
    let tap = Tap::start_paced(server.authority().parse().unwrap(), RATE).unwrap();
    run_through(&place, &tap, &server, &copy, &["sync"]);
    place.ok(&copy, ["run", "gzip", "--", "-k", "input"]);
    let module = server.upload("main", &fs::read(guest("hostile")).unwrap());
    if let Some(failpoint) = failpoint {
        let address = server.authority();
        assert!(server.stop().success());
        server = Server::start_with(&place, "data", |command| {
            serve(command, Some(&address)).env("OPSHIP_FAILPOINT", failpoint)
        });
    }
    // What needs no compiling any more begins in the order in which it comes.
    assert_eq!(server.ship("main", &undecided(module)).status, Status::Needs);
    let endless = [91, 92].map(|client| claim(client, module, |step| step, &["loop"], vec![]));
    let busy = Busy { place, server, copy, endless };
    busy.endless.iter().for_each(|entry| busy.begin(entry));
    busy
}

impl Busy {
    /// Ships an entry and does not wait for its answer, but until the server works on it.
    fn begin(&self, entry: &Entry) {
        let mut body = Vec::new();
        entry.encode_into(&mut body);
        let mut stream = TcpStream::connect(self.server.authority()).unwrap();
        let (token, length) = (self.server.token(), body.len());
        let head = format!(
            "POST /v1/workspaces/main/entries HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        until("the server works on an entry", || self.is_worked_on(entry));
    }

    /// Is an entry neither ended nor unknown?
    fn is_worked_on(&self, entry: &Entry) -> bool {
        let envelope = &entry.envelope;
        let asked = codec::encode(&vec![(envelope.client, envelope.sequence, envelope.body)]);
        let held = self.server.request("POST", "/v1/workspaces/main/entries:state", &asked).1;
        let shown = format!("/v1/workspaces/main/entries/{}/{}", envelope.client, envelope.sequence);
        held == codec::encode(&vec![1u8]) && self.server.request("GET", &shown, b"").0 == 404
    }

    /// Ends an endless entry by its value, which is nothing.
    fn end(&self, entry: &Entry) -> Answer {
        let nothing = Part::inline(PartKind::Changes, effect::encode_list(&[]));
        let (client, sequence) = (entry.envelope.client, entry.envelope.sequence);
        self.server.ship("main", &Entry::new(client, sequence, &[], entry.body.clone(), vec![nothing]))
    }

    /// A sync as users have it: nothing says how operations travel.
    fn sync(&self) -> Command {
        let mut command = self.place.command(&self.copy);
        command.env_remove("OPSHIP_SHIP").args(["--json", "sync"]);
        command
    }

    fn entry(&self) -> Value {
        self.place.json(&self.copy, ["log", "-n", "1"])["entries"][0].clone()
    }

    /// The verdict of the entry whose command begins so; null: it has none.
    fn verdict(&self, command: &str) -> Value {
        let log = self.place.json(&self.copy, ["log"]);
        let is_it = |entry: &&Value| entry["command"].as_str().unwrap().starts_with(command);
        log["entries"].as_array().unwrap().iter().find(is_it).unwrap()["verdict"].clone()
    }

    fn versions(&self) -> u64 {
        let shown = self.server.request("GET", "/v1/workspaces/main", b"").1;
        serde_json::from_slice::<Value>(&shown).unwrap()["head"]["number"].as_u64().unwrap()
    }

    /// The operation has ended so, has made one version of `before`, and a clone has what is here.
    fn ended(&self, verdict: &str, reason: Option<&str>, before: u64) {
        let entry = self.entry();
        assert_eq!((&entry["kind"], &entry["verdict"]), (&"operation".into(), &verdict.into()), "{entry}");
        assert_eq!(entry["reason"].as_str(), reason, "{entry}");
        assert_eq!(self.versions(), before + 1);
        self.place.ok(&self.place.path(""), ["clone", &format!("{}/main", self.server.url()), "there"]);
        assert_same_tree(&self.copy, &self.place.path("there"));
    }

    /// Starts the server again where it was, after it was killed.
    fn start_again(&mut self) {
        assert_eq!(self.server.wait().code(), None, "the server was not killed");
        let address = self.server.authority();
        self.server = Server::start_with(&self.place, "data", |command| serve(command, Some(&address)));
    }
}

fn bytes_below(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    files
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn results_that_arrive_first_end_the_entry_and_what_is_told_says_so() {
    let busy = busy(None);
    let before = busy.versions();
    let synced = busy.sync().output().unwrap();
    assert!(synced.status.success(), "{}", String::from_utf8_lossy(&synced.stderr));
    // What would have had to end before the replay could begin goes on.
    assert!(busy.endless.iter().all(|entry| busy.is_worked_on(entry)));
    let report: Value = serde_json::from_slice(&synced.stdout).unwrap();
    let told = &report["entries"][0];
    assert_eq!((&told["verdict"], &told["reason"]), (&"shipped".into(), &"replay-slow".into()), "{report}");
    assert!(told["sent"].as_u64().unwrap() > NOISE, "what its results took is counted with it: {told}");
    assert_eq!(busy.entry()["prediction"]["way"], "operation");
    let number = busy.entry()["number"].to_string();
    let shown = busy.place.ok(&busy.copy, ["show", &number]);
    assert!(shown.contains("replay-slow") && shown.contains("its value came before its replay ended"), "{shown}");
    busy.ended("shipped", Some("replay-slow"), before);
    for entry in &busy.endless {
        let answer = busy.end(entry);
        assert_eq!((answer.verdict, answer.reason), (Some(Verdict::Shipped), Some(Reason::ReplaySlow)));
    }
}

#[test]
fn others_of_the_same_request_end_as_ever_also_one_that_waits_for_it() {
    let busy = busy(None);
    fs::write(busy.copy.join("small"), "b\na\n").unwrap();
    busy.place.ok(&busy.copy, ["run", "sort", "--", "-o", "sorted", "small"]);
    busy.place.ok(&busy.copy, ["run", "tar", "--", "-cf", "packed.tar", "input.gz"]);
    let synced = busy.sync().output().unwrap();
    assert!(synced.status.success(), "{}", String::from_utf8_lossy(&synced.stderr));
    let log = busy.place.json(&busy.copy, ["log"]);
    let of = |command: &str| {
        let entries = log["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["command"].as_str().unwrap().starts_with(command)).unwrap();
        (entry["verdict"].as_str().unwrap(), entry["reason"].as_str())
    };
    assert_eq!((of("gzip"), of("sort")), (("shipped", Some("replay-slow")), ("matched", None)), "{log}");
    assert!(["matched", "shipped"].contains(&of("tar").0), "{log}");
    busy.place.ok(&busy.place.path(""), ["clone", &format!("{}/main", busy.server.url()), "there"]);
    assert_same_tree(&busy.copy, &busy.place.path("there"));
}

/// What is kept back is only what depends on the slow one: not a later one, nor what needs another of the same request.
#[test]
fn others_pass_a_slow_answer() {
    let busy = busy(None);
    fs::write(busy.copy.join("small"), "b\na\n").unwrap();
    busy.place.ok(&busy.copy, ["run", "sort", "--", "-o", "sorted", "small"]);
    let mut command = busy.sync();
    let mut syncing = command.args(["--ship", "operation"]).stdout(Stdio::null()).spawn().unwrap();
    until("the others of the request", || busy.verdict("sort -o sorted") == "matched");
    busy.place.ok(&busy.copy, ["run", "sort", "--", "-r", "-o", "reversed", "sorted"]);
    until("what needs one of them", || busy.verdict("sort -r") == "matched");
    busy.place.ok(&busy.copy, ["run", "tar", "--", "-cf", "packed.tar", "input.gz"]);
    assert!(syncing.try_wait().unwrap().is_none());
    assert_eq!([busy.verdict("gzip"), busy.verdict("tar")], [Value::Null, Value::Null]);
    busy.endless.iter().for_each(|entry| drop(busy.end(entry)));
    assert!(syncing.wait().unwrap().success());
    assert_eq!([busy.verdict("gzip"), busy.verdict("tar")], ["matched", "matched"]);
    busy.place.ok(&busy.place.path(""), ["clone", &format!("{}/main", busy.server.url()), "there"]);
    assert_same_tree(&busy.copy, &busy.place.path("there"));
}

#[test]
fn a_small_operation_passes_results_that_go_beside_their_replay() {
    let busy = busy(None);
    fs::write(busy.copy.join("small"), "b\na\n").unwrap();
    // The module is compiled and known, so that what is looked at is the upload.
    busy.place.ok(&busy.copy, ["run", "sort", "--", "-o", "sorted", "small"]);
    let tap = Tap::start_paced(busy.server.authority().parse().unwrap(), NOISE / 30).unwrap();
    point(&busy.copy, tap.address());
    let mut command = busy.sync();
    command.env("OPSHIP_TOKEN", busy.server.token()).stdout(Stdio::null());
    let mut syncing = command.spawn().unwrap();
    let uploads = busy.server.data().join("uploads");
    until("results are on their way", || bytes_below(&uploads) > 0);
    busy.place.ok(&busy.copy, ["run", "sort", "--", "-r", "-o", "reversed", "small"]);
    until("the match", || busy.verdict("sort -r") == "matched");
    assert_eq!(busy.verdict("gzip"), Value::Null);
    assert!(tap.count().sent < NOISE, "the results were there first");
    // What is held up goes on.
    assert!(syncing.wait().unwrap().success());
    point(&busy.copy, busy.server.authority().parse().unwrap());
    assert_eq!(busy.verdict("gzip"), "shipped");
    busy.place.ok(&busy.place.path(""), ["clone", &format!("{}/main", busy.server.url()), "there"]);
    assert_same_tree(&busy.copy, &busy.place.path("there"));
}

#[test]
fn a_replay_that_ends_first_stands_and_what_was_uploaded_is_dropped() {
    let busy = busy(None);
    let before = busy.versions();
    let tap = Tap::start_paced(busy.server.authority().parse().unwrap(), NOISE / 50).unwrap();
    point(&busy.copy, tap.address());
    let mut command = busy.sync();
    command.env("OPSHIP_TOKEN", busy.server.token()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let syncing: Child = command.spawn().unwrap();
    let uploads = busy.server.data().join("uploads");
    until("results are on their way", || bytes_below(&uploads) > 0);
    // Their replays stop at once, or there would be no place for the one that is waited for.
    busy.endless.iter().for_each(|entry| drop(busy.end(entry)));
    let synced = syncing.wait_with_output().unwrap();
    assert!(synced.status.success(), "{}", String::from_utf8_lossy(&synced.stderr));
    assert!(tap.count().sent < NOISE / 2, "all results went, {} bytes", tap.count().sent);
    point(&busy.copy, busy.server.authority().parse().unwrap());
    assert_eq!(bytes_below(&uploads), 0);
    busy.ended("matched", None, before);
}

fn nothing_goes_beside_a_replay(options: &[&str], configuration: &str) {
    let busy = busy(None);
    let folder = busy.place.folder("home/config/opship");
    fs::write(folder.join("config.toml"), configuration).unwrap();
    let tap = Tap::start_keeping(busy.server.authority().parse().unwrap()).unwrap();
    point(&busy.copy, tap.address());
    let mut command = busy.sync();
    command.args(options).env("OPSHIP_TOKEN", busy.server.token()).stdout(Stdio::null());
    let mut syncing = command.spawn().unwrap();
    until("asking at the address of the answer", || requests(&tap).iter().any(|address| address.ends_with("?wait=25")));
    busy.endless.iter().for_each(|entry| drop(busy.end(entry)));
    assert!(syncing.wait().unwrap().success());
    assert!(tap.count().sent < NOISE / 10, "{} bytes", tap.count().sent);
    assert_eq!(busy.entry()["verdict"], "matched");
}

#[test]
fn nothing_goes_beside_a_replay_where_the_user_wants_operations() {
    nothing_goes_beside_a_replay(&["--ship", "operation"], "");
}

/// Also where the user lets go what would wait: nobody pays for bytes twice.
#[test]
fn nothing_goes_beside_a_replay_where_bytes_count() {
    let phone = "[links.phone]\nbudget.day = \"1 GB\"\n";
    nothing_goes_beside_a_replay(&["--link", "phone", "--anyway"], phone);
}

/// Each cut breaks the upload of the results, which goes on where it was; the request that waits is another connection's.
#[test]
fn results_arrive_over_a_link_that_is_cut() {
    let busy = busy(None);
    let before = busy.versions();
    let tap = Tap::start_paced(busy.server.authority().parse().unwrap(), RATE).unwrap();
    point(&busy.copy, tap.address());
    let mut command = busy.sync();
    command.env("OPSHIP_TOKEN", busy.server.token()).stdout(Stdio::null());
    let mut syncing = command.spawn().unwrap();
    for part in 1..=3 {
        let after = NOISE * part / 5;
        until("some of the results", || tap.count().sent > after);
        tap.cut_after(NOISE / 10);
    }
    assert!(syncing.wait().unwrap().success());
    assert!(tap.count().sent < NOISE * 2, "{} bytes", tap.count().sent);
    point(&busy.copy, busy.server.authority().parse().unwrap());
    busy.ended("shipped", Some("replay-slow"), before);
}

#[test]
fn a_client_that_is_killed_when_its_results_are_there_ends_the_entry_next_time() {
    let busy = busy(None);
    let before = busy.versions();
    let killed = busy.sync().env("OPSHIP_FAILPOINT", "race-uploaded").output().unwrap();
    assert_eq!(killed.status.code(), None, "{}", String::from_utf8_lossy(&killed.stderr));
    assert_eq!(busy.versions(), before);
    assert!(busy.sync().output().unwrap().status.success());
    busy.ended("shipped", Some("replay-slow"), before);
}

/// Killed there, the server has the entry after all or not at all: then it is replayed.
fn server_killed_at(point: &str, verdict: &str, reason: Option<&str>) {
    let mut busy = busy(Some(point));
    let before = busy.versions();
    let cut = busy.sync().output().unwrap();
    assert_eq!(cut.status.code(), Some(125), "{}", String::from_utf8_lossy(&cut.stderr));
    busy.start_again();
    assert!(busy.sync().output().unwrap().status.success());
    busy.ended(verdict, reason, before);
}

#[test]
fn a_server_that_is_killed_before_it_commits_the_results_replays_the_entry() {
    server_killed_at("server-value-came", "matched", None);
}

#[test]
fn a_server_that_is_killed_after_the_commit_has_the_results() {
    server_killed_at("server-committed", "shipped", Some("replay-slow"));
}
