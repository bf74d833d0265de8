//! Metered links and budgets: what goes, what waits and why, and that no budget is exceeded.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{Place, Server, Watch, eventually};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// What one piece may be: bytes on their way when a budget ends.
const PIECE: u64 = 64 << 10;

struct Metered {
    place: Place,
    server: Server,
    tap: Tap,
    here: PathBuf,
    there: PathBuf,
    token: String,
}

/// Two working copies of one workspace; `here` reaches the server through a relay that counts, by the link that the
/// configuration describes, `there` without one.
fn metered(profile: &str) -> Metered {
    let place = Place::new();
    let server = Server::start(&place);
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    let there = place.init(&server, "there", "main");
    let token = server.token();
    let here = place.folder("here");
    let metered = Metered { place, server, tap, here, there, token };
    metered.configure(profile);
    let url = format!("http://{}", metered.tap.address());
    metered.ok(&["init", "--server", &url, "--workspace", "main"]);
    metered
}

impl Metered {
    fn configure(&self, profile: &str) {
        let folder = self.place.folder("home/config/opship");
        let server = format!("server = \"http://{}\"", self.tap.address());
        fs::write(folder.join("config.toml"), format!("[links.phone]\n{server}\n{profile}\n")).unwrap();
    }

    fn command(&self) -> std::process::Command {
        let mut command = self.place.command(&self.here);
        command.env("OPSHIP_TOKEN", &self.token);
        command
    }

    fn run(&self, arguments: &[&str]) -> opship_tests::Printed {
        self.command().args(arguments).output().unwrap().into()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let printed = self.run(arguments);
        assert_eq!(printed.code, Some(0), "{arguments:?}: {printed}");
        String::from_utf8_lossy(&printed.stdout).into_owned()
    }

    fn link(&self) -> Value {
        serde_json::from_str::<Value>(&self.ok(&["--json", "status"])).unwrap()["link"].clone()
    }

    fn spent(&self) -> u64 {
        self.link()["spent"]["day"].as_u64().unwrap()
    }

    fn waiting(&self) -> Vec<(String, u64)> {
        let link = self.link();
        let waits = link["waiting"].as_array().unwrap();
        waits.iter().map(|w| (w["what"].as_str().unwrap().to_owned(), w["bytes"].as_u64().unwrap())).collect()
    }

    fn sync_there(&self) {
        self.place.ok(&self.there, ["sync"]);
    }
}

/// Bytes that do not compress.
fn noise(length: usize, seed: u8) -> Vec<u8> {
    let mut reader = blake3::Hasher::new().update(&[seed]).finalize_xof();
    let mut bytes = vec![0; length];
    reader.fill(&mut bytes);
    bytes
}

fn there(folder: &Path, names: &[&str]) -> Vec<bool> {
    names.iter().map(|name| folder.join(name).exists()).collect()
}

const PROFILE: &str = "metered = true\nvalues_up_to = \"10 kB\"\npriority = [\"*.csv\", \"reports/**\"]\n";

#[test]
fn operations_small_values_and_priorities_go_and_the_rest_waits_and_is_told() {
    let metered = metered(PROFILE);
    let here = &metered.here;
    fs::create_dir(here.join("reports")).unwrap();
    let files = [("small", 5_000), ("big", 50_000), ("big.csv", 50_000), ("reports/big", 50_000)];
    for (seed, (name, length)) in (0..).zip(files) {
        fs::write(here.join(name), noise(length, seed)).unwrap();
    }
    metered.ok(&["run", "gzip", "--", "-k", "big.csv"]);
    let report = metered.ok(&["sync"]);
    assert!(report.contains("too large for link 'phone'") && report.contains("50.0 kB"), "{report}");
    metered.sync_there();
    let names = ["small", "big", "big.csv", "big.csv.gz", "reports/big"];
    assert_eq!(there(&metered.there, &names), [true, false, true, true, true]);
    assert_eq!(metered.waiting(), [("big".to_owned(), 50_000)]);
    assert!(metered.ok(&["status"]).contains("link 'phone' (metered)"));
    // A large file that is moved costs nothing; an edit of the waiting one is still held back.
    fs::rename(here.join("reports/big"), here.join("moved")).unwrap();
    fs::write(here.join("big"), noise(60_000, 9)).unwrap();
    metered.ok(&["sync"]);
    metered.sync_there();
    assert_eq!(there(&metered.there, &["moved", "reports/big", "big"]), [true, false, false]);
    metered.ok(&["sync", "--anyway"]);
    metered.sync_there();
    assert_eq!(fs::read(metered.there.join("big")).unwrap(), noise(60_000, 9));
    assert_eq!(metered.waiting(), []);
}

#[test]
fn an_operation_takes_along_the_values_that_it_needs() {
    let metered = metered(PROFILE);
    fs::write(metered.here.join("big"), noise(50_000, 1)).unwrap();
    metered.ok(&["run", "gzip", "--", "-k", "big"]);
    metered.ok(&["sync"]);
    metered.sync_there();
    assert_eq!(there(&metered.there, &["big", "big.gz"]), [true, true]);
    // Not where the budget has no room for them: then both wait, and the reason is told.
    metered.configure(&format!("{PROFILE}budget.day = \"150 kB\"\n"));
    fs::write(metered.here.join("huge"), noise(500_000, 2)).unwrap();
    metered.ok(&["run", "gzip", "--", "-k", "huge"]);
    metered.ok(&["sync"]);
    let waits = metered.link()["waiting"].as_array().unwrap().clone();
    assert_eq!(waits.len(), 2, "{waits:?}");
    assert!(waits[0]["reason"].as_str().unwrap().contains("budget"), "{waits:?}");
    assert!(waits[1]["reason"].as_str().unwrap().contains("it needs entry"), "{waits:?}");
    metered.ok(&["sync", "--link", "unmetered"]);
    metered.sync_there();
    assert_eq!(there(&metered.there, &["huge", "huge.gz"]), [true, true]);
}

#[test]
fn what_others_made_comes_if_it_is_small_or_asked_for() {
    let metered = metered(PROFILE);
    for (seed, (name, length)) in (7..).zip([("big", 50_000), ("small", 5_000), ("big.csv", 50_000)]) {
        fs::write(metered.there.join(name), noise(length, seed)).unwrap();
    }
    metered.sync_there();
    let shown = metered.run(&["sync"]);
    assert!(
        String::from_utf8_lossy(&shown.stderr).contains("'big' was left alone: its content, 50000 bytes"),
        "{shown}"
    );
    assert_eq!(there(&metered.here, &["small", "big", "big.csv"]), [true, false, true]);
    // What waits here is no deletion.
    metered.sync_there();
    assert!(metered.there.join("big").exists());
    metered.ok(&["sync", "--link", "unmetered"]);
    assert_eq!(fs::read(metered.here.join("big")).unwrap(), noise(50_000, 7));
}

#[test]
fn what_is_counted_is_what_a_relay_counts_over_all_commands() {
    let metered = metered("budget.month = \"1 GB\"");
    for round in 0..3u8 {
        fs::write(metered.here.join(format!("f{round}")), noise(100_000, round)).unwrap();
        fs::write(metered.there.join(format!("g{round}")), noise(100_000, 100 + round)).unwrap();
        metered.sync_there();
        metered.ok(&["sync"]);
        let counted = metered.tap.count().total();
        assert!(counted > 200_000 * (u64::from(round) + 1));
        assert_eq!(metered.spent(), counted);
    }
    metered.ok(&["module", "list"]);
    assert_eq!(metered.spent(), metered.tap.count().total());
    fs::write(metered.here.join("more"), noise(100_000, 50)).unwrap();
    metered.ok(&["sync", "--anyway"]);
    assert_eq!(metered.spent(), metered.tap.count().total());
    assert_eq!(metered.link()["spent"]["month"], metered.spent());
}

#[test]
fn a_budget_is_not_exceeded_by_more_than_a_piece() {
    const BUDGET: u64 = 300_000;
    let metered = metered("budget.day = \"300 kB\"");
    for n in 0..20 {
        fs::write(metered.here.join(format!("f{n:02}")), noise(50_000, n)).unwrap();
    }
    fs::write(metered.here.join("larger than all"), noise(400_000, 99)).unwrap();
    metered.ok(&["sync"]);
    let count = metered.tap.count().total();
    assert!(count > 200_000 && count < BUDGET + PIECE, "{count}");
    metered.sync_there();
    let arrived = fs::read_dir(&metered.there).unwrap().count() - 1;
    assert!((4..6).contains(&arrived), "{arrived}");
    assert!(metered.waiting().len() > 14);
    // Small things go on until nothing is left; from then on nothing is sent at all.
    let mut n = 0;
    let refused = loop {
        fs::write(metered.here.join("small"), noise(3_000, n)).unwrap();
        let printed = metered.run(&["sync"]);
        if printed.code != Some(0) {
            break printed;
        }
        n += 1;
        assert!(n < 100, "{}", metered.spent());
    };
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the budget of link 'phone' is spent"), "{refused}");
    let (spent, count) = (metered.spent(), metered.tap.count().total());
    assert!(spent <= BUDGET && count <= BUDGET + PIECE, "{spent} {count}");
    metered.run(&["sync"]);
    assert_eq!(metered.tap.count().total(), count, "not a byte more");
    metered.ok(&["sync", "--anyway"]);
    metered.sync_there();
    assert_eq!(fs::read_dir(&metered.there).unwrap().count() - 1, 22);
}

#[test]
fn a_wrong_configuration_is_told_with_line_and_key_and_nothing_is_sent() {
    let metered = metered("metered = true");
    let count = metered.tap.count();
    metered.configure("meterd = true");
    fs::write(metered.here.join("f"), "text").unwrap();
    let refused = metered.run(&["sync"]);
    assert_eq!(refused.code, Some(125));
    let status = metered.run(&["status"]);
    assert_eq!(status.code, Some(0));
    for printed in [refused, status] {
        let text = String::from_utf8_lossy(&printed.stderr).into_owned();
        assert!(text.contains("config.toml") && text.contains("line 3") && text.contains("meterd"), "{text}");
    }
    assert_eq!(metered.tap.count(), count);
    metered.configure("");
    let unknown = metered.run(&["sync", "--link", "satellite"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("phone, unmetered"), "{unknown}");
}

#[test]
fn a_watch_keeps_to_the_link_and_a_sync_beside_it_may_go_beyond() {
    let metered = metered(PROFILE);
    let mut watch = Watch::start_with(metered.command(), &[]);
    // Written beside and renamed: the watch must not see the large file while it is still small.
    let beside = metered.here.parent().unwrap().join("big");
    fs::write(&beside, noise(50_000, 1)).unwrap();
    fs::rename(beside, metered.here.join("big")).unwrap();
    fs::write(metered.here.join("small"), "text").unwrap();
    watch.until("synced");
    eventually(|| {
        metered.sync_there();
        metered.there.join("small").exists().then_some(())
    });
    assert!(!metered.there.join("big").exists());
    assert_eq!(metered.waiting(), [("big".to_owned(), 50_000)]);
    metered.ok(&["sync", "--anyway"]);
    metered.sync_there();
    assert!(metered.there.join("big").exists());
}

#[test]
fn a_budget_brings_as_many_files_of_others_as_it_has_room_for_and_the_rest_later() {
    const BUDGET: u64 = 300_000;
    let metered = metered("budget.day = \"300 kB\"");
    for n in 0..40 {
        fs::write(metered.there.join(format!("f{n:02}")), noise(20_000, n)).unwrap();
    }
    metered.sync_there();
    let arrived = || fs::read_dir(&metered.here).unwrap().count() - 1;
    let printed = metered.run(&["sync"]);
    assert_eq!(printed.code, Some(0), "{printed}");
    let notes = String::from_utf8_lossy(&printed.stderr).into_owned();
    assert!((10..15).contains(&arrived()), "{} arrived: {notes}", arrived());
    assert_eq!(notes.matches("left alone").count(), 1, "one line for all: {notes}");
    // The rest waits for another day, and does not burn what is left of this one.
    let (spent, before) = (metered.spent(), arrived());
    metered.ok(&["sync"]);
    assert!(metered.spent() < spent + 1_000 && metered.spent() < BUDGET, "{spent} {}", metered.spent());
    assert_eq!(arrived(), before);
    metered.ok(&["sync", "--anyway"]);
    assert_eq!(arrived(), 40);
}

#[test]
fn what_waits_for_a_budget_is_cut_so_that_a_day_holds_each_part() {
    let metered = metered("budget.day = \"300 kB\"");
    metered.configure("");
    metered.ok(&["sync"]);
    metered.configure("budget.day = \"300 kB\"");
    // What a sync takes up while the server is away must not become one entry that no day has room for.
    for n in 0..20 {
        fs::write(metered.here.join(format!("f{n:02}")), noise(40_000, n)).unwrap();
        let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        metered.tap.move_to(away);
        metered.run(&["sync"]);
    }
    metered.tap.move_to(metered.server.authority().parse().unwrap());
    metered.ok(&["sync"]);
    metered.sync_there();
    assert!(fs::read_dir(&metered.there).unwrap().count() > 3);
}

#[test]
fn a_dropped_restore_leaves_what_it_replaced_to_the_change_that_the_link_holds_back() {
    let metered = metered(PROFILE);
    fs::write(metered.there.join("f"), "start\n").unwrap();
    metered.sync_there();
    metered.ok(&["sync"]);
    let edit = noise(50_000, 1);
    fs::write(metered.here.join("f"), &edit).unwrap();
    metered.ok(&["restore", "f", "--version", "1"]);
    let restore = serde_json::from_str::<Value>(&metered.ok(&["--json", "log", "-n", "1"])).unwrap();
    // What the link takes does not wait with what it holds back.
    fs::write(metered.here.join("small"), "text").unwrap();
    metered.ok(&["sync"]);
    metered.sync_there();
    assert!(metered.there.join("small").exists());
    metered.ok(&["drop", &restore["entries"][0]["number"].to_string()]);
    metered.ok(&["sync"]);
    metered.ok(&["sync", "--anyway"]);
    metered.sync_there();
    assert!(fs::read(metered.there.join("f")).unwrap() == edit, "the edit is lost");
    let status = serde_json::from_str::<Value>(&metered.ok(&["--json", "status"])).unwrap();
    assert_eq!(status["pending"], serde_json::json!([]));
}

#[test]
fn many_small_entries_that_wait_keep_to_the_budget_and_go_on_the_next_time() {
    const BUDGET: u64 = 60_000;
    let metered = metered("");
    metered.ok(&["sync"]);
    // Entries of their own: each value is what the operation behind it reads.
    for n in 0..60 {
        fs::write(metered.here.join("text"), noise(1_500, n)).unwrap();
        metered.ok(&["run", "gzip", "--", "-kf", "text"]);
    }
    metered.configure("budget.day = \"60 kB\"");
    let before = metered.tap.count().total();
    metered.run(&["sync"]);
    let count = metered.tap.count().total() - before;
    assert!(count > BUDGET / 2 && count <= BUDGET + PIECE, "{count}");
    let waiting = metered.waiting().len();
    assert!((10..110).contains(&waiting), "{waiting} wait");
    metered.run(&["sync"]);
    assert!(metered.tap.count().total() - before <= BUDGET + PIECE, "{}", metered.spent());
    metered.ok(&["sync", "--anyway"]);
    assert_eq!(metered.waiting(), []);
    metered.sync_there();
    assert_eq!(fs::read(metered.there.join("text")).unwrap(), noise(1_500, 59));
}
