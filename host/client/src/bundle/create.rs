//! Making a bundle of a working copy.

use super::format::{Kind, MAX_PAGE, State};
use super::plan::{LeftOut, Plan, Source, plan};
use super::write::Writer;
use crate::db::index;
use crate::modules::ModuleBook;
use crate::net::Changes;
use crate::sync::{BUNDLED, Progress, api_for};
use crate::transfer::Plain;
use crate::{ClientError, WorkingCopy};
use opship_record::node::Node;
use opship_record::{Hash, TreePath, codec};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::Path;

/// Bytes that a state takes besides its path and target, at most.
const STATE: usize = 64;

/// What is wanted of a bundle.
#[derive(Debug, Clone, Copy, Default)]
pub struct CreateOptions {
    /// Leave out what this version holds.
    pub since: Option<u64>,
    /// Only say what would be in it.
    pub dry_run: bool,
}

/// What is in a new bundle, or would be.
#[derive(Debug, Clone, Default)]
pub struct Created {
    /// The version; `None` where the last sync was cut off, so that the working copy stands between two.
    pub version: Option<u64>,
    /// Number of its paths.
    pub paths: u64,
    /// Paths whose states in that version are not known here: what was not shipped yet stands there.
    pub unknown: u64,
    /// Number of contents.
    pub contents: u64,
    /// Bytes of the contents, before they are compressed.
    pub content_bytes: u64,
    /// The entries that have no verdict: the log's numbers of them, with their names.
    pub entries: Vec<(u64, String)>,
    /// Entries of which a content is not here any more: the server may ask for what nobody can bring it by disk.
    pub lacking: Vec<u64>,
    /// Changes of files that no entry names yet: a dry run leaves them so.
    pub unrecorded: u64,
    /// Length of the file in bytes; 0 for a dry run.
    pub bytes: u64,
}

/// Makes a bundle of a working copy in a new file, mode 0600, which stands there only when it is whole and durable. Changes
/// of files are recorded first, as a sync does; from then on no entry in the bundle changes. `book`: the working copy's.
///
/// # Errors
/// [`ClientError::Busy`] beside a sync, [`ClientError::Refused`] for what cannot be put into a bundle, [`ClientError::Changed`]
/// for a file that is written meanwhile, [`ClientError::Io`]; there is no file then.
pub async fn create(
    copy: &WorkingCopy,
    book: &ModuleBook,
    file: &Path,
    options: CreateOptions,
    progress: &dyn Progress,
) -> Result<Created, ClientError> {
    let _lock = copy.try_lock_sync()?.ok_or(ClientError::Busy)?;
    check_place(copy, file)?;
    if copy.is_forked()? {
        return Err(ClientError::Refused(
            "this working copy is a copy of another; run 'opship sync' once, which gives it an identity of its own"
                .to_owned(),
        ));
    }
    let (mut unrecorded, mut lacking) = (0, Vec::new());
    if options.dry_run {
        unrecorded = copy.scan()?.changes.len() as u64;
    } else {
        lacking = copy.mend_values(&BTreeMap::new())?.lacking;
    }
    let left_out = left_out(copy, options.since).await?;
    let plan = plan(copy, book, options, left_out)?;
    let mut created = Created { unrecorded, lacking, ..summary(&plan) };
    if options.dry_run {
        return Ok(created);
    }
    if let Some(newest) = plan.numbers.last() {
        copy.set_setting(BUNDLED, &newest.to_string())?;
    }
    created.bytes = write(copy, &plan, file, progress)?;
    Ok(created)
}

fn summary(plan: &Plan) -> Created {
    let paths = plan.states.iter().filter(|(_, node)| node.is_some()).count() as u64;
    let names = plan.entries.iter().map(|entry| entry.command.clone());
    Created {
        version: plan.head.version.as_ref().map(|version| version.number),
        paths,
        unknown: plan.states.len() as u64 - paths,
        contents: plan.head.contents,
        content_bytes: plan.contents.iter().map(|(_, length, _)| length).sum(),
        entries: plan.numbers.iter().copied().zip(names).collect(),
        ..Created::default()
    }
}

/// A bundle in the working copy would be shipped with it, and the next one would hold it.
fn check_place(copy: &WorkingCopy, file: &Path) -> Result<(), ClientError> {
    let shown = file.display();
    if file.symlink_metadata().is_ok() {
        return Err(ClientError::Refused(format!("'{shown}' is there already; name another file, or remove it first")));
    }
    let folder = folder_of(file).canonicalize().map_err(ClientError::io(format!("finding the folder of '{shown}'")))?;
    let root = copy.path().canonicalize().map_err(ClientError::io("finding the working copy"))?;
    if folder.starts_with(root) {
        return Err(ClientError::Refused(format!(
            "'{shown}' would be part of the workspace; name a file outside of it"
        )));
    }
    Ok(())
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What a version holds that is left out, `None` if nothing is.
async fn left_out(copy: &WorkingCopy, since: Option<u64>) -> Result<Option<LeftOut>, ClientError> {
    let (Some(since), (base, _)) = (since, copy.base()?) else { return Ok(None) };
    if since > base {
        return Err(ClientError::Refused(format!(
            "this working copy stands on version {base}; what version {since} holds is not known here, run 'opship sync' first"
        )));
    }
    // Version 0 holds nothing.
    if since == 0 {
        return Ok(None);
    }
    let mut left_out = LeftOut::default();
    if since == base {
        return Ok(Some(left_out));
    }
    let mut changes = changes_back(copy, base, since).await.map_err(|error| match error {
        ClientError::Unreachable { server, detail } => ClientError::Refused(format!(
            "only the server knows what changed since version {since}, and {server} cannot be reached ({detail}); leave \
             '--since' out, or use '--since {base}' for what waits to be shipped alone"
        )),
        error => error,
    })?;
    while let Some((path, node)) = changes.next().await? {
        if let Some(Node::File { hash, .. }) = node {
            left_out.contents.insert(hash);
        }
        left_out.differing.insert(path);
    }
    Ok(Some(left_out))
}

/// What differs between two versions, as the earlier has it.
async fn changes_back(copy: &WorkingCopy, later: u64, earlier: u64) -> Result<Changes, ClientError> {
    Ok(api_for(copy)?.changes_between(later, earlier, &TreePath::root()).await?.1)
}

/// Writes the bundle beside its place, then gives it its name; gives its length.
fn write(copy: &WorkingCopy, plan: &Plan, file: &Path, progress: &dyn Progress) -> Result<u64, ClientError> {
    let failed = || ClientError::io(format!("writing '{}'", file.display()));
    let folder = folder_of(file);
    let temporary = tempfile::Builder::new().prefix(".opship-bundle-").tempfile_in(folder).map_err(failed())?;
    let mut writer = Writer::new(BufWriter::with_capacity(1 << 20, temporary)).map_err(failed())?;
    let mut structures = || -> io::Result<()> {
        writer.section(Kind::Head, &codec::encode(&plan.head))?;
        for page in pages(&plan.states) {
            writer.packed(Kind::States, &codec::encode(&page))?;
        }
        for entry in &plan.entries {
            writer.packed(Kind::Entry, &codec::encode(entry))?;
        }
        plan.nodes.iter().try_for_each(|node| writer.section(Kind::Node, node))
    };
    structures().map_err(failed())?;
    let (mut done, total) = (0, plan.contents.iter().map(|(_, length, _)| length).sum());
    for (hash, length, source) in &plan.contents {
        progress.step("writing the bundle", done, total);
        if !writer.content(hash, *length, opened(copy, hash, source)?).map_err(failed())? {
            return Err(ClientError::Changed { path: path_of(copy, hash)? });
        }
        done += length;
    }
    let temporary =
        writer.finish().map_err(failed())?.into_inner().map_err(|error| error.into_error()).map_err(failed())?;
    let durable = || {
        temporary.as_file().sync_all()?;
        let length = temporary.as_file().metadata()?.len();
        temporary.persist_noclobber(file).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()?;
        Ok::<_, io::Error>(length)
    };
    durable().map_err(failed())
}

/// States in pages, each well within [`MAX_PAGE`].
fn pages(states: &[State]) -> impl Iterator<Item = &[State]> {
    let mut bytes = 0;
    let mut begun = 0;
    states.chunk_by(move |(path, node), _| {
        let target = if let Some(Node::Symlink { target, .. }) = node { target.len() } else { 0 };
        bytes += path.as_str().len() + target + STATE;
        let fits = bytes - begun < MAX_PAGE / 4;
        if !fits {
            begun = bytes;
        }
        fits
    })
}

fn opened(copy: &WorkingCopy, hash: &Hash, source: &Source) -> Result<Box<dyn Read>, ClientError> {
    Ok(match source {
        Source::Bytes(bytes) => Box::new(io::Cursor::new(bytes.clone())),
        Source::File(path) => {
            Box::new(File::open(path).map_err(ClientError::io(format!("reading '{}'", path.display())))?)
        }
        Source::Copy => match copy.blob_source(hash)? {
            Some(content) => Box::new(Plain::new(content)),
            None => return Err(ClientError::Changed { path: path_of(copy, hash)? }),
        },
    })
}

/// A path with a content, for messages.
fn path_of(copy: &WorkingCopy, hash: &Hash) -> Result<String, ClientError> {
    let paths = index::path_of_hash(&copy.shared.db.read(), hash)?;
    Ok(paths.first().map_or_else(|| format!("content {}", hash.short()), |(path, _)| path.to_string()))
}
