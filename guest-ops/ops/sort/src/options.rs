//! The command line.

use crate::compare::Rules;
use crate::keys::Definition;
use crate::order::Letters;
use opship_ops_common::args::{Args, Item, Spec, flag, with_optional, with_value};
use std::ffi::OsString;

const VERSION: &str = concat!("sort (opship) ", env!("CARGO_PKG_VERSION"), "\n");

const HELP: &str = "\
Usage: sort [OPTION]... [FILE]...
Write the lines of all FILEs, sorted by the values of their bytes, to standard output.
With no FILE, or when FILE is -, read standard input.

How lines are compared:
  -b, --ignore-leading-blanks  ignore leading blanks
  -d, --dictionary-order       look at blanks, letters and digits only
  -f, --ignore-case            take lower case letters for upper case ones
  -g, --general-numeric-sort   by number, also with exponent, inf and nan
  -i, --ignore-nonprinting     look at printing characters only
  -M, --month-sort             unknown < 'JAN' < ... < 'DEC'
  -h, --human-numeric-sort     by number with unit (2K 1G)
  -n, --numeric-sort           by number
  -r, --reverse                the greatest first
      --sort=WORD              general-numeric, human-numeric, month, numeric, version
  -V, --version-sort           by numbers within text

What else:
  -c, --check                  say whether the input is sorted, and which line is not
  -C, --check=quiet            the same without a word
      --files0-from=F          read the files named in F, each name ended by NUL
  -k, --key=KEYDEF             compare this part; several in turn
  -m, --merge                  merge files that are sorted already
  -o, --output=FILE            write to FILE, which may be one of the inputs
  -s, --stable                 leave lines with equal keys in their order
  -t, --field-separator=SEP    what separates fields, instead of blanks
  -u, --unique                 one of all lines with equal keys; with -c, check for that
  -z, --zero-terminated        lines end with NUL instead of newline
      --help                   show this help
      --version                show the version
Accepted without effect: -S, -T, --batch-size, --compress-program, --parallel.

KEYDEF is F[.C][OPTS][,F[.C][OPTS]]: field and character where the key starts and ends, counted from 1;
an end without character, or with character 0, is the end of the field. OPTS are letters of the options
above (bdfghiMnrV), which then count instead of those for all keys.
Exit status: 0 done, 1 not sorted (with -c or -C), 2 error.
";

const SPECS: &[Spec] = &[
    flag('b', "ignore-leading-blanks"),
    flag('d', "dictionary-order"),
    flag('f', "ignore-case"),
    flag('g', "general-numeric-sort"),
    flag('i', "ignore-nonprinting"),
    flag('M', "month-sort"),
    flag('h', "human-numeric-sort"),
    flag('n', "numeric-sort"),
    flag('R', "random-sort"),
    flag('r', "reverse"),
    with_value(' ', "sort"),
    flag('V', "version-sort"),
    with_optional("check"),
    flag('c', "c"),
    flag('C', "C"),
    with_value(' ', "files0-from"),
    with_value('k', "key"),
    flag('m', "merge"),
    with_value('o', "output"),
    flag('s', "stable"),
    with_value('t', "field-separator"),
    flag('u', "unique"),
    flag('z', "zero-terminated"),
    flag(' ', "help"),
    flag(' ', "version"),
    with_value('S', "buffer-size"),
    with_value('T', "temporary-directory"),
    with_value(' ', "batch-size"),
    with_value(' ', "compress-program"),
    with_value(' ', "parallel"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Sort,
    Merge,
    Check { quiet: bool },
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) rules: Rules,
    pub(crate) files: Vec<OsString>,
    /// A file with the names of the files.
    pub(crate) files_from: Option<OsString>,
    /// None: standard output.
    pub(crate) output: Option<OsString>,
}

pub(crate) enum Command {
    Run(Job),
    Show(&'static str),
}

/// What is gathered from the command line.
#[derive(Default)]
struct Given {
    letters: Letters,
    keys: Vec<Definition>,
    separator: Option<u8>,
    check: Option<bool>,
    merge: bool,
    stable: bool,
    unique: bool,
    zero_terminated: bool,
    output: Option<OsString>,
    files: Vec<OsString>,
    files_from: Option<OsString>,
}

pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut given = Given::default();
    let mut args = Args::new(SPECS, args);
    while let Some(item) = args.next_item().map_err(|e| e.to_string())? {
        match item {
            Item::Operand(file) => given.files.push(file),
            Item::Option("help", _) => return Ok(Command::Show(HELP)),
            Item::Option("version", _) => return Ok(Command::Show(VERSION)),
            Item::Option(name, value) => apply(&mut given, name, value.unwrap_or_default())?,
        }
    }
    job(given).map(Command::Run)
}

fn apply(given: &mut Given, name: &str, value: OsString) -> Result<(), String> {
    let letters = &mut given.letters;
    match name {
        "ignore-leading-blanks" => (letters.blanks_start, letters.blanks_end) = (true, true),
        "dictionary-order" => letters.dictionary = true,
        "ignore-case" => letters.fold = true,
        "general-numeric-sort" => letters.general = true,
        "ignore-nonprinting" => letters.printing = true,
        "month-sort" => letters.month = true,
        "human-numeric-sort" => letters.human = true,
        "numeric-sort" => letters.numeric = true,
        "random-sort" => return Err(no_random_order()),
        "reverse" => letters.reverse = true,
        "sort" => add_word(letters, &value.to_string_lossy())?,
        "version-sort" => letters.version = true,
        "c" => set_check(given, false)?,
        "C" => set_check(given, true)?,
        "check" => match value.to_str() {
            Some("" | "diagnose-first") => set_check(given, false)?,
            Some("quiet" | "silent") => set_check(given, true)?,
            _ => return Err(format!("invalid argument '{}' for '--check'", value.display())),
        },
        "files0-from" => given.files_from = Some(value),
        "key" => given.keys.push(Definition::parse(&value.to_string_lossy())?),
        "merge" => given.merge = true,
        "output" => {
            if given.output.as_ref().is_some_and(|o| *o != value) {
                return Err("multiple output files specified".to_owned());
            }
            given.output = Some(value);
        }
        "stable" => given.stable = true,
        "field-separator" => set_separator(given, &value)?,
        "unique" => given.unique = true,
        "zero-terminated" => given.zero_terminated = true,
        // How memory, processors and temporary files are used is the world's business.
        _ => {}
    }
    Ok(())
}

fn no_random_order() -> String {
    "a random order is not offered: it would not be the same when run again".to_owned()
}

fn add_word(letters: &mut Letters, word: &str) -> Result<(), String> {
    const WORDS: [(&str, u8); 6] = [
        ("general-numeric", b'g'),
        ("human-numeric", b'h'),
        ("month", b'M'),
        ("numeric", b'n'),
        ("random", b'R'),
        ("version", b'V'),
    ];
    let mut fitting = WORDS.iter().filter(|(name, _)| !word.is_empty() && name.starts_with(word));
    match (fitting.next(), fitting.next()) {
        (Some((_, b'R')), None) => Err(no_random_order()),
        (Some((_, letter)), None) => {
            letters.add(*letter);
            Ok(())
        }
        _ => Err(format!("invalid argument '{word}' for '--sort'")),
    }
}

fn set_check(given: &mut Given, quiet: bool) -> Result<(), String> {
    if given.check.is_some_and(|before| before != quiet) {
        return Err("options '-cC' are incompatible".to_owned());
    }
    given.check = Some(quiet);
    Ok(())
}

fn set_separator(given: &mut Given, value: &OsString) -> Result<(), String> {
    let separator = match value.as_encoded_bytes() {
        [] => return Err("empty tab".to_owned()),
        [byte] => *byte,
        b"\\0" => 0,
        _ => return Err(format!("multi-character tab '{}'", value.display())),
    };
    if given.separator.is_some_and(|before| before != separator) {
        return Err("incompatible tabs".to_owned());
    }
    given.separator = Some(separator);
    Ok(())
}

fn job(given: Given) -> Result<Job, String> {
    let letters = given.letters;
    let mut definitions = given.keys;
    // Without keys the whole line is one, unless plain bytes are compared anyway.
    if definitions.is_empty() && !letters.is_default() {
        definitions.push(Definition::whole_line(letters));
    }
    let keys = definitions.into_iter().map(|key| key.resolve(letters)).collect::<Result<_, _>>()?;
    let task = match given.check {
        Some(_) if given.output.is_some() => return Err("options '-co' are incompatible".to_owned()),
        Some(quiet) => Task::Check { quiet },
        None if given.merge => Task::Merge,
        None => Task::Sort,
    };
    let rules = Rules {
        keys,
        separator: given.separator,
        reverse: letters.reverse,
        stable: given.stable,
        unique: given.unique,
        terminator: if given.zero_terminated { 0 } else { b'\n' },
    };
    Ok(Job { task, rules, files: given.files, files_from: given.files_from, output: given.output })
}
