//! Shipping a bundle's entries beside the server, for the working copy that made it.
//!
//! They go under their own keys, so that it does not matter how often, by whom and in which order they are brought: the server
//! answers a key that it holds as it did before, and so it answers the working copy when that has a link again.

use super::Bundle;
use super::format::BundledEntry;
use crate::ClientError;
use crate::budget::{LinkChoice, link_to};
use crate::net::{Api, HeldState, ServerUrl, token_for};
use crate::sync::Progress;
use opship_record::answer::{Answer, Need, Reason, Status, Verdict};
use opship_record::entry::{BodyKind, Part, PartKind};
use opship_record::limits::{MAX_INLINE_PART, MAX_REQUEST};
use opship_record::{Hash, tree};
use std::collections::BTreeSet;
use std::io::Read;

/// How often one entry may be answered `needs` or `failed` before it is left.
const TRIES: u32 = 8;
/// How long one poll waits for an entry that takes long, in seconds.
const POLL_SECONDS: u32 = 25;
/// Bytes of small contents in one request.
const GROUP: usize = MAX_REQUEST / 4;

/// What became of a bundle's entries.
#[derive(Debug, Clone, Default)]
pub struct Carried {
    /// Each entry, in the bundle's order.
    pub entries: Vec<CarriedEntry>,
    /// Bytes sent to the server, headers included.
    pub sent: u64,
    /// Bytes received from it.
    pub received: u64,
}

/// What became of an entry.
#[derive(Debug, Clone)]
pub struct CarriedEntry {
    /// The client that it is of, in hexadecimal.
    pub client: String,
    /// The client's number of it.
    pub sequence: u64,
    /// Operation or value.
    pub kind: BodyKind,
    /// The command line, or a summary of the changes.
    pub command: String,
    /// Did the server hold it before?
    pub held: bool,
    /// How it ended; `None`: it has not.
    pub verdict: Option<Verdict>,
    /// Why it is not `matched`.
    pub reason: Option<Reason>,
    /// What there is to say about it.
    pub detail: Option<String>,
}

/// The way to one server.
struct Carrying<'a> {
    bundle: &'a Bundle,
    api: Api,
    progress: &'a dyn Progress,
}

impl Bundle {
    /// Ships the entries that had no verdict when the bundle was made to a server, with the token at hand for it. With
    /// `dry_run` it is only asked which of them it holds.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the server's workspace is another than the bundle's: nothing is shipped then. [`ClientError`]
    /// from the network; calling this again goes on.
    pub async fn carry(
        &self,
        server: &ServerUrl,
        dry_run: bool,
        progress: &dyn Progress,
    ) -> Result<Carried, ClientError> {
        let workspace = &self.head().workspace;
        let token = token_for(server, workspace)?;
        let api = Api::new(server.clone(), token, workspace).over(link_to(server, &LinkChoice::default())?);
        let mut carrying = Carrying { bundle: self, api, progress };
        carrying.check_workspace(server).await?;
        let states = carrying.held().await?;
        let mut carried = Carried::default();
        for (index, entry) in self.entries().enumerate() {
            let (entry, held) = (entry?, states.get(index) == Some(&HeldState::Same));
            progress.step("shipping entries", index as u64, self.found.entries.len() as u64);
            let answer = if dry_run { None } else { Some(carrying.ship(&entry, held).await?) };
            carried.entries.push(outcome(entry, held, answer));
        }
        let traffic = carrying.api.counter().count();
        (carried.sent, carried.received) = (traffic.sent, traffic.received);
        Ok(carried)
    }
}

fn outcome(entry: BundledEntry, held: bool, answer: Option<Answer>) -> CarriedEntry {
    let answered = |status| answer.as_ref().is_some_and(|answer| answer.status == status);
    let detail = if answered(Status::Forked) {
        Some(
            "the server holds another entry under this number: whoever made the bundle has shipped it in another form"
                .to_owned(),
        )
    } else {
        answer.as_ref().and_then(|answer| answer.detail.clone())
    };
    CarriedEntry {
        client: entry.client.to_string(),
        sequence: entry.sequence,
        kind: entry.kind,
        command: entry.command,
        held,
        verdict: answer.as_ref().and_then(|answer| answer.verdict),
        reason: answer.as_ref().and_then(|answer| answer.reason),
        detail,
    }
}

impl Carrying<'_> {
    /// A workspace of the same name on another server is another.
    async fn check_workspace(&mut self, server: &ServerUrl) -> Result<(), ClientError> {
        let name = &self.bundle.head().workspace;
        match self.api.workspace().await {
            Err(ClientError::Problem { status: 404, .. }) => {
                return Err(ClientError::Refused(format!(
                    "{server} has no workspace '{name}' for you; nothing was shipped, name the server that the bundle's came from"
                )));
            }
            found => found?,
        };
        let Some(claim) = &self.bundle.head().version else { return Ok(()) };
        let theirs = self.api.version_hashes(claim.number).await?;
        // One of both is enough; a bundle with neither can be told by its name alone.
        let root = claim.root.map(|root| root.to_string()).unwrap_or_default();
        let mark: String = claim.mark.iter().flat_map(|mark| mark.iter()).map(|byte| format!("{byte:02x}")).collect();
        if theirs.is_some_and(|theirs| theirs.root.starts_with(&root) && theirs.id.starts_with(&mark)) {
            return Ok(());
        }
        Err(ClientError::Refused(format!(
            "the workspace '{name}' on {server} has no version {} as this bundle has it: it is another workspace, or it was \
             restored from an older backup; nothing was shipped, name the server that the bundle's workspace is on",
            claim.number
        )))
    }

    /// How the server knows each of the bundle's entries.
    async fn held(&mut self) -> Result<Vec<HeldState>, ClientError> {
        let mut keys = Vec::new();
        for entry in self.bundle.entries() {
            let entry = entry?;
            let body = entry.body().map_err(|error| self.broken(error))?;
            keys.push((entry.client, entry.sequence, body.id()));
        }
        if keys.is_empty() { Ok(Vec::new()) } else { self.api.entry_states(&keys).await }
    }

    fn broken(&self, error: std::io::Error) -> ClientError {
        super::refused(&self.bundle.path, error)
    }

    /// Ships an entry, and what the server asks for, until there is an answer that stands.
    async fn ship(&mut self, entry: &BundledEntry, held: bool) -> Result<Answer, ClientError> {
        let mut parts = Vec::new();
        if entry.kind == BodyKind::Value && !held {
            let contents = entry.contents().map_err(|error| self.broken(error))?;
            self.upload(contents.into_iter().map(|(hash, _)| hash).collect()).await?;
            parts = self.lists(entry, &[PartKind::Changes]).await?;
        }
        let mut answer = self.send(entry, &parts).await?;
        for _ in 1..TRIES {
            match answer.status {
                Status::Needs => {
                    let needs = answer.needs.clone().unwrap_or_default();
                    let lists = needs.iter().any(|need| matches!(need, Need::Lists | Need::Values));
                    if lists || entry.kind == BodyKind::Value {
                        let all = [PartKind::Changes, PartKind::Observations, PartKind::Streams];
                        parts = self.lists(entry, &all).await?;
                    }
                    self.satisfy(entry, &needs).await?;
                }
                Status::Failed => {}
                Status::Ended | Status::Parked | Status::Forked | Status::Accepted => break,
            }
            answer = self.send(entry, &parts).await?;
        }
        if let Some(needs) = answer.needs.as_ref().filter(|_| answer.status == Status::Needs) {
            answer.detail = Some(format!("the server wants what the bundle does not hold: {}", named(needs)));
        }
        Ok(answer)
    }

    /// Sends an entry; waits for one that takes long.
    async fn send(&mut self, entry: &BundledEntry, parts: &[Part]) -> Result<Answer, ClientError> {
        let mut request = Vec::new();
        entry.entry(parts.to_vec()).map_err(|error| self.broken(error))?.encode_into(&mut request);
        let nothing = || ClientError::Protocol { detail: "the server gave no answer to an entry".to_owned() };
        let mut answers = self.api.ship(request).await?;
        let mut answer = answers.next().await?.ok_or_else(nothing)?;
        while answers.next().await?.is_some() {}
        if answer.sequence == 0 {
            let detail = answer.detail.unwrap_or_else(|| "the request was refused".to_owned());
            return Err(ClientError::Protocol { detail });
        }
        while answer.status == Status::Accepted {
            self.progress.step("waiting for a long replay", 0, 0);
            let location = answer.location.clone().unwrap_or_default();
            answer = self.api.poll(&location, POLL_SECONDS).await?.ok_or_else(nothing)?;
        }
        Ok(answer)
    }

    /// Lists of an entry as parts, uploaded where they are long.
    async fn lists(&mut self, entry: &BundledEntry, kinds: &[PartKind]) -> Result<Vec<Part>, ClientError> {
        let mut parts = Vec::new();
        for (kind, bytes) in entry.lists().into_iter().filter(|(kind, _)| kinds.contains(kind)) {
            if bytes.len() <= MAX_INLINE_PART {
                parts.push(Part::inline(kind, bytes));
                continue;
            }
            let hash = Hash::of(&bytes);
            self.api.put_blob(&hash, std::io::Cursor::new(bytes)).await?;
            parts.push(Part { kind, hash, bytes: None });
        }
        Ok(parts)
    }

    async fn satisfy(&mut self, entry: &BundledEntry, needs: &[Need]) -> Result<(), ClientError> {
        let mut wanted = BTreeSet::new();
        for need in needs {
            match need {
                Need::Lists => {}
                Need::Blob { hash } | Need::Module { hash } => drop(wanted.insert(*hash)),
                Need::Tree { hash } => self.upload_tree(hash).await?,
                Need::Values => {
                    let contents = entry.contents().map_err(|error| self.broken(error))?;
                    wanted.extend(contents.into_iter().map(|(hash, _)| hash));
                }
            }
        }
        self.upload(wanted).await
    }

    /// Uploads those of the contents that are in the bundle and that the server lacks: small ones together.
    async fn upload(&mut self, wanted: BTreeSet<Hash>) -> Result<(), ClientError> {
        let here: Vec<Hash> = wanted.into_iter().filter(|hash| self.bundle.length_of(hash).is_some()).collect();
        if here.is_empty() {
            return Ok(());
        }
        let (mut group, mut bytes) = (Vec::new(), 0);
        for hash in self.api.missing_blobs(&here).await? {
            let (Some(mut content), Some(length)) = (self.bundle.content(&hash)?, self.bundle.length_of(&hash)) else {
                continue;
            };
            if length > MAX_INLINE_PART as u64 {
                self.api.put_blob(&hash, content).await?;
                continue;
            }
            let mut small = Vec::new();
            content.read_to_end(&mut small).map_err(|error| self.broken(error))?;
            bytes += small.len();
            group.push(small);
            if bytes >= GROUP {
                self.api.put_blobs(&std::mem::take(&mut group)).await?;
                bytes = 0;
            }
        }
        if group.is_empty() { Ok(()) } else { self.api.put_blobs(&group).await }
    }

    /// Uploads a mount's tree with its contents, children before parents, if all its nodes are in the bundle.
    async fn upload_tree(&mut self, root: &Hash) -> Result<(), ClientError> {
        let (mut open, mut found) = (vec![(*root, None)], BTreeSet::new());
        let (mut ordered, mut blobs) = (Vec::new(), BTreeSet::new());
        while let Some((hash, node)) = open.pop() {
            if let Some(node) = node {
                ordered.push(node);
            } else if found.insert(hash) {
                let Some(node) = self.bundle.node(&hash)? else { return Ok(()) };
                let below = tree::references(&node)?;
                blobs.extend(below.blobs.into_iter().map(|(hash, _)| hash));
                open.push((hash, Some(node)));
                open.extend(below.nodes.into_iter().map(|hash| (hash, None)));
            }
        }
        self.upload(blobs).await?;
        self.api.put_tree(&ordered).await
    }
}

/// What a server wants, for people.
fn named(needs: &[Need]) -> String {
    let name = |need: &Need| match need {
        Need::Lists => "lists".to_owned(),
        Need::Values => "the values that it wrote".to_owned(),
        Need::Blob { hash } => format!("content {}", hash.short()),
        Need::Module { hash } => format!("module {}", hash.short()),
        Need::Tree { hash } => format!("tree {}", hash.short()),
    };
    needs.iter().take(5).map(name).collect::<Vec<_>>().join(", ")
}
