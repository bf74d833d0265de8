//! Bad input and bad circumstances: a clear error, and a consistent state.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, SmallDisk, assert_same_tree, snapshot, verdicts};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

/// A raw request; gives the whole response.
fn request(server: &Server, head: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.authority()).unwrap();
    let head = format!(
        "{head} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        server.authority(),
        server.token(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses by the head alone may close before it has read everything.
    let _ = stream.write_all(body);
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

#[test]
fn a_blob_of_another_workspace_does_not_exist() {
    let place = Place::new();
    let server = Server::start(&place);
    let mine = place.init(&server, "mine", "mine");
    let secret = "only in one workspace\n".repeat(4000);
    fs::write(mine.join("secret"), &secret).unwrap();
    place.ok(&mine, ["sync"]);
    place.init(&server, "other", "other");
    let hash = blake3::hash(secret.as_bytes()).to_string();
    let unknown = blake3::hash(b"nobody has this").to_string();
    let found = request(&server, &format!("GET /v1/workspaces/mine/blobs/{hash}"), b"");
    assert!(found.starts_with("HTTP/1.1 200"), "{}", &found[..60]);
    let elsewhere = request(&server, &format!("GET /v1/workspaces/other/blobs/{hash}"), b"");
    let nowhere = request(&server, &format!("GET /v1/workspaces/other/blobs/{unknown}"), b"");
    assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
    let without_hash =
        |text: &str| text.replace(&hash, "H").replace(&unknown, "H").split("\r\n\r\n").last().unwrap().to_owned();
    assert_eq!(without_hash(&elsewhere), without_hash(&nowhere));
    let nobody = request(&server, "GET /v1/workspaces/no-such", b"");
    assert!(nobody.starts_with("HTTP/1.1 404"), "{nobody}");
}

#[test]
fn requests_that_are_no_entries_are_refused_and_change_nothing() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("a"), "2\n1\n").unwrap();
    place.ok(&here, ["sync"]);
    let long = vec![0x82; 1 << 20];
    for body in [&b""[..], b"\xff\xff\xff", b"{}", b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", &long] {
        let response = request(&server, "POST /v1/workspaces/main/entries", body);
        let status = response.lines().next().unwrap_or_default().to_owned();
        assert!(status.contains(" 4") || body.is_empty(), "{status} for {} bytes", body.len());
    }
    let oversized = request(&server, "POST /v1/workspaces/main/entries", &vec![0; 17 << 20]);
    assert!(
        oversized.is_empty() || oversized.starts_with("HTTP/1.1 4"),
        "{}",
        oversized.lines().next().unwrap_or_default()
    );
    place.ok(&here, ["run", "sort", "--", "-o", "sorted", "a"]);
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here), ["shipped", "matched"]);
}

#[test]
fn without_a_token_nothing_is_told() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let printed = place.command(&here).arg("sync").env("OPSHIP_TOKEN", "wrong").output().unwrap();
    assert_eq!(printed.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&printed.stderr).contains("401"), "{}", String::from_utf8_lossy(&printed.stderr));
}

#[test]
fn a_module_that_wants_more_than_the_world_is_refused_by_name() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    // (module (import "env" "magic" (func)) (func (export "_start")))
    let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x0d\x01\x03env\x05magic\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\x01\x0a\x04\x01\x02\0\x0b";
    fs::write(here.join("magic.wasm"), module).unwrap();
    let printed = place.run(&here, ["run", "./magic.wasm"]);
    assert_eq!(printed.code, Some(126), "{printed}");
    assert!(String::from_utf8_lossy(&printed.stderr).contains("magic"), "{printed}");
    let printed = place.run(&here, ["module", "add", "magic.wasm", "--name", "magic"]);
    assert_eq!(printed.code, Some(126), "{printed}");
}

#[test]
fn a_full_disk_at_the_client_changes_nothing() {
    let place = Place::new();
    let server = Server::start(&place);
    let Some(disk) = SmallDisk::mount(&place.folder("disk"), "3m") else { return };
    let here = disk.path().join("here");
    fs::create_dir(&here).unwrap();
    place.ok(&here, ["init", "--server", &server.url(), "--workspace", "main"]);
    let text: String = (0..120_000u64).map(|n| format!("{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    fs::write(here.join("a"), &text[..1_200_000]).unwrap();
    place.ok(&here, ["sync"]);
    let before = snapshot(&here);
    let printed = place.run(&here, ["run", "sort", "--", "-o", "b", "a", "a"]);
    assert_eq!(printed.code, Some(125), "{printed}");
    assert!(String::from_utf8_lossy(&printed.stderr).contains("space"), "{printed}");
    assert_eq!(snapshot(&here), before);
    fs::write(here.join("small"), "2\n1\n").unwrap();
    place.ok(&here, ["run", "sort", "--", "-o", "sorted", "small"]);
    assert_eq!(place.json(&here, ["sync"])["waiting"], 0);
}

#[test]
fn a_full_disk_at_the_server_is_told_and_ends_nothing() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.folder("disk"), "4m") else { return };
    let data = disk.path().join("data");
    let server = Server::start_with(&place, data.to_str().unwrap(), |command| command);
    let here = place.init(&server, "here", "main");
    let noise: Vec<u8> = (0..600_000u64).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).collect();
    fs::write(here.join("large"), &noise).unwrap();
    let printed = place.run(&here, ["sync"]);
    let said = format!("{printed}");
    assert!(said.contains("space") || said.contains("full"), "{printed}");
    fs::remove_file(here.join("large")).unwrap();
    fs::write(here.join("small"), "2\n1\n").unwrap();
    place.ok(&here, ["run", "sort", "--", "-o", "sorted", "small"]);
    assert_eq!(place.json(&here, ["sync"])["waiting"], 0);
    place.ok(&place.path(""), ["clone", &format!("{}/main", server.url()), "there"]);
    assert_same_tree(&here, &place.path("there"));
}
