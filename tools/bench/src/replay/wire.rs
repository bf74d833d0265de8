//! Bytes on the wire of one operation that observes many files, all of them known to the server.

use crate::error::{BenchError, Result};
use crate::place::{Place, Server};
use crate::recorder::{Call, Module, Recorder};
use crate::report::{Cell, Goal, Report, Table};
use crate::shipper::{Request, Shipper, created};
use opship_record::TreePath;
use opship_tap::Tap;
use opship_world::MemoryTree;
use std::sync::Arc;

/// How many files are observed.
const OBSERVED: [usize; 3] = [1, 100, 1_000];

/// The bytes of one request and its response.
struct Exchange {
    request_head: usize,
    request_body: usize,
    response_head: usize,
    response_body: usize,
}

impl Exchange {
    fn total(&self) -> usize {
        self.request_head + self.request_body + self.response_head + self.response_body
    }
}

/// Measures all and adds table and goal.
pub(super) fn measure(place: &Place, server: &Server, report: &mut Report) -> Result<()> {
    let mut recorder = Recorder::new(place, place.path("cache-probe"))?;
    let probe = Module::guest(place, "treeprobe")?;
    recorder.load(&probe)?;
    let tap = Tap::start_keeping(server.address).map_err(BenchError::io("start the relay"))?;
    let mut shipper = Shipper::new(server, tap.address(), "wire")?;
    shipper.upload(&probe)?;
    let tree = Arc::new(lay(&mut shipper)?);

    let columns =
        ["files observed", "request head", "request body", "response head", "response body", "bytes", "by value"];
    let mut table = Table::new("Bytes of request and response with headers, counted by a relay", &columns);
    let mut largest = 0;
    for (number, files) in OBSERVED.into_iter().enumerate() {
        let (folder, to) = (format!("d{files}"), format!("seen{files}"));
        let call = Call { arguments: &["treeprobe", "read-many", &folder], stdout: Some(&to), number: number as u64 };
        let (record, outcome) = recorder.record(&probe, call, &tree)?;
        let mut result = Vec::new();
        if let Some(file) = outcome.files.get(&TreePath::new(&to)?) {
            file.copy_to(&mut result).map_err(BenchError::io("read what a module wrote"))?;
        }
        let operation = shipper.operations(&[record]);
        let operation = exchange(&tap, &mut shipper, operation)?;
        let value = shipper.values(vec![(vec![created(&format!("value{files}"), &result)?], vec![result])]);
        let value = exchange(&tap, &mut shipper, value)?;
        largest = largest.max(operation.total());
        let Exchange { request_head, request_body, response_head, response_body } = operation;
        let parts = [request_head, request_body, response_head, response_body, operation.total(), value.total()];
        table.row(&files.to_string(), parts.map(|bytes| Cell::whole(bytes as f64)));
    }
    table.note("treeprobe reads every file of a directory and writes one line to a file (18 to 24 bytes: the smallest value there is).");
    report.table(table);
    report.goal(Goal {
        what: "bytes of request and response",
        figure: largest as f64,
        goal: 750.0,
        more_is_better: false,
    });
    Ok(())
}

/// Ships the directories with their files; the same tree for the world.
fn lay(shipper: &mut Shipper) -> Result<MemoryTree> {
    let mut tree = MemoryTree::new();
    for count in OBSERVED {
        let folder = format!("d{count}");
        let files: Vec<(String, Vec<u8>)> = (0..count)
            .map(|i| (format!("{folder}/file-{i:04}"), format!("content {i} of {count}\n").into_bytes()))
            .collect();
        shipper.lay(&folder, files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())))?;
        tree = files.iter().fold(tree, |tree, (path, bytes)| tree.file(path, bytes));
    }
    Ok(tree)
}

/// Ships a request and takes apart what went through the relay meanwhile: first the request, then the response.
fn exchange(tap: &Tap, shipper: &mut Shipper, request: Request) -> Result<Exchange> {
    let (before, already) = (tap.count(), tap.kept().len());
    shipper.send(request)?;
    let (sent, all) = ((tap.count().sent - before.sent) as usize, tap.kept());
    let bytes = all.get(already..).unwrap_or_default();
    let (request, response) = bytes.split_at(sent.min(bytes.len()));
    let (request_head, response_head) = (head(request)?, head(response)?);
    Ok(Exchange {
        request_head,
        request_body: request.len() - request_head,
        response_head,
        response_body: response.len() - response_head,
    })
}

/// Length of a message's head, the empty line included.
fn head(message: &[u8]) -> Result<usize> {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n");
    end.map(|at| at + 4).ok_or_else(|| BenchError::Failed("a message on the wire has no head".to_owned()))
}
