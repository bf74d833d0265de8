//! `opship shims`.

use crate::args::Shims;
use crate::native::{ShimPlace, is_shim_name};
use crate::output;
use opship_client::ClientError;
use opship_client::budget::UserConfig;
use serde_json::json;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub(super) fn shims(command: &Shims, json: bool) -> Result<(), ClientError> {
    match command {
        Shims::Enable { names, dry_run } => enable(names, *dry_run, json),
        Shims::Disable { names, dry_run } => disable(names, *dry_run, json),
        Shims::List {} => list(json),
    }
}

fn folder() -> Result<PathBuf, ClientError> {
    let homeless = || ClientError::Refused("shims need a home folder: set HOME or XDG_DATA_HOME".to_owned());
    ShimPlace::of_user().shims.ok_or_else(homeless)
}

fn enable(names: &[String], dry_run: bool, json: bool) -> Result<(), ClientError> {
    let folder = folder()?;
    let program = std::env::current_exe().map_err(ClientError::io("finding this program"))?;
    for name in names {
        if !is_shim_name(name) {
            return Err(ClientError::Refused(format!("'{name}' cannot be a shim; give the plain name of a program")));
        }
        if !is_free_or_ours(&folder.join(name)) {
            let file = folder.join(name);
            return Err(ClientError::Refused(format!("'{}' is no shim of opship's; move it away", file.display())));
        }
    }
    if !dry_run {
        let failed = || ClientError::io(format!("making shims in '{}'", folder.display()));
        std::fs::create_dir_all(&folder).map_err(failed())?;
        for name in names {
            link(&program, &folder, name).map_err(failed())?;
        }
    }
    report("enabled", names, &folder, dry_run, json);
    if !json && !is_in_front(&folder) {
        output::line("put the shims in front of PATH, here and in your shell's start file:");
        output::line(&format!("  export PATH='{}':\"$PATH\"", folder.display().to_string().replace('\'', "'\\''")));
    }
    Ok(())
}

/// A new link in the place of an older one: nobody finds none meanwhile.
fn link(program: &Path, folder: &Path, name: &str) -> std::io::Result<()> {
    let new = folder.join(format!(".{name}.{}", std::process::id()));
    std::os::unix::fs::symlink(program, &new)?;
    std::fs::rename(&new, folder.join(name)).inspect_err(|_| drop(std::fs::remove_file(&new)))
}

fn is_free_or_ours(file: &Path) -> bool {
    match std::fs::symlink_metadata(file) {
        Ok(found) => found.is_symlink(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

fn disable(names: &[String], dry_run: bool, json: bool) -> Result<(), ClientError> {
    let folder = folder()?;
    let enabled = enabled(&folder)?;
    for name in names {
        if !enabled.contains(name) {
            let next = "'opship shims list' shows those that are";
            return Err(ClientError::Refused(format!("there is no shim '{name}'; {next}")));
        }
    }
    for name in names.iter().filter(|_| !dry_run) {
        let file = folder.join(name);
        std::fs::remove_file(&file).map_err(ClientError::io(format!("removing '{}'", file.display())))?;
    }
    report("disabled", names, &folder, dry_run, json);
    Ok(())
}

fn report(what: &str, names: &[String], folder: &Path, dry_run: bool, json: bool) {
    if json {
        return output::json(&json!({ what: names, "folder": folder, "done": !dry_run }));
    }
    let verb = if dry_run { "would be" } else { "is" };
    for name in names {
        output::line(&format!("{} {verb} {what}", output::name(name)));
    }
}

/// The names of the shims.
fn enabled(folder: &Path) -> Result<Vec<String>, ClientError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ClientError::io(format!("reading '{}'", folder.display()))(error)),
    };
    let links = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let mut names: Vec<String> = links.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| is_shim_name(name));
    names.sort();
    Ok(names)
}

/// Is the folder the first of `PATH`?
fn is_in_front(folder: &Path) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).next().as_deref() == Some(folder))
}

fn list(json: bool) -> Result<(), ClientError> {
    let folder = folder()?;
    let config = UserConfig::of_user()?;
    let (names, in_front) = (enabled(&folder)?, is_in_front(&folder));
    let place = ShimPlace::of_user();
    let shown = |name: &String| {
        let mapping = config.native.get(name).cloned().unwrap_or_default();
        let wanted = mapping.program.clone().unwrap_or_else(|| name.into());
        (mapping.module.unwrap_or_else(|| name.clone()), crate::native::find(&wanted, &place))
    };
    if json {
        let shims = names.iter().map(|name| {
            let (module, program) = shown(name);
            json!({ "name": name, "program": program, "module": module })
        });
        output::json(&json!({ "folder": folder, "first_in_path": in_front, "shims": shims.collect::<Vec<_>>() }));
        return Ok(());
    }
    if names.is_empty() {
        output::line("no shims; 'opship shims enable NAME' makes one");
        return Ok(());
    }
    let mut rows = vec![["shim", "program", "module"].map(str::to_owned).to_vec()];
    for name in &names {
        let (module, program) = shown(name);
        let program = program.map_or_else(|| "not found".to_owned(), |program| program.display().to_string());
        rows.push(vec![name.clone(), program, module]);
    }
    output::table(&rows, &[]);
    if !in_front {
        output::note(&format!(
            "'{}' is not the first folder of PATH, so the shims are not used here",
            folder.display()
        ));
    }
    Ok(())
}
