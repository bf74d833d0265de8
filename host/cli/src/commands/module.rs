//! `opship module add|list|show|remove`.

use super::{book, here, run, wait};
use crate::args::Module;
use crate::output;
use opship_client::modules::{ModuleBook, ModuleChoice};
use opship_client::net::{ModuleDescription, MountDescription};
use opship_client::sync::api_for;
use opship_client::{ClientError, WorkingCopy};
use opship_record::Hash;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(super) fn module(command: Module, json: bool) -> Result<(), ClientError> {
    let copy = here()?;
    let mut book = book(&copy)?;
    match command {
        // Needs no working copy, so it is dispatched on its own.
        Module::Check(_) => Ok(()),
        Module::Add { file, name, mounts, argv0 } => add(&copy, &mut book, &file, name, &mounts, argv0, json),
        Module::List => list(&copy, &mut book, json),
        Module::Show { name } => show(&copy, &book, &name, json),
        Module::Remove { name, dry_run } => remove(&copy, &mut book, &name, dry_run, json),
    }
}

fn add(
    copy: &WorkingCopy,
    book: &mut ModuleBook,
    file: &Path,
    name: String,
    mounts: &[OsString],
    argv0: Option<String>,
    json: bool,
) -> Result<(), ClientError> {
    let bytes = std::fs::read(file).map_err(ClientError::io(format!("reading '{}'", file.display())))?;
    run::engine()?.inspect(&bytes).map_err(|error| ClientError::Refused(error.to_string()))?;
    let mut described = Vec::new();
    for mount in mounts {
        let (path, folder) = parse_mount(mount)?;
        described.push(MountDescription { path, tree: book.mounts().import(&folder)?.to_string() });
    }
    described.sort_by(|a, b| a.path.cmp(&b.path));
    let hash = book.keep(&bytes)?;
    let module = ModuleDescription {
        name,
        hash: hash.to_string(),
        length: bytes.len() as u64,
        mounts: described,
        argv0,
        standard: false,
        registered: false,
    };
    book.pin(module.clone())?;
    let registered = register(copy, book, &module)?;
    if json {
        output::json(
            &json!({ "name": module.name, "hash": module.hash, "mounts": module.mounts, "registered": registered }),
        );
    } else {
        output::line(&format!("{} is {} ({})", module.name, hash.short(), output::bytes(module.length)));
        if !registered {
            output::note("the server was not reached; it gets the module with the next 'opship sync'");
        }
    }
    Ok(())
}

/// Tells the server, if it can be reached.
fn register(copy: &WorkingCopy, book: &mut ModuleBook, module: &ModuleDescription) -> Result<bool, ClientError> {
    match wait(async { book.register(&mut api_for(copy)?, module).await }) {
        Ok(()) => {
            book.mark_registered(&module.name)?;
            Ok(true)
        }
        Err(ClientError::Unreachable { .. } | ClientError::Connection { .. }) => Ok(false),
        Err(error) => {
            book.unpin(&module.name)?;
            Err(error)
        }
    }
}

/// `/PATH=DIR`.
fn parse_mount(mount: &OsStr) -> Result<(String, PathBuf), ClientError> {
    let refused = || ClientError::Refused(format!("'{}' is no mount; write /PATH=DIR", mount.display()));
    let bytes = mount.as_bytes();
    let at = bytes.iter().position(|b| *b == b'=').ok_or_else(refused)?;
    let path = bytes[..at].strip_prefix(b"/").ok_or_else(refused)?;
    let path = opship_record::TreePath::from_bytes(path).map_err(|error| ClientError::Refused(error.to_string()))?;
    if path.is_root() || at + 1 == bytes.len() {
        return Err(refused());
    }
    Ok((path.as_str().to_owned(), PathBuf::from(OsStr::from_bytes(&bytes[at + 1..]))))
}

fn list(copy: &WorkingCopy, book: &mut ModuleBook, json: bool) -> Result<(), ClientError> {
    match wait(async { api_for(copy)?.modules().await }) {
        Ok(modules) => {
            for name in book.learn(modules)? {
                output::note(&format!(
                    "the server has another '{name}' than the one pinned here; 'opship module remove {name}' takes it over"
                ));
            }
        }
        Err(error) => output::note(&format!("what is known here only: {error}")),
    }
    let modules = book.known();
    if json {
        output::json(&json!({ "modules": modules }));
        return Ok(());
    }
    let mut rows = vec![["name", "hash", "size", "mounts", ""].map(str::to_owned).to_vec()];
    for module in &modules {
        let mounts: Vec<String> = module.mounts.iter().map(|mount| format!("/{}", mount.path)).collect();
        let origin = if module.standard { "standard" } else { "workspace" };
        rows.push(vec![
            module.name.clone(),
            short(&module.hash),
            output::bytes(module.length),
            mounts.join(" "),
            origin.to_owned(),
        ]);
    }
    output::table(&rows, &[2]);
    Ok(())
}

fn short(hash: &str) -> String {
    hash.parse::<Hash>().map(|hash| hash.short()).unwrap_or_default()
}

fn show(copy: &WorkingCopy, book: &ModuleBook, name: &str, json: bool) -> Result<(), ClientError> {
    let choice = run::choose_named(copy, book, name)?.ok_or_else(|| unknown(name))?;
    let bytes = book.bytes(&choice.hash)?.ok_or_else(|| unknown(name))?;
    let info = run::engine()?.inspect(&bytes).map_err(|error| ClientError::Refused(error.to_string()))?;
    let imports: Vec<String> = info.imports.iter().map(|(module, name)| format!("{module}.{name}")).collect();
    let ModuleChoice { hash, argv0, mounts, .. } = &choice;
    if json {
        let mounts: Vec<_> =
            mounts.iter().map(|(path, tree)| json!({ "path": path.as_str(), "tree": tree.to_string() })).collect();
        output::json(&json!({
            "name": choice.name, "hash": hash.to_string(), "length": bytes.len(), "argv0": argv0, "mounts": mounts, "imports": imports,
        }));
        return Ok(());
    }
    output::line(&format!("{}: {hash}, {}", choice.name, output::bytes(bytes.len() as u64)));
    output::line(&format!("  called as {argv0}"));
    for (path, tree) in mounts {
        output::line(&format!("  mount /{path}: tree {}", tree.short()));
    }
    output::line(&format!("  imports {}", imports.join(", ")));
    Ok(())
}

pub(super) fn unknown(name: &str) -> ClientError {
    ClientError::Refused(format!(
        "no module '{name}'; 'opship module list' shows those that can be named, 'opship module add FILE --name {name}' registers one"
    ))
}

fn remove(copy: &WorkingCopy, book: &mut ModuleBook, name: &str, dry_run: bool, json: bool) -> Result<(), ClientError> {
    match book.known().iter().find(|module| module.name == name) {
        None => return Err(unknown(name)),
        Some(module) if module.standard => {
            return Err(ClientError::Refused(format!("'{name}' is a standard operation, which belongs to the server")));
        }
        Some(_) => {}
    }
    if !dry_run {
        match wait(async { api_for(copy)?.remove_module(name).await }) {
            Ok(()) | Err(ClientError::Problem { status: 404, .. }) => drop(book.unpin(name)?),
            Err(error) => return Err(error),
        }
    }
    if json {
        output::json(&json!({ "name": name, "removed": !dry_run }));
    } else {
        output::line(&format!(
            "'{name}' {} a name no more; entries that used it stay",
            if dry_run { "would be" } else { "is" }
        ));
    }
    Ok(())
}
