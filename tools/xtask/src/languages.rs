//! The conformance guests: one program in four languages, each built by its own compiler into `target/guests`.
//!
//! They are for the tests alone. Where a language's tools cannot be had, its guest is left out and its tests skip.

mod assemblyscript;
pub(crate) mod c;
mod go;

use std::fs;
use std::path::{Path, PathBuf};

use crate::context::{Context, announce};
use crate::error::{Error, Result};
use crate::wasi::Wasi;
use crate::{guests, signature};

/// Builds all of them that are not up to date, each as a step.
///
/// # Errors
/// With CI=true whatever fails; elsewhere only what the Rust guest needs, since the other guests need it too.
pub(crate) fn step(context: &Context, wasi: &Wasi) -> Result<()> {
    context.step("conformance guest in Rust", || guests::build_conformance(context, wasi))?;
    for language in [c::LANGUAGE, go::LANGUAGE, assemblyscript::LANGUAGE] {
        let (name, flaw) = (language.name, "its tests are skipped");
        context.optional(&format!("conformance guest in {name}"), flaw, || language.ensure(context))?;
    }
    Ok(())
}

/// One that is not Rust.
struct Language {
    /// As it is called.
    name: &'static str,
    /// Its folder below `guest-ops/conformance`.
    folder: &'static str,
    /// The name of its module, without the ending.
    module: &'static str,
    /// What decides the module's bytes beside its sources and is not among them: versions of the tools, flags.
    recipe: &'static [&'static str],
    /// Compiles the sources in the first folder to the second path.
    build: fn(&Context, &Path, &Path) -> Result<()>,
}

impl Language {
    fn ensure(&self, context: &Context) -> Result<()> {
        let sources = context.guest_ops().join("conformance").join(self.folder);
        let module = guests::folder(context).join(format!("{}.wasm", self.module));
        let stamp = context.notes()?.join(format!("{}.built-from.txt", self.module));
        // Taken before the build: what is edited while it runs is built by the next one.
        let state = format!("{}\n\n{}", self.recipe.join("\n"), signature::of_folder(&sources)?);
        if module.is_file() && fs::read_to_string(&stamp).is_ok_and(|old| old == state) {
            return Ok(());
        }
        // A module of other sources must not pass for this one if the build fails.
        remove(&module)?;
        announce(&format!("building the conformance guest in {}", self.name));
        let half = module.with_extension("half");
        (self.build)(context, &sources, &half)?;
        fs::rename(&half, &module).map_err(Error::io("replace", &module))?;
        fs::write(&stamp, state).map_err(Error::io("write", &stamp))
    }
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", file)(error)),
        _ => Ok(()),
    }
}

/// The files below `folder` whose names end so, sorted, by their paths below it.
pub(crate) fn sources(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let name = item.map_err(Error::io("list", folder))?.file_name();
        if name.to_string_lossy().ends_with(ending) {
            found.push(PathBuf::from(name));
        }
    }
    found.sort();
    Ok(found)
}
