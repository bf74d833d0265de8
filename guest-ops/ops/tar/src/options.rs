//! The command line, in the new style (`-c -f A`) and the old (`cf A`).

use crate::usage::{HELP, SPECS, VERSION};
use opship_guest::files;
use opship_ops_common::args::{Args, Item, Value};
use opship_ops_common::{date, reason};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Create,
    List,
    Extract,
}

/// What becomes of a file that is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Keep,
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Gnu,
    Pax,
}

/// A name on the command line, and the directory that it is relative to.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) base: PathBuf,
    pub(crate) name: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    /// None: standard output or input.
    pub(crate) archive: Option<PathBuf>,
    pub(crate) names: Vec<Named>,
    /// The directory of members that no name stands for.
    pub(crate) base: PathBuf,
    pub(crate) exclude: Vec<Vec<u8>>,
    pub(crate) verbose: u32,
    pub(crate) gzip: bool,
    pub(crate) dereference: bool,
    pub(crate) recursion: bool,
    /// Seconds since 1970 for all members.
    pub(crate) mtime: Option<i64>,
    pub(crate) format: Format,
    pub(crate) existing: Existing,
    pub(crate) touch: bool,
    pub(crate) to_stdout: bool,
    pub(crate) all_permissions: bool,
    pub(crate) strip: usize,
    pub(crate) wildcards: bool,
    pub(crate) ignore_zeros: bool,
    pub(crate) absolute_names: bool,
}

impl Job {
    /// Whether standard output carries the archive or contents.
    pub(crate) fn stdout_is_data(&self) -> bool {
        self.to_stdout || (self.task == Task::Create && self.archive.is_none())
    }
}

#[derive(Debug)]
pub(crate) enum Command {
    Run(Box<Job>),
    Show(&'static str),
}

/// What is still being gathered.
struct Parsing {
    job: Job,
    task: Option<Task>,
    null: bool,
    auto_compress: bool,
    from_files: bool,
}

pub(crate) fn parse(args: Vec<OsString>) -> Result<Command, String> {
    let mut parsing = Parsing::new();
    let mut args = Args::new(SPECS, new_style(args)?);
    let mut lists = Vec::new();
    while let Some(item) = args.next_item().map_err(|e| e.to_string())? {
        match item {
            Item::Operand(name) => parsing.name(name.into_encoded_bytes()),
            Item::Option("help", _) => return Ok(Command::Show(HELP)),
            Item::Option("version", _) => return Ok(Command::Show(VERSION)),
            Item::Option("files-from", list) => {
                // Read at the end, when `--null` is known; the names go where the option stands.
                lists.push((parsing.job.names.len(), parsing.job.base.clone(), list.unwrap_or_default()));
            }
            Item::Option(name, value) => parsing.apply(name, value.unwrap_or_default())?,
        }
    }
    for (at, base, list) in lists.into_iter().rev() {
        parsing.insert_list(at, &base, &list)?;
    }
    parsing.finish().map(|job| Command::Run(Box::new(job)))
}

/// Turns a first argument without a dash into options, whose values follow in their order.
fn new_style(args: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let mut args = args.into_iter();
    let Some(bundle) = args.next() else {
        return Ok(Vec::new());
    };
    let letters = bundle.as_encoded_bytes();
    if letters.starts_with(b"-") {
        return Ok(std::iter::once(bundle).chain(args).collect());
    }
    let mut result = Vec::new();
    for &letter in letters {
        result.push(OsString::from(format!("-{}", char::from(letter))));
        if SPECS.iter().any(|s| s.short == Some(letter) && s.value == Value::Required) {
            let missing = || format!("Old option '{}' requires an argument.", char::from(letter));
            result.push(args.next().ok_or_else(missing)?);
        }
    }
    Ok(result.into_iter().chain(args).collect())
}

fn lines(file: &Path, end: u8) -> Result<Vec<Vec<u8>>, String> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    let bytes = bytes.map_err(|e| format!("{}: Cannot open: {}", file.display(), reason(&e)))?;
    Ok(bytes.split(|&b| b == end).filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect())
}

impl Parsing {
    fn new() -> Self {
        let job = Job {
            task: Task::List,
            archive: None,
            names: Vec::new(),
            base: PathBuf::new(),
            exclude: Vec::new(),
            verbose: 0,
            gzip: false,
            dereference: false,
            recursion: true,
            mtime: None,
            format: Format::Gnu,
            existing: Existing::Replace,
            touch: false,
            to_stdout: false,
            all_permissions: false,
            strip: 0,
            wildcards: false,
            ignore_zeros: false,
            absolute_names: false,
        };
        Self { job, task: None, null: false, auto_compress: false, from_files: false }
    }

    fn name(&mut self, name: Vec<u8>) {
        self.job.names.push(Named { base: self.job.base.clone(), name });
    }

    fn insert_list(&mut self, at: usize, base: &Path, list: &OsString) -> Result<(), String> {
        let names = lines(Path::new(list), if self.null { 0 } else { b'\n' })?;
        let named = names.into_iter().map(|name| Named { base: base.to_owned(), name });
        self.job.names.splice(at..at, named);
        self.from_files = true;
        Ok(())
    }

    fn apply(&mut self, name: &str, value: OsString) -> Result<(), String> {
        match name {
            "create" => self.set_task(Task::Create),
            "list" => self.set_task(Task::List),
            "extract" | "get" => self.set_task(Task::Extract),
            "catenate" | "concatenate" | "append" | "update" | "diff" | "compare" | "delete" => {
                Err(format!("--{name} is not offered: create the archive anew with -c"))
            }
            "bzip2" | "xz" | "zstd" => Err(format!("--{name} is not offered: use -z")),
            "file" => {
                self.job.archive = (value != "-").then(|| PathBuf::from(value));
                Ok(())
            }
            "directory" => {
                self.job.base.push(value);
                Ok(())
            }
            "exclude" => {
                self.job.exclude.push(value.into_encoded_bytes());
                Ok(())
            }
            "exclude-from" => {
                self.job.exclude.extend(lines(Path::new(&value), b'\n')?);
                Ok(())
            }
            "mtime" => {
                self.job.mtime = Some(time(&value.to_string_lossy())?);
                Ok(())
            }
            "format" => self.set_format(&value.to_string_lossy()),
            "strip-components" => {
                let text = value.to_string_lossy();
                self.job.strip = text.parse().map_err(|_| format!("'{text}': Invalid number of elements"))?;
                Ok(())
            }
            "sort" | "owner" | "group" => fixed(name, &value.to_string_lossy()),
            _ => {
                self.switch(name);
                Ok(())
            }
        }
    }

    /// Options that are on or off.
    fn switch(&mut self, name: &str) {
        let job = &mut self.job;
        match name {
            "verbose" => job.verbose += 1,
            "gzip" | "gunzip" | "ungzip" => job.gzip = true,
            "auto-compress" => self.auto_compress = true,
            "null" => self.null = true,
            "dereference" => job.dereference = true,
            "no-recursion" => job.recursion = false,
            "posix" => job.format = Format::Pax,
            "keep-old-files" => job.existing = Existing::Keep,
            "skip-old-files" => job.existing = Existing::Skip,
            "touch" => job.touch = true,
            "to-stdout" => job.to_stdout = true,
            "preserve-permissions" | "same-permissions" => job.all_permissions = true,
            "no-same-permissions" => job.all_permissions = false,
            "wildcards" => job.wildcards = true,
            "ignore-zeros" => job.ignore_zeros = true,
            "absolute-names" => job.absolute_names = true,
            // What is the rule here anyway, or has no meaning in a world without owners, tapes and holes.
            _ => {}
        }
    }

    fn set_task(&mut self, task: Task) -> Result<(), String> {
        if self.task.is_some_and(|before| before != task) {
            return Err("You may not specify more than one of '-c', '-t' and '-x'".to_owned());
        }
        self.task = Some(task);
        Ok(())
    }

    fn set_format(&mut self, name: &str) -> Result<(), String> {
        self.job.format = match name {
            "gnu" | "oldgnu" => Format::Gnu,
            "pax" | "posix" => Format::Pax,
            _ => return Err(format!("'{name}': Invalid archive format; gnu and pax are offered")),
        };
        Ok(())
    }

    fn finish(mut self) -> Result<Job, String> {
        let missing = || "You must specify one of '-c', '-t' and '-x'".to_owned();
        self.job.task = self.task.ok_or_else(missing)?;
        if self.job.task == Task::Create && self.job.names.is_empty() && !self.from_files {
            return Err("Cowardly refusing to create an empty archive".to_owned());
        }
        if self.auto_compress
            && let Some(archive) = &self.job.archive
        {
            let name = archive.as_os_str().as_encoded_bytes();
            self.job.gzip |= name.ends_with(b".gz") || name.ends_with(b".tgz");
        }
        Ok(self.job)
    }
}

/// Options that have one value here; told rather than ignored if it is another.
fn fixed(option: &str, value: &str) -> Result<(), String> {
    let allowed: &[&str] = match option {
        "sort" => &["name"],
        _ => &["0", "root", ":0", "root:0", "0:0"],
    };
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(format!("--{option}={value} is not offered: only --{option}={}", allowed[0]))
}

/// A date, or a file whose time is meant: those begin with `/` or `.`.
fn time(text: &str) -> Result<i64, String> {
    if text.starts_with(['/', '.']) {
        let meta = files::stat(text).map_err(|e| format!("{text}: Cannot stat: {}", reason(&e)))?;
        return Ok(meta.mtime.seconds);
    }
    let invalid = || format!("'{text}': Unknown date format; use @SECONDS or YYYY-MM-DD HH:MM:SS");
    date::parse(text).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn job(line: &str) -> Job {
        match parse(line.split(' ').map(OsString::from).collect()) {
            Ok(Command::Run(job)) => *job,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn old_and_new_style_say_the_same() {
        for line in ["cvfC a.tar d x", "-cvf a.tar -C d x", "-c --file=a.tar -v --directory d x", "cfvC a.tar d x"] {
            let job = job(line);
            assert_eq!((job.task, job.verbose), (Task::Create, 1), "{line}");
            assert_eq!(job.archive.as_deref(), Some(Path::new("a.tar")), "{line}");
            assert_eq!((&job.names[0].base, &job.names[0].name[..]), (&PathBuf::from("d"), &b"x"[..]), "{line}");
        }
    }

    #[test]
    fn a_directory_counts_for_the_names_after_it() {
        let job = job("-c a -C d b -C e c");
        let bases: Vec<_> = job.names.iter().map(|n| n.base.to_str().unwrap().to_owned()).collect();
        assert_eq!(bases, ["", "d", "d/e"]);
    }

    #[test]
    fn what_is_not_offered_is_said() {
        for line in ["-c", "-f a", "-ct a", "-r a", "-cj a", "-c --sort=inode a", "-c --mtime=later a", "cf", "-Q"] {
            assert!(parse(line.split(' ').map(OsString::from).collect()).is_err(), "{line}");
        }
    }
}
