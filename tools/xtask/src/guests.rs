//! `cargo xtask guests`: every module of guest-ops as `target/guests/NAME.wasm`.
//!
//! The modules are the same bytes wherever they are built by the same compiler: locked
//! dependencies, and no path of the machine in them.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::context::{Context, announce};
use crate::error::{Error, Result};
use crate::wasi::Wasi;
use crate::{languages, process, setup, signature};

/// For tests alone: other commands do without it.
const CONFORMANCE: &str = "conform-rust";

/// Sets up and builds, and says what there is.
pub(crate) fn run(context: &Context) -> Result<()> {
    let wasi = setup::step(context)?;
    step(context, &wasi)?;
    languages::step(context, &wasi)?;
    let folder = folder(context);
    for name in built(&folder)? {
        let file = folder.join(&name);
        let metadata = fs::metadata(&file).map_err(Error::io("look at", &file))?;
        println!("{:>9} {}", metadata.len(), file.display());
    }
    Ok(())
}

/// Builds the guests as a timed step of another command.
pub(crate) fn step(context: &Context, wasi: &Wasi) -> Result<()> {
    context.step("guests", || build(context, wasi))
}

/// Builds the conformance guest in Rust.
pub(crate) fn build_conformance(context: &Context, wasi: &Wasi) -> Result<()> {
    let what = "building the conformance guest in Rust";
    build_packages(context, wasi, &["--package", CONFORMANCE], "conform-rust.built-from.txt", what)
}

/// Where all modules are.
pub(crate) fn folder(context: &Context) -> PathBuf {
    context.target.join("guests")
}

fn build(context: &Context, wasi: &Wasi) -> Result<()> {
    let packages = ["--workspace", "--exclude", CONFORMANCE];
    build_packages(context, wasi, &packages, "built-from.txt", "building the guests")
}

/// Builds the packages that cargo's arguments select, unless they are as `stamp` says.
fn build_packages(context: &Context, wasi: &Wasi, packages: &[&str], stamp: &str, what: &str) -> Result<()> {
    let folder = folder(context);
    fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
    // Taken before the build: what is edited while it runs is built by the next one.
    let state = state(context, wasi)?;
    let stamp = folder.join(stamp);
    let before = Stamp::read(&stamp)?;
    if before.is_current(&folder, &state) {
        return Ok(());
    }
    announce(what);
    let modules = compile(context, wasi, packages)?;
    for module in &modules {
        copy_if_changed(module, &folder)?;
    }
    let names: Vec<_> = modules.iter().filter_map(|module| module.file_name()).collect();
    let names: Vec<String> = names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect();
    before.remove_gone(&folder, &names)?;
    let text = format!("{}\n\n{state}", names.join("\n"));
    fs::write(&stamp, text).map_err(Error::io("write", &stamp))
}

/// What the last build left: the names of its modules, an empty line, and the state they were made from.
#[derive(Default)]
struct Stamp {
    modules: Vec<String>,
    state: String,
}

impl Stamp {
    fn read(file: &Path) -> Result<Self> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Error::io("read", file)(error)),
        };
        let Some((names, state)) = text.split_once("\n\n") else { return Ok(Self::default()) };
        Ok(Self { modules: names.lines().map(str::to_owned).collect(), state: state.to_owned() })
    }

    fn is_current(&self, folder: &Path, state: &str) -> bool {
        self.state == state && self.modules.iter().all(|name| folder.join(name).is_file())
    }

    /// Removes the modules that are no longer built.
    fn remove_gone(&self, folder: &Path, modules: &[String]) -> Result<()> {
        for name in self.modules.iter().filter(|name| !modules.contains(name)) {
            let file = folder.join(name);
            if file.is_file() {
                fs::remove_file(&file).map_err(Error::io("remove", &file))?;
            }
        }
        Ok(())
    }
}

/// All that the modules are made from: compiler, flags, sources.
fn state(context: &Context, wasi: &Wasi) -> Result<String> {
    let flags = flags(context, wasi)?.join("\n");
    let sources = signature::of_folder(&context.guest_ops())?;
    Ok(format!("{}\n{flags}\n\n{sources}", wasi.identity()?))
}

fn compile(context: &Context, wasi: &Wasi, packages: &[&str]) -> Result<Vec<PathBuf>> {
    let mut command = context.guest_cargo("guest-build");
    command.args(["build", "--locked", "--release", "--bins"]).args(packages);
    command.args(["--quiet", "--message-format", "json-render-diagnostics"]);
    wasi.configure(&mut command, flags(context, wasi)?);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::Start { program: "cargo".to_owned(), source })?;
    process::check(&command, output.status, String::new)?;
    modules_of(&String::from_utf8_lossy(&output.stdout))
}

/// The executables that cargo's messages name, one message a line.
fn modules_of(messages: &str) -> Result<Vec<PathBuf>> {
    let mut modules = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line)
            .map_err(|error| Error::Output { program: "cargo build", detail: error.to_string() })?;
        let Some(executable) = message.get("executable").and_then(Value::as_str) else {
            continue;
        };
        if executable.ends_with(".wasm") {
            modules.push(PathBuf::from(executable));
        }
    }
    modules.sort();
    Ok(modules)
}

/// Flags that keep the machine's folders out of the modules.
fn flags(context: &Context, wasi: &Wasi) -> Result<Vec<String>> {
    let mut remaps = vec![
        (context.guest_ops(), "/opship/guest-ops"),
        (context.target.join("guest-build"), "/opship/build"),
        (wasi.std_sources(), "/rust"),
    ];
    remaps.extend(registries()?.into_iter().map(|folder| (folder, "/crates")));
    Ok(remaps.into_iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect())
}

/// Where cargo keeps the sources of dependencies: a folder for each registry, whose name depends on
/// the machine's settings. There is one at least, since this program has dependencies too.
fn registries() -> Result<Vec<PathBuf>> {
    let Some(home) = cargo_home() else {
        return Ok(Vec::new());
    };
    let sources = home.join("registry/src");
    let listing = match fs::read_dir(&sources) {
        Ok(listing) => listing,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", &sources)(error)),
    };
    let mut folders = Vec::new();
    for item in listing {
        folders.push(item.map_err(Error::io("list", &sources))?.path());
    }
    folders.sort();
    Ok(folders)
}

fn cargo_home() -> Option<PathBuf> {
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| env::home_dir().map(|home| home.join(".cargo")))
}

/// Copies only other bytes: the host crates that embed a module watch the file.
fn copy_if_changed(module: &Path, folder: &Path) -> Result<()> {
    let Some(name) = module.file_name() else {
        return Ok(());
    };
    let bytes = fs::read(module).map_err(Error::io("read", module))?;
    let file = folder.join(name);
    if fs::read(&file).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    // By renaming, so that a build beside this one never sees half a module.
    let half = folder.join(format!(".{}.{}", name.display(), std::process::id()));
    fs::write(&half, bytes).map_err(Error::io("write", &half))?;
    fs::rename(&half, &file).map_err(Error::io("replace", &file))
}

/// The names of the modules in the folder, sorted.
fn built(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for item in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let name = item.map_err(Error::io("list", folder))?.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".wasm") {
            names.push(name.into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn modules_are_the_wasm_executables_of_the_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","executable":"/t/tar.wasm"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","executable":"/t/gzip.wasm"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let modules = modules_of(messages).unwrap();
        assert_eq!(modules, ["/t/gzip.wasm", "/t/tar.wasm"].map(PathBuf::from));
        assert!(modules_of("not json").is_err());
    }

    #[test]
    fn same_bytes_leave_the_copy_alone() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let module = from.path().join("gzip.wasm");
        fs::write(&module, "one").unwrap();
        copy_if_changed(&module, to.path()).unwrap();
        let copy = to.path().join("gzip.wasm");
        let first = fs::metadata(&copy).unwrap().modified().unwrap();

        copy_if_changed(&module, to.path()).unwrap();
        assert_eq!(fs::metadata(&copy).unwrap().modified().unwrap(), first);

        fs::write(&module, "two").unwrap();
        copy_if_changed(&module, to.path()).unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), "two");
    }

    #[test]
    fn what_the_last_build_made_and_this_one_does_not_goes() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["gzip.wasm", "gone.wasm", "of-another-build.wasm"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        let stamp = folder.path().join("built-from.txt");
        fs::write(&stamp, "gone.wasm\ngzip.wasm\n\nstate").unwrap();
        let before = Stamp::read(&stamp).unwrap();
        before.remove_gone(folder.path(), &["gzip.wasm".to_owned()]).unwrap();
        assert_eq!(built(folder.path()).unwrap(), ["gzip.wasm", "of-another-build.wasm"]);
    }

    #[test]
    fn current_means_same_state_and_every_module_there() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = folder.path().join("built-from.txt");
        let current = |state: &str| Stamp::read(&stamp).unwrap().is_current(folder.path(), state);
        assert!(!current("state"));
        fs::write(&stamp, "gzip.wasm\n\nstate").unwrap();
        assert!(!current("state"));
        fs::write(folder.path().join("gzip.wasm"), "x").unwrap();
        assert!(current("state"));
        assert!(!current("other state"));
    }
}
