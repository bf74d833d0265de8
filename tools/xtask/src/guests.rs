//! `cargo xtask guests`: every binary of guest-ops as `target/guests/NAME.wasm`.
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
use crate::{process, setup, signature};

/// Sets up and builds, and says what there is.
pub(crate) fn run(context: &Context) -> Result<()> {
    let wasi = setup::step(context)?;
    step(context, &wasi)?;
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

fn folder(context: &Context) -> PathBuf {
    context.target.join("guests")
}

fn build(context: &Context, wasi: &Wasi) -> Result<()> {
    let folder = folder(context);
    fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
    // Taken before the build: what is edited while it runs is built by the next one.
    let state = state(context, wasi)?;
    let stamp = folder.join("built-from.txt");
    if is_current(&folder, &stamp, &state)? {
        return Ok(());
    }
    announce("building the guests");
    let modules = compile(context, wasi)?;
    for module in &modules {
        copy_if_changed(module, &folder)?;
    }
    remove_others(&folder, &modules)?;
    let names = modules.iter().filter_map(|module| module.file_name());
    let listed: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    let text = format!("{}\n\n{state}", listed.join("\n"));
    fs::write(&stamp, text).map_err(Error::io("write", &stamp))
}

/// All that the modules are made from: compiler, flags, sources.
fn state(context: &Context, wasi: &Wasi) -> Result<String> {
    let flags = flags(context, wasi)?.join("\n");
    let sources = signature::of_folder(&context.guest_ops())?;
    Ok(format!("{}\n{flags}\n\n{sources}", wasi.identity()?))
}

/// The stamp is the names of the modules, an empty line, and the state they were made from.
fn is_current(folder: &Path, stamp: &Path, state: &str) -> Result<bool> {
    let text = match fs::read_to_string(stamp) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io("read", stamp)(error)),
    };
    let Some((names, from)) = text.split_once("\n\n") else {
        return Ok(false);
    };
    Ok(from == state && names.lines().all(|name| folder.join(name).is_file()))
}

fn compile(context: &Context, wasi: &Wasi) -> Result<Vec<PathBuf>> {
    let mut command = context.guest_cargo("guest-build");
    command.args(["build", "--locked", "--release", "--workspace", "--bins"]);
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

fn remove_others(folder: &Path, modules: &[PathBuf]) -> Result<()> {
    for name in built(folder)? {
        let named = |module: &PathBuf| module.file_name().is_some_and(|file| file == name.as_str());
        if modules.iter().any(named) {
            continue;
        }
        let file = folder.join(&name);
        fs::remove_file(&file).map_err(Error::io("remove", &file))?;
    }
    Ok(())
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
    fn same_bytes_leave_the_copy_alone_and_strangers_go() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let module = from.path().join("gzip.wasm");
        fs::write(&module, "one").unwrap();
        copy_if_changed(&module, to.path()).unwrap();
        let copy = to.path().join("gzip.wasm");
        let first = fs::metadata(&copy).unwrap().modified().unwrap();

        copy_if_changed(&module, to.path()).unwrap();
        assert_eq!(fs::metadata(&copy).unwrap().modified().unwrap(), first);

        fs::write(&module, "two").unwrap();
        fs::write(to.path().join("gone.wasm"), "old").unwrap();
        copy_if_changed(&module, to.path()).unwrap();
        remove_others(to.path(), &[module]).unwrap();
        assert_eq!(built(to.path()).unwrap(), ["gzip.wasm"]);
        assert_eq!(fs::read_to_string(&copy).unwrap(), "two");
    }

    #[test]
    fn current_means_same_state_and_every_module_there() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = folder.path().join("built-from.txt");
        let current = |state: &str| is_current(folder.path(), &stamp, state).unwrap();
        assert!(!current("state"));
        fs::write(&stamp, "gzip.wasm\n\nstate").unwrap();
        assert!(!current("state"));
        fs::write(folder.path().join("gzip.wasm"), "x").unwrap();
        assert!(current("state"));
        assert!(!current("other state"));
    }
}
