//! Requests of a client of the tests' own, for what the real one never sends.

use crate::Server;
use opship_record::answer::Answer;
use opship_record::entry::{Body, ClientId, Entry, Part};
use opship_record::plan::{PROFILE, Plan, Step};
use opship_record::record::{Lists, Record, StepStreams};
use opship_record::{FORMAT_VERSION, Hash};
use std::io::{Read, Write};
use std::net::TcpStream;

impl Server {
    /// Sends a request with the admin's token, and gives status and body of the response.
    pub fn request(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.authority()).unwrap();
        // Under HTTP/1.0 a body ends with the connection.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
            self.authority(),
            self.token(),
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole header");
        let status = std::str::from_utf8(&response[9..12]).unwrap().parse().unwrap();
        (status, response.split_off(end + 4))
    }

    /// Gives a workspace a blob.
    pub fn upload(&self, workspace: &str, bytes: &[u8]) -> Hash {
        let hash = Hash::of(bytes);
        let (status, body) = self.request("PUT", &format!("/v1/workspaces/{workspace}/blobs/{hash}"), bytes);
        assert!((200..300).contains(&status), "{status}: {}", String::from_utf8_lossy(&body));
        hash
    }

    /// Ships an entry, and waits for its answer, however long it takes.
    pub fn ship(&self, workspace: &str, entry: &Entry) -> Answer {
        let mut request = Vec::new();
        entry.encode_into(&mut request);
        let (status, body) = self.request("POST", &format!("/v1/workspaces/{workspace}/entries"), &request);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        let mut answer = Answer::decode_next(&mut &body[..]).unwrap();
        while let Some(address) = answer.location.take() {
            answer = self.poll(&address);
        }
        answer
    }

    fn poll(&self, address: &str) -> Answer {
        let mut stream = TcpStream::connect(self.authority()).unwrap();
        let head = format!(
            "GET {address}?wait=30 HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {}\r\naccept: application/cbor\r\n\r\n",
            self.authority(),
            self.token()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole header");
        Answer::decode_next(&mut &response[end + 4..]).unwrap()
    }
}

/// An entry that claims that a run of `module` saw nothing, did nothing and ended well. `client` is any number; it is the
/// client's first entry.
pub fn claim(client: u8, module: Hash, step: impl FnOnce(Step) -> Step, arguments: &[&str], parts: Vec<Part>) -> Entry {
    let step = step(Step::new(module, std::iter::once("module").chain(arguments.iter().copied())));
    let plan = Plan {
        format: FORMAT_VERSION,
        steps: vec![step],
        clock_start: 1_700_000_000_000_000_000,
        seed: [client; 16].into(),
        limits: None,
        profile: PROFILE,
    };
    let lists = Lists { streams: vec![StepStreams::default()], exits: vec![0], ..Lists::default() };
    let record = Record::new(plan, &lists);
    Entry::new(ClientId::from_bytes([client; 16]), 1, &[], Body::Operation(record), parts)
}
