//! Ships prepared entries to a real server over one kept connection, with the client's own HTTP half.

use crate::error::{BenchError, Result};
use crate::place::Server;
use crate::recorder::Module;
use opship_client::net::Api;
use opship_record::answer::{Answer, Verdict};
use opship_record::effect::{self, After, Before, Change};
use opship_record::entry::{Body, ClientId, Entry, Part, PartKind, Value};
use opship_record::node::Kind;
use opship_record::record::Record;
use opship_record::{Hash, TreePath};
use std::io::Cursor;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// One client of one workspace.
pub(crate) struct Shipper {
    api: Api,
    runtime: Runtime,
    client: ClientId,
    sequence: u64,
}

/// Entries as they travel, made before the clock starts.
pub(crate) struct Request {
    body: Vec<u8>,
    first: u64,
    count: u64,
    verdict: Verdict,
}

impl Shipper {
    /// A client of `workspace`, which is made; `address` is the server's or that of a relay to it.
    pub(crate) fn new(server: &Server, address: SocketAddr, workspace: &str) -> Result<Shipper> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(BenchError::io("start the client"))?;
        let mut api = Api::new(format!("http://{address}").parse()?, server.token.clone(), workspace);
        runtime.block_on(api.create_workspace())?;
        let mut client = [0; 16];
        client.copy_from_slice(&Hash::of(workspace.as_bytes()).as_bytes()[..16]);
        Ok(Shipper { api, runtime, client: ClientId::from_bytes(client), sequence: 0 })
    }

    /// Gives the workspace a module.
    pub(crate) fn upload(&mut self, module: &Module) -> Result<()> {
        Ok(self.runtime.block_on(self.api.put_blob(&module.hash, Cursor::new(module.bytes.clone())))?)
    }

    /// Ships a file that is too long for a request with what it holds.
    pub(crate) fn give(&mut self, path: &str, bytes: Vec<u8>) -> Result<()> {
        let change = created(path, &bytes)?;
        self.runtime.block_on(self.api.put_blob(&Hash::of(&bytes), Cursor::new(bytes)))?;
        let request = self.values(vec![(vec![change], Vec::new())]);
        self.send(request).map(drop)
    }

    /// Ships a directory with files, as values.
    pub(crate) fn lay<'a>(&mut self, directory: &str, files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<()> {
        /// Well below the limits of a list and of a request.
        const FILES: usize = 200;
        let path = TreePath::new(directory)?;
        let change = Change { before: absent(&path), path, after: After::Directory { mode: None } };
        let files: Vec<_> = files.collect();
        let mut requests = vec![self.values(vec![(vec![change], Vec::new())])];
        for files in files.chunks(FILES) {
            let changes = files.iter().map(|(path, bytes)| created(path, bytes)).collect::<Result<_>>()?;
            requests.push(self.values(vec![(changes, files.iter().map(|(_, bytes)| bytes.to_vec()).collect())]));
        }
        requests.into_iter().try_for_each(|request| self.send(request).map(drop))
    }

    /// A request of operations.
    pub(crate) fn operations(&mut self, records: &[Record]) -> Request {
        let entries = records.iter().map(|record| (Body::Operation(record.clone()), Vec::new())).collect();
        self.request(entries, Verdict::Matched)
    }

    /// A request of one operation whose record is not true: it ends as a value.
    pub(crate) fn claim(&mut self, record: Record) -> Request {
        self.request(vec![(Body::Operation(record), Vec::new())], Verdict::Shipped)
    }

    /// A request of values, each with its changes and its contents.
    pub(crate) fn values(&mut self, values: Vec<(Vec<Change>, Vec<Vec<u8>>)>) -> Request {
        let entry = |(mut changes, blobs): (Vec<Change>, Vec<Vec<u8>>)| {
            changes.sort_by(|a, b| a.path.cmp(&b.path));
            let list = Part::inline(PartKind::Changes, effect::encode_list(&changes));
            let blobs = blobs.into_iter().map(|bytes| Part::inline(PartKind::Blob, bytes));
            (Body::Value(Value::new(&changes)), std::iter::once(list).chain(blobs).collect())
        };
        self.request(values.into_iter().map(entry).collect(), Verdict::Shipped)
    }

    fn request(&mut self, entries: Vec<(Body, Vec<Part>)>, verdict: Verdict) -> Request {
        let mut request = Request { body: Vec::new(), first: self.sequence + 1, count: 0, verdict };
        for (body, parts) in entries {
            self.sequence += 1;
            request.count += 1;
            Entry::new(self.client, self.sequence, &[], body, parts).encode_into(&mut request.body);
        }
        request
    }

    /// Ships a request; every entry must end as wanted. The time is that until the last answer is read.
    pub(crate) fn send(&mut self, request: Request) -> Result<(Duration, Vec<Answer>)> {
        let Request { body, first, count, verdict } = request;
        let start = Instant::now();
        let answers = self.runtime.block_on(async {
            let mut reader = self.api.ship(body).await?;
            let mut answers = Vec::new();
            while let Some(answer) = reader.next().await? {
                answers.push(answer);
            }
            Ok::<_, BenchError>(answers)
        })?;
        let time = start.elapsed();
        let as_wanted = |sequence| answers.iter().any(|a| a.sequence == sequence && a.verdict == Some(verdict));
        match (first..first + count).find(|sequence| !as_wanted(*sequence)) {
            None => Ok((time, answers)),
            Some(sequence) => {
                let answer = answers.iter().find(|answer| answer.sequence == sequence);
                Err(BenchError::Failed(format!("entry {sequence} did not end {verdict}: {answer:?}")))
            }
        }
    }
}

/// A new file as [`opship_world::MemoryTree::file`] has it.
pub(crate) fn created(path: &str, bytes: &[u8]) -> Result<Change> {
    let path = TreePath::new(path)?;
    let after = After::File { length: bytes.len() as u64, hash: Hash::of(bytes), mode: None, mtime: 0 };
    Ok(Change { before: absent(&path), path, after })
}

fn absent(path: &TreePath) -> Before {
    Before::Absent { missing: path.clone(), above: Kind::Directory }
}
