//! Large contents: what changed travels and no more, and a transfer goes on where it was cut, whoever was killed.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{Cutter, Place, Server, assert_same_tree, noise, point, run_through, until, verdicts};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Syncs through a relay, and gives the bytes that went through, both ways.
fn sync_through(place: &Place, server: &Server, directory: &Path) -> u64 {
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    run_through(place, &tap, server, directory, &["sync"]);
    tap.count().total()
}

fn clone(place: &Place, server: &Server, name: &str) -> PathBuf {
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), name]);
    place.path(name)
}

#[test]
fn an_edit_of_a_large_file_travels_as_its_difference_both_ways() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let mut content = noise(1, 3 << 20);
    fs::write(here.join("large"), &content).unwrap();
    place.ok(&here, ["sync"]);
    let there = clone(&place, &server, "there");

    content.splice(1_000_000..1_000_000, *b"what is inserted");
    content[2_000_000] ^= 1;
    content.extend(b"what is appended");
    fs::write(here.join("large"), &content).unwrap();
    let (up, down) = (sync_through(&place, &server, &here), sync_through(&place, &server, &there));
    assert!(up < 8_000, "{up} bytes up");
    assert!(down < 8_000, "{down} bytes down");
    assert!(fs::read(there.join("large")).unwrap() == content);

    // What was pulled is a base as well as what was shipped; so is a file under another name.
    content[500_000] ^= 1;
    fs::remove_file(there.join("large")).unwrap();
    fs::create_dir(there.join("below")).unwrap();
    fs::write(there.join("below/large"), &content).unwrap();
    let moved = sync_through(&place, &server, &there);
    assert!(moved < 6_000, "{moved} bytes for a file that was moved and edited");
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &there);
}

#[test]
fn edits_of_many_small_files_travel_as_their_differences() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let name = |n: u64| here.join(format!("{n}"));
    for n in 0..60 {
        fs::write(name(n), noise(n, 12_000)).unwrap();
    }
    place.ok(&here, ["sync"]);
    let there = clone(&place, &server, "there");
    for n in 0..60 {
        let mut content = fs::read(name(n)).unwrap();
        content[6_000] ^= 1;
        fs::write(name(n), content).unwrap();
    }
    let (up, down) = (sync_through(&place, &server, &here), sync_through(&place, &server, &there));
    assert!(up < 60 * 2_000, "{up} bytes for one changed byte in each of 60 files of 12,000");
    assert!(down < 60 * 2_000, "{down} bytes to pull that");
    assert_same_tree(&here, &there);
}

#[test]
fn a_content_that_changed_all_over_and_a_lost_memory_are_shipped_whole() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("large"), noise(1, 300_000)).unwrap();
    place.ok(&here, ["sync"]);
    fs::write(here.join("large"), noise(2, 310_000)).unwrap();
    place.ok(&here, ["sync"]);
    fs::write(here.join(".opship/transfer.db"), noise(3, 5000)).unwrap();
    let mut content = noise(2, 310_000);
    content[100_000] ^= 1;
    fs::write(here.join("large"), &content).unwrap();
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here), ["shipped"; 3]);
    assert_same_tree(&here, &clone(&place, &server, "there"));
}

#[test]
fn chunks_that_the_server_has_of_any_file_are_not_sent_again() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let content = noise(1, 8 << 20);
    fs::write(here.join("first"), &content).unwrap();
    place.ok(&here, ["sync"]);
    // Another file under another name, which nothing says to be like the first.
    let mut other = noise(2, 10_000);
    other.extend(&content[..5 << 20]);
    other.extend(noise(3, 1000));
    other.extend(&content[5 << 20..]);
    fs::write(here.join("second"), &other).unwrap();
    let sent = sync_through(&place, &server, &here);
    assert!(sent < 1_500_000, "{sent} bytes for a file of {} of which most is there", other.len());
    assert_same_tree(&here, &clone(&place, &server, "there"));
}

/// The bytes that opship keeps beside the files.
fn own_bytes(folder: &Path) -> u64 {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() { own_bytes(&entry.path()) } else { metadata.len() }
        })
        .sum()
}

#[test]
fn what_is_kept_for_a_large_file_stays_a_small_part_of_it() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let mut content = noise(1, 24 << 20);
    fs::write(here.join("large"), &content).unwrap();
    place.ok(&here, ["sync"]);
    for edit in 0..12 {
        content[edit * 1_000_000] ^= 1;
        fs::write(here.join("large"), &content).unwrap();
        place.ok(&here, ["sync"]);
    }
    let own = own_bytes(&here.join(".opship"));
    // The log's write-ahead file is up to 1 MiB, whatever the files are.
    assert!(own < content.len() as u64 * 5 / 100 + (1 << 20), "{own} bytes beside {}", content.len());
    assert!(own_bytes(&server.data().join("uploads")) == 0);
}

/// `opship sync` on its way.
fn start_sync(place: &Place, directory: &Path, token: &str) -> Child {
    let mut command = place.command(directory);
    command.arg("sync").env("OPSHIP_TOKEN", token).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn kill(child: &mut Child) {
    // It may have ended; then there is nothing to kill.
    let _ = kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::KILL);
    child.wait().unwrap();
}

/// What one cut may cost: what was on its way, a request's head and the question how far the upload is.
const EACH_CUT: u64 = 700 << 10;

#[test]
fn an_upload_goes_on_where_it_was_cut_and_sends_no_byte_twice_that_arrived() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let content = noise(1, 24 << 20);
    fs::write(here.join("large"), &content).unwrap();
    cut_on_the_way(&place, &server, &here, content.len() as u64, [4_000_000, 300_000, 6_000_000, 40_000, 8_000_000]);
}

/// Syncs new contents of `bytes`, and cuts and kills each sync after so many of them but the last: all arrives, and little
/// more is sent.
fn cut_on_the_way(place: &Place, server: &Server, here: &Path, bytes: u64, cuts: [u64; 5]) {
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    point(here, tap.address());
    for after in cuts {
        tap.cut_after(after);
        let before = tap.count().total();
        // The sync goes on by itself, or the next one does: both are fine.
        let mut sync = start_sync(place, here, &server.token());
        until("the cut", || tap.count().total() >= before + after || sync.try_wait().unwrap().is_some());
        kill(&mut sync);
    }
    let output = place.command(here).arg("sync").env("OPSHIP_TOKEN", server.token()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sent = tap.count().sent;
    assert!(sent <= bytes + 2 * cuts.len() as u64 * EACH_CUT, "{sent} bytes sent for {bytes}");
    assert_same_tree(here, &clone(place, server, "there"));
    assert!(own_bytes(&server.data().join("uploads")) == 0);
}

#[test]
fn files_that_are_not_large_share_uploads_that_go_on_where_they_were_cut() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    const COUNT: u64 = 110;
    for n in 0..COUNT {
        fs::write(here.join(format!("{n}.jpg")), noise(n, 200_000)).unwrap();
    }
    // The third breaks off where the first parcel's last bytes go, or its answer.
    cut_on_the_way(&place, &server, &here, COUNT * 200_000, [3_000_000, 500_000, 4_890_000, 40_000, 8_000_000]);
}

#[test]
fn a_parcel_that_was_stored_is_not_sent_again_for_a_lost_answer() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    for n in 0..20 {
        fs::write(here.join(format!("{n}")), noise(n, 100_000)).unwrap();
    }
    let cutter = Cutter::start(server.authority().parse().unwrap());
    // The first request of a working copy that is as new as its workspace is the parcel.
    cutter.cut_after(0);
    let tap = Tap::start(cutter.address()).unwrap();
    point(&here, tap.address());
    let output = place.command(&here).arg("sync").env("OPSHIP_TOKEN", server.token()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(cutter.has_cut());
    let sent = tap.count().sent;
    assert!(sent < 2_200_000, "{sent} bytes sent for 2,000,000");
    assert_same_tree(&here, &clone(&place, &server, "there"));
}

#[test]
fn an_upload_survives_a_killed_server() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let content = noise(1, 8 << 20);
    fs::write(here.join("large"), &content).unwrap();
    let mut sent = 0;
    let mut server = Some(server);
    for kills in 0..3 {
        let running = server.take().unwrap_or_else(|| Server::start(&place));
        let tap = Tap::start_paced(running.authority().parse().unwrap(), 8 << 20).unwrap();
        point(&here, tap.address());
        let mut sync = start_sync(&place, &here, &running.token());
        if kills < 2 {
            until("half a transfer", || tap.count().sent > 2 << 20);
            running.signal(Signal::KILL);
            drop(running);
            kill(&mut sync);
        } else {
            until("the end", || sync.try_wait().unwrap().is_some());
            assert!(sync.wait().unwrap().success());
            point(&here, running.authority().parse().unwrap());
            server = Some(running);
        }
        sent += tap.count().sent;
    }
    assert!(sent <= content.len() as u64 + 4 * EACH_CUT, "{sent} bytes sent for {}", content.len());
    let server = server.unwrap();
    assert_same_tree(&here, &clone(&place, &server, "there"));
}

#[test]
fn a_download_goes_on_where_it_was_cut() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let there = clone(&place, &server, "there");
    let content = noise(1, 32 << 20);
    fs::write(here.join("large"), &content).unwrap();
    place.ok(&here, ["sync"]);
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    point(&there, tap.address());
    let mut cuts = 0;
    for after in [8_000_000, 700_000, 16_000_000] {
        tap.cut_after(after);
        let before = tap.count().total();
        let mut sync = start_sync(&place, &there, &server.token());
        until("the cut", || tap.count().total() >= before + after || sync.try_wait().unwrap().is_some());
        cuts += 1;
        kill(&mut sync);
        assert!(!there.join("large").exists(), "nothing is there before all is");
    }
    let output = place.command(&there).arg("sync").env("OPSHIP_TOKEN", server.token()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let received = tap.count().received;
    // The relay counts what it read from the server, though the client was killed before it got there.
    assert!(received <= content.len() as u64 + 4 * cuts * EACH_CUT, "{received} bytes for {}", content.len());
    assert!(fs::read(there.join("large")).unwrap() == content);
    assert_eq!(own_bytes(&there.join(".opship/downloads")), 0);
}

#[test]
fn what_comes_is_no_leftover_to_commands_beside_a_sync() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    place.ok(&here, ["sync"]);
    let there = clone(&place, &server, "there");
    for n in 0..4 {
        fs::write(here.join(format!("large{n}")), noise(n, 300_000)).unwrap();
    }
    place.ok(&here, ["sync"]);
    // Slow enough that files which have come wait for others.
    let tap = Tap::start_paced(server.authority().parse().unwrap(), 1 << 20).unwrap();
    point(&there, tap.address());
    let mut sync = start_sync(&place, &there, &server.token());
    let ended = loop {
        place.ok(&there, ["status"]);
        if let Some(ended) = sync.try_wait().unwrap() {
            break ended;
        }
    };
    assert!(ended.success());
    assert_same_tree(&here, &there);
}

#[test]
fn a_small_operation_passes_a_large_upload() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("input"), "c\nb\na\n").unwrap();
    place.ok(&here, ["sync"]);
    // The module is compiled and known, so that what is looked at is the upload.
    place.ok(&here, ["run", "sort", "--", "-o", "first", "input"]);
    place.ok(&here, ["sync"]);
    fs::write(here.join("large"), noise(1, 24 << 20)).unwrap();
    let tap = Tap::start_paced(server.authority().parse().unwrap(), 256 << 10).unwrap();
    point(&here, tap.address());
    let mut sync = start_sync(&place, &here, &server.token());
    until("the upload's beginning", || tap.count().sent > 256 << 10);
    place.ok(&here, ["run", "sort", "--", "-o", "second", "input"]);
    let all = || verdicts(&place, &here);
    until("the match", || all().iter().filter(|verdict| *verdict == "matched").count() == 2);
    assert!(sync.try_wait().unwrap().is_none(), "the upload was over first");
    assert_eq!(all().iter().filter(|verdict| *verdict == "shipped").count(), 1, "the upload was over first");
    assert!(tap.count().sent < 23 << 20, "the upload was over first");
    // The rest needs not be waited for.
    kill(&mut sync);
    point(&here, server.authority().parse().unwrap());
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &clone(&place, &server, "there"));
}

/// A relay to a server that does not know some addresses: what goes by is changed so that it has never heard of them.
fn relay_to_older(server: SocketAddr) -> SocketAddr {
    const NEWER: [(&[u8], &[u8]); 5] = [
        (b"/uploads/", b"/nothere/"),
        (b"/document ", b"/notheres "),
        (b"/documents ", b"/nothereds "),
        (b"/documents:", b"/nothereds:"),
        (b"/chunks:known", b"/nothere:known"),
    ];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pump = |mut from: TcpStream, mut to: TcpStream, newer: &'static [(&[u8], &[u8])]| {
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                for (name, other) in newer {
                    if let Some(at) = buffer[..length].windows(name.len()).position(|window| window == *name) {
                        buffer[at..at + name.len()].copy_from_slice(other);
                    }
                }
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
    };
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(server).unwrap();
            pump(client.try_clone().unwrap(), server.try_clone().unwrap(), &NEWER);
            pump(server, client, &[]);
        }
    });
    address
}

#[test]
fn a_server_that_knows_none_of_this_is_served_as_before() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let there = clone(&place, &server, "there");
    let older = relay_to_older(server.authority().parse().unwrap());
    point(&here, older);
    point(&there, older);
    let sync = |directory: &Path| {
        let output = place.command(directory).arg("sync").env("OPSHIP_TOKEN", server.token()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let mut content = noise(1, 400_000);
    for _ in 0..2 {
        fs::write(here.join("large"), &content).unwrap();
        sync(&here);
        sync(&there);
        assert!(fs::read(there.join("large")).unwrap() == content);
        content[200_000] ^= 1;
    }
    assert_eq!(verdicts(&place, &here), ["shipped"; 2]);
}

/// Runs `opship` in a folder, impatient with silence, through a relay that falls silent in the middle and closes nothing; it
/// must come to its end nevertheless.
fn run_into_silence(place: &Place, tap: &Tap, folder: &Path, token: &str, arguments: &[&str]) {
    tap.fall_silent_after(1 << 20);
    let mut command = place.command(folder);
    command.args(arguments).env("OPSHIP_TOKEN", token).env("OPSHIP_TEST_SILENCE", "1500").stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    until("the end of what has a silent server", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(tap.has_fallen_silent(), "{told}");
    assert!(output.status.success(), "{told}");
}

#[test]
fn a_connection_that_falls_silent_is_given_up_and_the_transfer_goes_on_with_the_next() {
    let place = Place::new();
    let server = Server::start(&place);
    let tap = Tap::start(server.authority().parse().unwrap()).unwrap();
    let here = place.init(&server, "here", "main");
    fs::write(here.join("large"), noise(1, 3 << 20)).unwrap();
    point(&here, tap.address());
    run_into_silence(&place, &tap, &here, &server.token(), &["sync"]);
    let source = format!("http://{}/main", tap.address());
    run_into_silence(&place, &tap, &place.path(""), &server.token(), &["clone", &source, "there"]);
    assert_same_tree(&here, &place.path("there"));
}
