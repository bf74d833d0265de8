//! Uploads and documents as the server takes them, from a client of the tests' own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_record::{Hash, codec};
use opship_residual::{Signature, delta, packed};
use opship_tests::{Place, Server, noise};
use std::io::{Read, Write};
use std::net::TcpStream;

const DOCUMENT: &str = "0123456789abcdef0123456789abcdef";

/// What the server answered: the status, the head and the body.
struct Response {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        let line =
            self.head.lines().find_map(|line| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)));
        line.map(|(_, value)| value)
    }

    fn problem(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A request with a body of a stated length, of which `body` may be only the beginning.
fn send(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    length: usize,
) -> Option<Response> {
    let mut stream = TcpStream::connect(server.authority()).unwrap();
    let mut head = format!(
        "{method} /v1/workspaces/main{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\ncontent-length: {length}\r\n",
        server.token()
    );
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    if body.len() < length {
        // The connection breaks here.
        return None;
    }
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole header");
    let head = String::from_utf8(response[..end].to_vec()).unwrap();
    let status = head[9..12].parse().unwrap();
    Some(Response { status, head, body: response.split_off(end + 4) })
}

/// Where an upload stands that broke off behind `past`. A server that sees the end of a connection before it has looked at the
/// body may have taken nothing of it; then it is sent again.
fn stands_after(server: &Server, path: &str, past: usize, break_off: impl Fn()) -> usize {
    const LOOKS: u32 = 200;
    loop {
        break_off();
        for _ in 0..LOOKS {
            let stands = send(server, "HEAD", path, &[], b"", 0).unwrap();
            let offset = stands.header("upload-offset").map(|offset| offset.parse::<usize>().unwrap());
            if let Some(offset) = offset.filter(|offset| *offset > past) {
                assert_eq!((stands.status, stands.header("upload-complete")), (204, Some("?0")), "{}", stands.head);
                return offset;
            }
        }
    }
}

fn upload(hash: &Hash) -> String {
    format!("/uploads/{hash}/{DOCUMENT}")
}

fn pack(content: &[u8], base: Option<(&Hash, &Signature)>) -> Vec<u8> {
    let encoder = packed::Encoder::new(Vec::new(), content.len() as u64).unwrap();
    delta::make(content, content.len() as u64, base, encoder).unwrap().finish().unwrap()
}

fn is_there(server: &Server, hash: &Hash) -> bool {
    let (_, missing) = server.request("POST", "/v1/workspaces/main/blobs:missing", &codec::encode(&[*hash].as_slice()));
    missing == codec::encode(&[0u8; 0].as_slice())
}

#[test]
fn an_upload_in_parts_becomes_a_blob_when_it_is_complete() {
    let place = Place::new();
    let server = Server::start(&place);
    place.init(&server, "here", "main");
    let content = noise(1, 300_000);
    let (hash, bytes) = (Hash::of(&content), pack(&content, None));
    let path = upload(&hash);
    let none = send(&server, "HEAD", &path, &[], b"", 0).unwrap();
    assert_eq!(none.status, 404);
    let created = send(&server, "POST", &path, &[("upload-complete", "?0")], &bytes[..1000], 1000).unwrap();
    assert_eq!((created.status, created.header("upload-offset")), (201, Some("1000")), "{}", created.head);

    // A body that breaks off counts as far as it came.
    let partial = [("upload-complete", "?1"), ("upload-offset", "1000")];
    let stands = stands_after(&server, &path, 1000, || {
        assert!(send(&server, "PATCH", &path, &partial, &bytes[1000..200_000], bytes.len() - 1000).is_none());
    });
    assert!(stands <= 200_000 && !is_there(&server, &hash));

    let wrong = [("upload-complete", "?1"), ("upload-offset", "5")];
    let refused = send(&server, "PATCH", &path, &wrong, b"x", 1).unwrap();
    assert_eq!((refused.status, &refused.problem()["expected-offset"]), (409, &stands.into()));
    let offset = stands.to_string();
    let rest = [("upload-complete", "?1"), ("upload-offset", offset.as_str())];
    let done = send(&server, "PATCH", &path, &rest, &bytes[stands..], bytes.len() - stands).unwrap();
    assert_eq!((done.status, done.header("upload-complete")), (204, Some("?1")), "{}", done.head);
    assert!(is_there(&server, &hash));
    assert_eq!(send(&server, "HEAD", &path, &[], b"", 0).unwrap().status, 404);
    let again = send(&server, "POST", &path, &[("upload-complete", "?1")], b"anything", 8).unwrap();
    assert_eq!((again.status, again.header("upload-complete")), (200, Some("?1")));
}

#[test]
fn an_upload_that_is_no_good_is_refused_and_forgotten() {
    let place = Place::new();
    let server = Server::start(&place);
    place.init(&server, "here", "main");
    let content = noise(1, 50_000);
    let (hash, other) = (Hash::of(&content), Hash::of(b"other"));
    let bytes = pack(&content, None);
    let lacking = pack(&content, Some((&other, &Signature::of(&content))));
    let complete = [("upload-complete", "?1")];
    for (what, hash, bytes, status) in [
        ("another content", other, &bytes, 422),
        ("no document", hash, &noise(2, 1000), 422),
        ("a base that is not here", hash, &lacking, 409),
    ] {
        let refused = send(&server, "POST", &upload(&hash), &complete, bytes, bytes.len()).unwrap();
        assert_eq!(refused.status, status, "{what}: {}", String::from_utf8_lossy(&refused.body));
        assert_eq!(send(&server, "HEAD", &upload(&hash), &[], b"", 0).unwrap().status, 404, "{what}");
        assert!(!is_there(&server, &hash), "{what}");
    }
    let wrong = [("upload-complete", "yes")];
    for (headers, path) in [
        (&wrong, upload(&hash)),
        (&complete, format!("/uploads/{hash}/..%2f..%2fx")),
        (&complete, "/uploads/1234567".to_owned()),
        (&complete, format!("/uploads/{}", "A".repeat(12))),
        (&complete, "/uploads/..%2f..%2fx".to_owned()),
    ] {
        assert_eq!(send(&server, "POST", &path, headers, b"", 0).unwrap().status, 400, "{path}");
    }
    let begun = send(&server, "POST", &upload(&hash), &[("upload-complete", "?0")], &bytes, bytes.len()).unwrap();
    assert_eq!(begun.status, 201);
    assert_eq!(send(&server, "DELETE", &upload(&hash), &[], b"", 0).unwrap().status, 204);
    assert_eq!(send(&server, "HEAD", &upload(&hash), &[], b"", 0).unwrap().status, 404);
}

/// A parcel of these contents.
fn parcel(contents: &[Vec<u8>]) -> Vec<u8> {
    let string = |bytes: &Vec<u8>| codec::encode(&<&minicbor::bytes::ByteSlice>::from(bytes.as_slice()));
    let sequence: Vec<u8> = contents.iter().flat_map(string).collect();
    zstd::bulk::compress(&sequence, 3).unwrap()
}

#[test]
fn a_parcel_brings_its_contents_also_if_it_was_cut_and_is_answered_with_the_least() {
    let place = Place::new();
    let server = Server::start(&place);
    place.init(&server, "here", "main");
    let contents = [noise(1, 70_000), noise(2, 1 << 20), b"small".to_vec(), Vec::new()];
    let (bytes, path) = (parcel(&contents), "/uploads/0123456789ab");
    let stands = stands_after(&server, path, 0, || {
        assert!(send(&server, "POST", path, &[], &bytes[..400_000], bytes.len()).is_none());
    });
    assert!(!contents.iter().any(|content| is_there(&server, &Hash::of(content))));
    let offset = stands.to_string();
    let rest = [("upload-complete", "?1"), ("upload-offset", offset.as_str())];
    let done = send(&server, "PATCH", path, &rest, &bytes[stands..], bytes.len() - stands).unwrap();
    assert_eq!((done.status, done.header("upload-complete")), (204, Some("?1")), "{}", done.head);
    assert!(contents.iter().all(|content| is_there(&server, &Hash::of(content))));
    assert_eq!(send(&server, "HEAD", path, &[], b"", 0).unwrap().status, 404);

    let more = [noise(3, 100_000), contents[0].clone()];
    let bytes = parcel(&more);
    let done = send(&server, "POST", "/uploads/01234567", &[], &bytes, bytes.len()).unwrap();
    assert_eq!((done.status, done.header("upload-complete"), done.header("content-length")), (204, None, None));
    assert!(more.iter().all(|content| is_there(&server, &Hash::of(content))));
}

#[test]
fn a_parcel_that_is_no_good_is_refused_and_forgotten() {
    let place = Place::new();
    let server = Server::start(&place);
    place.init(&server, "here", "main");
    let good = b"good".to_vec();
    let mut cut = parcel(&[good.clone(), noise(1, 100_000)]);
    cut.truncate(cut.len() - 10);
    let no_sequence = zstd::bulk::compress(&[0x44, 1, 2, 3, 4, 0x83, 1, 2, 3], 3).unwrap();
    let much = parcel(&vec![vec![0; 4 << 20]; 5]);
    for (what, bytes) in [
        ("no zstd", noise(2, 1000)),
        ("not whole", cut),
        ("something else than byte strings", no_sequence),
        ("a content that is too long", parcel(&[good.clone(), vec![0; (4 << 20) + 1]])),
        ("more than a request may hold", much),
    ] {
        let refused = send(&server, "POST", "/uploads/0123456789ab", &[], &bytes, bytes.len()).unwrap();
        assert_eq!((refused.status, refused.problem()["title"].as_str()), (422, Some("document")), "{what}");
        assert_eq!(send(&server, "HEAD", "/uploads/0123456789ab", &[], b"", 0).unwrap().status, 404, "{what}");
        assert!(!is_there(&server, &Hash::of(&good)) && !is_there(&server, &Hash::of(&[1, 2, 3, 4])), "{what}");
    }
}

/// What another workspace holds is no base: a document must not tell whether it is there, nor bring its bytes out.
#[test]
fn a_document_copies_only_from_its_own_workspace() {
    let place = Place::new();
    let server = Server::start(&place);
    place.init(&server, "here", "main");
    place.init(&server, "elsewhere", "other");
    let secret = noise(1, 60_000);
    server.upload("other", &secret);
    let (hash, signature) = (Hash::of(&secret), Signature::of(&secret));
    let absent = Hash::of(b"what nobody has");
    let mut answers = Vec::new();
    for base in [hash, absent] {
        let bytes = pack(&secret, Some((&base, &signature)));
        let refused = send(&server, "POST", &upload(&hash), &[("upload-complete", "?1")], &bytes, bytes.len()).unwrap();
        assert_eq!(refused.status, 409);
        answers.push(String::from_utf8(refused.body).unwrap().replace(&base.to_string(), "BASE"));
        let document = delta::make(secret.as_slice(), 60_000, Some((&base, &signature)), Vec::new()).unwrap();
        let body = codec::encode(&(hash, minicbor::bytes::ByteVec::from(document)));
        let refused = send(&server, "POST", "/documents", &[], &body, body.len()).unwrap();
        assert_eq!((refused.status, refused.body), (200, codec::encode(&[hash].as_slice())));
    }
    assert_eq!(answers[0], answers[1]);
    assert!(!is_there(&server, &hash));
    let mine = server.upload("main", b"my own");
    let given = send(&server, "GET", &format!("/blobs/{mine}/document?base={hash}"), &[], b"", 0).unwrap();
    assert!(given.header("etag").unwrap().ends_with("-none\""), "{}", given.head);
}

#[test]
fn a_document_is_given_from_any_byte_on_and_only_under_its_tag() {
    let place = Place::new();
    let server = Server::start(&place);
    place.init(&server, "here", "main");
    let old = noise(1, 200_000);
    let new = [b"new".as_slice(), &old[..150_000], &noise(2, 5_000)].concat();
    let (base, hash) = (server.upload("main", &old), server.upload("main", &new));
    let body = |response: &Response| {
        // Chunks of the transfer encoding (RFC 9112 §7.1).
        let (mut rest, mut all) = (response.body.as_slice(), Vec::new());
        loop {
            let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
            if length == 0 {
                return all;
            }
            all.extend_from_slice(&rest[end + 2..end + 2 + length]);
            rest = &rest[end + 4 + length..];
        }
    };
    let path = format!("/blobs/{hash}/document?base={base}");
    let whole = send(&server, "GET", &path, &[], b"", 0).unwrap();
    let tag = whole.header("etag").unwrap().to_owned();
    let bytes = body(&whole);
    assert!(bytes.len() < 8_000, "{}", bytes.len());
    let rest = send(&server, "GET", &format!("{path}&from=1234"), &[("if-match", &tag)], b"", 0).unwrap();
    assert!(body(&rest) == bytes[1234..]);
    let end = send(&server, "GET", &format!("{path}&from={}", bytes.len()), &[("if-match", &tag)], b"", 0).unwrap();
    assert!(body(&end).is_empty() && end.status == 200);
    let other = send(&server, "GET", &path, &[("if-match", "\"another\"")], b"", 0).unwrap();
    assert_eq!(other.status, 412);
}
