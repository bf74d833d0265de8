//! Values: small contents travel together and compressed, and nothing that the server has travels again.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{Place, Server, assert_same_tree, noise, requests, run_through, verdicts};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// Small files of text, each another; gives the sum of their lengths.
fn small_files(folder: &Path, count: u64) -> u64 {
    let mut sum = 0;
    for n in 0..count {
        let word = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let text =
            format!("// Part {n} of the collection, {word:x}.\n\nfn part_{n}() -> u64 {{\n    {word}\n}}\n").repeat(8);
        let below = folder.join(format!("d{}", n % 7));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(format!("{n}.rs")), &text).unwrap();
        sum += text.len() as u64;
    }
    sum
}

/// How the upload of a single content begins.
const UPLOAD: &str = "POST /v1/workspaces/main/uploads/";

/// Syncs through a relay that keeps what passes.
fn sync_through(place: &Place, server: &Server, directory: &Path) -> Tap {
    let tap = Tap::start_keeping(server.authority().parse().unwrap()).unwrap();
    run_through(place, &tap, server, directory, &["sync"]);
    tap
}

fn count(bytes: &[u8], what: &str) -> usize {
    bytes.windows(what.len()).filter(|window| *window == what.as_bytes()).count()
}

#[test]
fn many_small_files_travel_together_and_smaller_than_they_are() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let sum = small_files(&here, 300);
    let tap = sync_through(&place, &server, &here);
    assert!(tap.count().total() < sum / 2, "{:?} for {sum} bytes of files", tap.count());
    assert!(requests(&tap).len() <= 4, "{:?}", requests(&tap));
    assert_eq!(count(&tap.kept(), UPLOAD), 0);

    let down = Tap::start_keeping(server.authority().parse().unwrap()).unwrap();
    let mut clone = place.command(&place.path(""));
    clone.args(["clone", &format!("http://{}/main", down.address()), "there"]).env("OPSHIP_TOKEN", server.token());
    let output = clone.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(down.count().total() < sum / 2, "{:?} for {sum} bytes of files", down.count());
    assert_same_tree(&here, &place.path("there"));
}

#[test]
fn more_small_files_than_one_request_takes_arrive_whole() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    for n in 0..220 {
        // 13 MiB that do not compress, of lengths on both sides of those that the server keeps in files.
        fs::write(here.join(n.to_string()), noise(n, if n % 2 == 0 { 64 << 10 } else { 60_000 })).unwrap();
    }
    fs::write(here.join("empty"), b"").unwrap();
    fs::write(here.join("large"), noise(1000, 5 << 20)).unwrap();
    let tap = sync_through(&place, &server, &here);
    assert!(requests(&tap).len() <= 8, "{:?}", requests(&tap));
    // One of what has no room in the entry's request, one of the large file.
    assert_eq!(count(&tap.kept(), UPLOAD), 2);
    assert_eq!(verdicts(&place, &here), ["shipped"]);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

#[test]
fn what_the_server_has_is_never_sent_again() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("large"), noise(1, 1 << 20)).unwrap();
    for n in 0..60 {
        fs::write(here.join(format!("small{n}")), noise(100 + n, 4000)).unwrap();
    }
    place.ok(&here, ["sync"]);

    fs::rename(here.join("large"), here.join("renamed")).unwrap();
    let renamed = sync_through(&place, &server, &here);
    assert!(renamed.count().total() < 4000, "{:?} for a rename", renamed.count());

    fs::copy(here.join("renamed"), here.join("copy")).unwrap();
    let copied = sync_through(&place, &server, &here);
    assert!(copied.count().total() < 4000, "{:?} for a copy", copied.count());

    fs::create_dir(here.join("below")).unwrap();
    for n in 0..60 {
        fs::rename(here.join(format!("small{n}")), here.join(format!("below/{n}"))).unwrap();
    }
    let moved = sync_through(&place, &server, &here);
    assert!(moved.count().total() < 60 * 4000 / 8, "{:?} for 60 files moved", moved.count());
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}

/// The status line of the answer to a body of entries in this encoding.
fn post(server: &Server, encoding: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.authority()).unwrap();
    let head = format!(
        "POST /v1/workspaces/main/entries HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Encoding: {encoding}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        server.authority(),
        server.token(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    String::from_utf8_lossy(&response).lines().next().unwrap_or_default().to_owned()
}

/// zstd frames (RFC 8878) of zeros, made by hand: blocks of one repeated byte, with or without the length stated.
fn zeros(blocks: u32, states_length: bool) -> Vec<u8> {
    const BLOCK: u32 = 128 << 10;
    let mut frame = 0xfd2f_b528u32.to_le_bytes().to_vec();
    // A window of 128 KiB; the length, where it is stated, takes 4 bytes.
    frame.extend(if states_length { [0x80, 0x38] } else { [0x00, 0x38] });
    if states_length {
        frame.extend((blocks * BLOCK).to_le_bytes());
    }
    for block in 0..blocks {
        let last = u32::from(block + 1 == blocks);
        frame.extend(&(last | 1 << 1 | BLOCK << 3).to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

#[test]
fn a_compressed_body_that_is_no_good_is_refused_and_ends_nothing() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let megabytes_17 = 17 * 8;
    // The frames themselves are good: what a small one decodes to is looked at, and is no entry.
    for states_length in [true, false] {
        let status = post(&server, "zstd", &zeros(1, states_length));
        assert!(status.contains(" 400 "), "{status}");
        let status = post(&server, "zstd", &zeros(megabytes_17, states_length));
        assert!(status.contains(" 413 "), "{status}");
    }
    let many = zeros(1, true).repeat(megabytes_17 as usize);
    let mut cut = zeros(8, true);
    cut.truncate(cut.len() - 3);
    for (what, body) in [("frames beyond what is stated", many), ("a cut", cut), ("no zstd", noise(1, 5000))] {
        let status = post(&server, "zstd", &body);
        assert!(status.contains(" 400 "), "{what}: {status}");
    }
    let status = post(&server, "gzip", b"anything");
    assert!(status.contains(" 415 "), "{status}");

    small_files(&here, 20);
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here), ["shipped"]);
}

#[test]
fn a_large_upload_that_the_server_refuses_is_told_why() {
    let place = Place::new();
    let server = Server::start(&place);
    place.init(&server, "here", "main");
    let body = noise(1, 20 << 20);
    let wrong = blake3::hash(b"another content");
    let mut stream = TcpStream::connect(server.authority()).unwrap();
    let head = format!(
        "PUT /v1/workspaces/main/blobs/{wrong} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Encoding: zstd\r\n\
         Content-Length: {}\r\n\r\n",
        server.authority(),
        server.token(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // It fails at the first bytes, which are no zstd; the rest is taken all the same, and then the connection is usable.
    stream.write_all(&body).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400");
}
