//! A server that lies: it serves a tree that no honest server has. It plays the attacker; opship's own server is not in it.

use opship_record::node::Node;
use opship_record::tree;
use opship_record::version::Version;
use opship_record::{FORMAT_VERSION, Hash, codec};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// What it serves.
#[derive(Debug, Default)]
pub struct Lies {
    feed: Vec<u8>,
    nodes: BTreeMap<String, Option<Node>>,
    blobs: BTreeMap<Hash, Vec<u8>>,
}

impl Lies {
    /// Claims that this is at a path, whatever text the path is.
    pub fn claim(&mut self, path: &str, node: Option<&Node>) -> &mut Lies {
        self.feed.extend(codec::encode(&(path, node)));
        self.nodes.insert(path.to_owned(), node.cloned());
        self
    }

    /// Claims that a file with this content and mode is at a path.
    pub fn file(&mut self, path: &str, mode: u16, bytes: &[u8]) -> &mut Lies {
        let hash = Hash::of(bytes);
        self.blobs.insert(hash, bytes.to_vec());
        self.claim(path, Some(&Node::File { mode, mtime: 1, length: bytes.len() as u64, hash }))
    }

    /// Serves on a free port of loopback until the process ends.
    pub fn serve(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, lies) = (listener.local_addr().unwrap(), Arc::new(self));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let lies = Arc::clone(&lies);
                std::thread::spawn(move || lies.talk(stream));
            }
        });
        address
    }

    fn talk(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some((path, body)) = request(&mut reader) {
            let answer = self.answer(&path, &body);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&answer)).is_err() {
                return;
            }
        }
    }

    fn answer(&self, path: &str, body: &[u8]) -> Vec<u8> {
        if path.contains("/changes?") {
            let version = Version {
                format: FORMAT_VERSION,
                number: 1,
                root: tree::empty(),
                parent: Some(Hash::of(b"parent")),
                author: None,
                sequence: None,
                entry: None,
                time: 1,
            };
            return [version.encode(), self.feed.clone()].concat();
        }
        if path.contains("/nodes") {
            let asked: Vec<String> = minicbor::decode(body).unwrap();
            return asked
                .iter()
                .flat_map(|path| codec::encode(&(path, self.nodes.get(path).cloned().flatten())))
                .collect();
        }
        if path.ends_with("/blobs:fetch") {
            let asked: Vec<Hash> = minicbor::decode(body).unwrap();
            let found = asked.iter().filter_map(|hash| Some((*hash, self.blobs.get(hash)?)));
            return found
                .flat_map(|(hash, bytes)| codec::encode(&(hash, minicbor::bytes::ByteVec::from(bytes.clone()))))
                .collect();
        }
        br#"{"name":"main"}"#.to_vec()
    }
}

/// Path and body of the next request; `None` when there is none.
fn request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}
