//! Each standard operation in the world against the same code built for this machine.

use crate::error::{BenchError, Result};
use crate::place::{Place, succeed};
use crate::recorder::{Call, Module, Recorder};
use crate::report::{Cell, Report, Table};
use crate::stats::{Times, repeat, timed};
use crate::text;
use opship_engine::LoadedFrom;
use opship_record::TreePath;
use opship_world::{MemoryTree, Outcome};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the text.
const TEXT_BYTES: usize = 8 << 20;
/// How often the repository's tree stands in the tree that tar packs.
const COPIES: usize = 4;
/// Runs that a median is of.
const RUNS: usize = 11;
/// Runs with compiling, which takes long.
const COLD_RUNS: usize = 3;

/// One operation, and the file that it makes.
struct Operation {
    name: &'static str,
    arguments: &'static [&'static str],
    output: &'static str,
}

const OPERATIONS: [Operation; 3] = [
    Operation { name: "gzip", arguments: &["gzip", "-k", "-n", "text"], output: "text.gz" },
    Operation {
        name: "tar",
        // Directories have no times in the world.
        arguments: &["tar", "-c", "-f", "tree.tar", "--mtime=@1700000000", "tree"],
        output: "tree.tar",
    },
    Operation { name: "sort", arguments: &["sort", "-o", "text.sorted", "text"], output: "text.sorted" },
];

/// Input, the same on disk and in memory.
struct Input {
    tree: Arc<MemoryTree>,
    text_bytes: usize,
    files: usize,
    file_bytes: usize,
}

/// Measures all and adds the table.
pub(super) fn measure(place: &Place, files: &[(String, Vec<u8>)], report: &mut Report) -> Result<()> {
    let folder = place.path("input");
    let input = lay(&folder, files)?;
    let columns = ["operation", "native ms", "cold ms", "from disk ms", "warm ms", "warm / native"];
    let mut table = Table::new("Standard operations: in the world against the same code built natively", &columns);
    for operation in &OPERATIONS {
        let [native, cold, disk, warm] = operation.measure(place, &folder, &input)?;
        table.row(operation.name, [native, cold, disk, warm, warm / native].map(Cell::fine));
    }
    table.note(format!(
        "gzip and sort: {} bytes of the repository's text; tar: {} files, {} bytes.",
        input.text_bytes, input.files, input.file_bytes
    ));
    table.note("native: a process, from its start to its end. cold: a new engine compiles the module (in a child process) and runs it;");
    table.note("from disk: a new engine takes it from its cache of compiled modules; warm: the module is loaded. All outputs are the same bytes.");
    report.table(table);
    Ok(())
}

/// Puts the input into a folder and into a tree of the world.
fn lay(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<Input> {
    let mut all = vec![("text".to_owned(), text::joined(files, TEXT_BYTES))];
    for copy in 0..COPIES {
        all.extend(files.iter().map(|(path, bytes)| (format!("tree/{copy}/{path}"), bytes.clone())));
    }
    let mut tree = MemoryTree::new();
    for (path, bytes) in &all {
        let file = folder.join(path);
        let write = || {
            fs::create_dir_all(file.parent().unwrap_or(folder))?;
            fs::write(&file, bytes)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644))
        };
        write().map_err(BenchError::io(format!("write '{}'", file.display())))?;
        tree = tree.file(path, bytes);
    }
    set_directory_modes(&folder.join("tree")).map_err(BenchError::io("set the modes of folders"))?;
    let file_bytes = all[1..].iter().map(|(_, bytes)| bytes.len()).sum();
    Ok(Input { tree: Arc::new(tree), text_bytes: TEXT_BYTES, files: all.len() - 1, file_bytes })
}

/// As the world has them, whatever the caller's umask is.
fn set_directory_modes(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for item in fs::read_dir(folder)? {
        let item = item?;
        if item.file_type()?.is_dir() {
            set_directory_modes(&item.path())?;
        }
    }
    Ok(())
}

impl Operation {
    /// Median milliseconds: native, cold, from disk, warm.
    fn measure(&self, place: &Place, folder: &Path, input: &Input) -> Result<[f64; 4]> {
        let module = Module::guest(place, self.name)?;
        let call = Call { arguments: self.arguments, stdout: None, number: 0 };
        let start_with = |cache: String, wanted: LoadedFrom| {
            let mut recorder = Recorder::new(place, place.path(&cache))?;
            let from = recorder.load(&module)?;
            if from != wanted {
                return Err(BenchError::Failed(format!("{} came from {from:?}, not {wanted:?}", self.name)));
            }
            recorder.run(&module, call, &input.tree)
        };
        let cache = |run: usize| Ok(format!("cache-{}-{run}", self.name));
        let cold = repeat(COLD_RUNS, cache, |cache| start_with(cache, LoadedFrom::Compiled))?;
        let mut recorder = Recorder::new(place, place.path(&cache(0)?))?;
        recorder.load(&module)?;
        let (mut native, mut disk, mut warm) = (Vec::new(), Vec::new(), Vec::new());
        // By turns, so that what else the machine does meets all three.
        for _ in 0..RUNS {
            native.push(self.native(place, folder)?);
            disk.push(timed(|| start_with(cache(0)?, LoadedFrom::Disk))?);
            warm.push(timed(|| recorder.run(&module, call, &input.tree))?);
        }
        self.compare(folder, &recorder.run(&module, call, &input.tree)?)?;
        Ok([Times::new(native).median(), cold.median(), Times::new(disk).median(), Times::new(warm).median()])
    }

    /// Time of the native program, which makes its output anew.
    fn native(&self, place: &Place, folder: &Path) -> Result<Duration> {
        let output = folder.join(self.output);
        match fs::remove_file(&output) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(BenchError::io("remove an output")(error)),
            _ => {}
        }
        let mut command = Command::new(place.native(self.name));
        command.args(&self.arguments[1..]).current_dir(folder).stdin(Stdio::null());
        timed(|| succeed(&mut command))
    }

    /// The native program's output and the module's must be the same bytes.
    fn compare(&self, folder: &Path, outcome: &Outcome) -> Result<()> {
        let native = fs::read(folder.join(self.output)).map_err(BenchError::io(format!("read {}", self.output)))?;
        let mut made = Vec::new();
        if let Some(file) = outcome.files.get(&TreePath::new(self.output)?) {
            file.copy_to(&mut made).map_err(BenchError::io("read what a module wrote"))?;
        }
        if made == native {
            return Ok(());
        }
        Err(BenchError::Failed(format!("{}: module and native program make different bytes", self.name)))
    }
}
