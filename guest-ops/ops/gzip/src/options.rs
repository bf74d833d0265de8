//! The command line.

use opship_ops_common::args::{Args, Item, Spec, flag, with_value};
use std::ffi::{OsStr, OsString};
use std::path::Path;

pub(crate) const VERSION: &str = concat!("gzip (opship) ", env!("CARGO_PKG_VERSION"), "\n");

pub(crate) const HELP: &str = "\
Usage: gzip [OPTION]... [FILE]...
Compress or decompress each FILE in its place (by default, compress).

  -c, --stdout      write to standard output, keep the files
  -d, --decompress  decompress
  -f, --force       overwrite an existing output; also treat links and what has several names
  -h, --help        show this help
  -k, --keep        keep the files
  -l, --list        list what compressed files contain
  -n, --no-name     neither save nor restore name and time
  -N, --name        save name and time (default), restore them
  -q, --quiet       no warnings
  -r, --recursive   also treat the files below directories
  -S, --suffix=SUF  suffix of compressed files (default .gz)
  -t, --test        test whether compressed files are whole
  -v, --verbose     say what is done
  -V, --version     show the version
  -1, --fast        compress faster
  -9, --best        compress better (default: -6)

With no FILE, or when FILE is -, standard input is read and standard output written.
Exit status: 0 done, 1 error, 2 warning.
";

const SPECS: &[Spec] = &[
    flag('c', "stdout"),
    flag(' ', "to-stdout"),
    flag('d', "decompress"),
    flag(' ', "uncompress"),
    flag('f', "force"),
    flag('h', "help"),
    flag('k', "keep"),
    flag('l', "list"),
    flag('n', "no-name"),
    flag('N', "name"),
    flag('q', "quiet"),
    flag(' ', "silent"),
    flag('r', "recursive"),
    with_value('S', "suffix"),
    flag('t', "test"),
    flag('v', "verbose"),
    flag('V', "version"),
    flag(' ', "fast"),
    flag(' ', "best"),
    flag('1', "1"),
    flag('2', "2"),
    flag('3', "3"),
    flag('4', "4"),
    flag('5', "5"),
    flag('6', "6"),
    flag('7', "7"),
    flag('8', "8"),
    flag('9', "9"),
];

/// What is done with each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Compress,
    Decompress,
    Test,
    List,
}

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) to_stdout: bool,
    pub(crate) force: bool,
    pub(crate) keep: bool,
    /// Whether name and time are saved or restored; not said: saved, but not restored.
    pub(crate) name: Option<bool>,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) recursive: bool,
    pub(crate) suffix: Vec<u8>,
    pub(crate) level: u32,
}

impl Options {
    /// Whether no file takes the place of another.
    pub(crate) fn leaves_files(&self) -> bool {
        self.to_stdout || matches!(self.mode, Mode::Test | Mode::List)
    }
}

pub(crate) enum Command {
    Run(Options, Vec<OsString>),
    Help,
    Version,
}

pub(crate) fn parse(program: &OsStr, args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut options = for_program(program);
    let mut operands = Vec::new();
    let mut args = Args::new(SPECS, args);
    while let Some(item) = args.next_item().map_err(|e| e.to_string())? {
        match item {
            Item::Operand(operand) => operands.push(operand),
            Item::Option("help", _) => return Ok(Command::Help),
            Item::Option("version", _) => return Ok(Command::Version),
            Item::Option(name, value) => apply(&mut options, name, value.unwrap_or_default())?,
        }
    }
    Ok(Command::Run(options, operands))
}

/// The defaults, by the name that the program was called by.
fn for_program(program: &OsStr) -> Options {
    let name = Path::new(program).file_stem().unwrap_or_default();
    let cat = name == "zcat" || name == "gzcat";
    let decompress = cat || name == "gunzip";
    Options {
        mode: if decompress { Mode::Decompress } else { Mode::Compress },
        to_stdout: cat,
        force: false,
        keep: false,
        name: None,
        quiet: false,
        verbose: false,
        recursive: false,
        suffix: b".gz".to_vec(),
        level: 6,
    }
}

fn apply(options: &mut Options, name: &str, value: OsString) -> Result<(), String> {
    match name {
        "stdout" | "to-stdout" => options.to_stdout = true,
        "decompress" | "uncompress" => set_mode(options, Mode::Decompress),
        "test" => set_mode(options, Mode::Test),
        "list" => set_mode(options, Mode::List),
        "force" => options.force = true,
        "keep" => options.keep = true,
        "no-name" => options.name = Some(false),
        "name" => options.name = Some(true),
        "quiet" | "silent" => (options.quiet, options.verbose) = (true, false),
        "verbose" => (options.quiet, options.verbose) = (false, true),
        "recursive" => options.recursive = true,
        "suffix" => options.suffix = suffix(value)?,
        "fast" => options.level = 1,
        "best" => options.level = 9,
        level => options.level = level.parse().map_err(|_| format!("invalid level {level}"))?,
    }
    Ok(())
}

/// Listing wins over testing, testing over decompressing, in any order.
fn set_mode(options: &mut Options, mode: Mode) {
    if mode as u8 > options.mode as u8 {
        options.mode = mode;
    }
}

fn suffix(value: OsString) -> Result<Vec<u8>, String> {
    let bytes = value.as_encoded_bytes();
    if bytes.is_empty() || bytes.contains(&b'/') {
        return Err(format!("invalid suffix '{}'", value.to_string_lossy()));
    }
    Ok(bytes.to_vec())
}
