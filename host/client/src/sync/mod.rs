//! Sync: ship what waits, answer what the server needs, get what others did.

mod announce;
mod batches;
mod choose;
mod claim;
mod conflict;
mod diff;
mod fetch;
mod metered;
mod names;
mod native;
mod overwritten;
mod parcels;
mod parts;
mod pull;
mod put;
mod race;
mod rebase;
mod replay;
mod report;
mod resolve;
mod restore;
mod send;
mod setup;
mod ship;
mod signatures;
mod under_way;
mod undo;
mod value_cost;

pub(crate) use batches::Batches;
pub use choose::{Planned, Way, plan};
pub(crate) use claim::{BUNDLED, Unconfirmed};
pub use diff::{DiffOptions, TreeDifference};
pub(crate) use metered::has_work;
pub use metered::{Waiting, waiting};
pub(crate) use names::Arrived;
pub use put::PutReport;
pub use report::{EntryReport, PullReport, Replayed, SyncReport};
pub use resolve::Keep;
pub use restore::Destination;
pub use setup::{Newcomer, Prepared, Source, clone, init, is_free, prepare};
pub(crate) use signatures::LEAST as SIGNED_FROM;
pub use undo::UndoOptions;

use crate::adopt::Unindexed;
use crate::budget::{Link, LinkChoice, link_to};
use crate::choice::Ship;
use crate::modules::ModuleBook;
use crate::net::{Api, OTHER_HISTORY, ServerUrl, token_for};
use crate::staging::Staging;
use crate::transfer::Memory;
use crate::{ClientError, WorkingCopy};
use opship_engine::{Engine, failpoint};
use opship_record::answer::Verdict;
use opship_record::entry::{BodyKind, ClientId};
use opship_record::{Hash, TreePath};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What a sync tells while it goes on.
pub trait Progress {
    /// `done` of `total` bytes or entries of `what`; `total` is 0 if it is not known.
    fn step(&self, what: &str, done: u64, total: u64);
}

/// Makes an engine.
pub type MakeEngine<'a> = Box<dyn Fn() -> Result<Engine, ClientError> + 'a>;

/// One sync of one working copy.
pub struct Sync<'a> {
    copy: &'a WorkingCopy,
    book: &'a mut ModuleBook,
    api: Api,
    progress: &'a dyn Progress,
    /// The link, if the user has said something about it.
    link: Option<Link>,
    /// How operations are shipped.
    ship: Ship,
    /// Versions that entries of this sync made, with their marks.
    own_versions: BTreeMap<u64, Option<[u8; 8]>>,
    /// Paths whose states in the index may be newer than the version that the working copy stands on.
    ahead: BTreeSet<TreePath>,
    /// What is remembered for transfers.
    memory: Memory,
    /// Paths and contents whose signatures are looked at when all is done.
    changed: signatures::Changed,
    /// Is an upload held up for what is more urgent?
    holding: watch::Sender<bool>,
    /// How long nothing but slow answers was waited for.
    waited: Duration,
    /// Contents in a row of which the server had no chunk.
    unknown_contents: u32,
    /// Has the server said that it takes no documents?
    no_documents: bool,
    /// Bytes that a file may have in the workspace, once it was asked for.
    largest_file: Option<u64>,
    /// Has the server refused a parcel of contents?
    no_parcels: bool,
    /// Did the server take no note of this client's name with its entries?
    unannounced: bool,
    /// The connection for large bodies, once there was one and while no upload has it.
    bulk: Option<Api>,
    /// What replays others' operations on a pull, made when it is needed; without it all is downloaded.
    engine: Option<MakeEngine<'a>>,
    /// Contents that replays made.
    replayed: BTreeMap<Hash, tempfile::NamedTempFile>,
    /// Where files are kept that came, until they are applied.
    workplace: Option<Staging>,
    /// Names that came.
    arrived: Arrived,
    /// Did an earlier sync end before its pull was complete? Then any state may be newer.
    interrupted: bool,
    /// What was here before the first pull, until that has looked for it on the server.
    adopting: Option<Unindexed>,
    /// Contents of files that were here before the first pull and that it has not found on the server, with a path of each.
    unindexed: BTreeMap<Hash, TreePath>,
}

/// Set while states of the server come into the index that are newer than the version that the working copy stands on.
/// What differs between that version and the head does not tell then what differs here: another may have brought a path
/// back to what it was.
pub(crate) const UNSETTLED: &str = "net.unsettled";

/// Set while nothing is known to have been shipped to a workspace that was made together with the working copy.
const UNSEEN: &str = "net.unseen";

/// Told where the server turned out to be older than the working copy.
const SERVER_IS_OLDER: &str = "the server does not have the version that this folder stood on: its data was restored from a \
    backup, or is another's. Everything here was compared with it anew; nothing here was replaced, and what the server lacks \
    is shipped";

/// How often shipping and pulling follow each other before a sync leaves the rest to the next: a conflict makes a new
/// value entry, which needs one more round.
const ROUNDS: usize = 4;
/// How long a command waits for a sync that is at work.
const PATIENCE: Duration = Duration::from_secs(60);

impl<'a> Sync<'a> {
    /// Prepares a sync with the server that the working copy names.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the address is none or no token is at hand.
    pub fn new(
        copy: &'a WorkingCopy,
        book: &'a mut ModuleBook,
        progress: &'a dyn Progress,
    ) -> Result<Sync<'a>, ClientError> {
        Sync::over(copy, book, progress, &LinkChoice::default())
    }

    /// As [`Sync::new`], over a link of the user's choice.
    ///
    /// # Errors
    /// As [`Sync::new`]; [`ClientError::Config`] if the user's configuration cannot be understood.
    pub fn over(
        copy: &'a WorkingCopy,
        book: &'a mut ModuleBook,
        progress: &'a dyn Progress,
        choice: &LinkChoice,
    ) -> Result<Sync<'a>, ClientError> {
        let link = link_to(&copy.config().server.parse()?, choice)?;
        let api = api_over(copy, link.clone())?;
        Ok(Sync {
            link,
            ship: choice.ship.unwrap_or(copy.config().ship),
            copy,
            book,
            api,
            progress,
            own_versions: BTreeMap::new(),
            ahead: BTreeSet::new(),
            adopting: None,
            unindexed: BTreeMap::new(),
            memory: Memory::open(&copy.own_folder()),
            changed: signatures::Changed::default(),
            holding: watch::Sender::default(),
            waited: Duration::ZERO,
            unknown_contents: 0,
            no_documents: false,
            no_parcels: false,
            largest_file: None,
            unannounced: false,
            bulk: None,
            engine: None,
            replayed: BTreeMap::new(),
            workplace: None,
            arrived: Arrived::default(),
            interrupted: false,
        })
    }

    /// A folder for what comes, until it is applied. It is locked, so that no other process takes it for a leftover.
    fn workplace(&mut self) -> Result<PathBuf, ClientError> {
        let staging = match self.workplace.take() {
            Some(staging) => staging,
            None => Staging::new(&self.copy.shared)?,
        };
        Ok(self.workplace.insert(staging).path())
    }

    /// Lets pulls replay operations of others instead of downloading what they made, as the working copy's configuration
    /// allows it. `make` is called if there is one to be replayed.
    #[must_use]
    pub fn with_engine(mut self, make: MakeEngine<'a>) -> Sync<'a> {
        self.engine = Some(make);
        self
    }

    /// Uses this token instead of the one at hand.
    fn with_token(self, token: &str) -> Sync<'a> {
        Sync { api: self.api.with_token(token), ..self }
    }

    /// Finds changed files, ships all entries that are ready, and pulls. What could not be done stays for the next time.
    ///
    /// # Errors
    /// [`ClientError`]: what was done until then stands.
    pub async fn run(self) -> Result<SyncReport, ClientError> {
        let link = self.link.clone();
        self.run_through().await.map_err(|error| match &link {
            Some(link) => link.explain(error),
            None => error,
        })
    }

    async fn run_through(mut self) -> Result<SyncReport, ClientError> {
        let _lock = self.copy.try_lock_sync()?.ok_or(ClientError::Busy)?;
        let (start, counter) = (Instant::now(), self.api.counter());
        let mut report = SyncReport::default();
        self.register_modules().await?;
        self.leave_forked_identity().await?;
        self.interrupted = self.copy.setting(UNSETTLED)?.is_some_and(|mark| !mark.is_empty());
        self.ahead = self.copy.paths_ahead()?;
        self.confirm_bundle(&mut report.pulled).await?;
        self.stand()?;
        self.adopt(&mut report.pulled).await?;
        let mut rounds = self.rounds(&mut report).await;
        if matches!(&rounds, Err(ClientError::Problem { kind, .. }) if kind == OTHER_HISTORY) {
            self.begin_anew(&mut report.pulled).await?;
            rounds = self.rounds(&mut report).await;
        }
        if let Err(error) = rounds {
            return Err(self.refused(error, &mut report).await);
        }
        self.remember_signatures()?;
        report.pulled.names = self.arrived.remarkable(self.copy)?;
        self.tell_resolved().await?;
        let traffic = counter.count();
        (report.sent, report.received) = (traffic.sent, traffic.received);
        report.seconds = start.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Ships and pulls until nothing that came makes something new to ship.
    async fn rounds(&mut self, report: &mut SyncReport) -> Result<(), ClientError> {
        let counter = self.api.counter();
        for _ in 0..ROUNDS {
            self.append_changes()?;
            self.choose()?;
            let (begun, before) = (Instant::now(), counter.count());
            self.waited = Duration::ZERO;
            self.ship(report).await?;
            self.note_left()?;
            self.announce().await?;
            self.note_round_trip()?;
            self.copy.note_rate(
                counter.count().since(before).sent,
                begun.elapsed().saturating_sub(self.waited).as_secs_f64(),
            )?;
            self.release_ended(report)?;
            // A conflict makes copies, which are shipped in the next round.
            let conflicts = self.settle_conflicts(&mut report.pulled).await?;
            self.pull(&mut report.pulled).await?;
            if !conflicts {
                break;
            }
        }
        Ok(())
    }

    /// What waits still waits for something else than this sync.
    fn note_left(&self) -> Result<(), ClientError> {
        self.copy.newest_unended()?.map_or(Ok(()), |number| self.copy.note_left(number))
    }

    /// Lets the server say whether it has the version that the working copy stands on.
    fn stand(&mut self) -> Result<(), ClientError> {
        let (base, mark) = self.copy.base()?;
        self.api.stand_on(base, mark);
        Ok(())
    }

    /// The server does not have the version that the working copy stands on. What it says would look like changes by others,
    /// although it is what came before: so all that is here counts as found here, and is compared with what the server has.
    async fn begin_anew(&mut self, report: &mut PullReport) -> Result<(), ClientError> {
        self.copy.forget_history()?;
        failpoint::hit("history-forgotten");
        (self.own_versions, self.ahead) = (BTreeMap::new(), BTreeSet::new());
        report.notes.push(SERVER_IS_OLDER.to_owned());
        self.stand()?;
        self.adopt(report).await
    }

    /// Somebody who may not ship, or for whom there is no room, still gets what others made.
    async fn refused(&mut self, error: ClientError, report: &mut SyncReport) -> ClientError {
        let ClientError::Problem { status: 403 | 507, .. } = &error else { return error };
        let mut pulled = self.pull(&mut report.pulled).await;
        if matches!(&pulled, Err(ClientError::Problem { kind, .. }) if kind == OTHER_HISTORY) {
            pulled = match self.begin_anew(&mut report.pulled).await {
                Ok(()) => self.pull(&mut report.pulled).await,
                Err(error) => Err(error),
            };
        }
        match pulled {
            Ok(_) => ClientError::Refused(format!(
                "{error}; what others changed was pulled all the same. Your changes stay here: 'opship status' lists them, \
                 'opship drop' takes an entry out of the log"
            )),
            Err(_) => error,
        }
    }

    /// Takes an entry that has not ended out of the log, with all that wait for it: their results stay as ordinary changes of
    /// files, which the next sync ships. Gives the numbers of the entries. What one that ended `rejected` was refused for is
    /// offered again.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the entry has ended, [`ClientError::Busy`] while another sync is at work; [`ClientError`] from the network.
    pub async fn drop_entry(mut self, number: u64) -> Result<(Vec<u64>, PullReport), ClientError> {
        let _lock = self.lock().await?;
        let entry = self.copy.entry(number)?;
        if entry.verdict() == Some(Verdict::Rejected) && self.copy.offer_again(number)? {
            return Ok((vec![number], PullReport::default()));
        }
        if entry.verdict().is_some() {
            return Err(ClientError::Refused(format!("entry {number} has ended; only one that waits can be dropped")));
        }
        if entry.sent && !entry.is_parked() {
            return Err(ClientError::Refused(format!("entry {number} is on its way; run 'opship sync' first")));
        }
        if entry.kind == BodyKind::Value && self.copy.lists(number)?.changes.is_empty() {
            return Err(ClientError::Refused(format!(
                "entry {number} has nothing left to drop; the next 'opship sync' ends it"
            )));
        }
        self.leave_forked_identity().await?;
        let mut entries = self.copy.waiting_for(number)?;
        entries.push(self.copy.entry(number)?);
        let mut numbers: Vec<u64> = entries.iter().map(|entry| entry.number).collect();
        numbers.sort_unstable();
        let mut report = PullReport::default();
        self.drop_entries(entries, &mut report).await?;
        Ok((numbers, report))
    }

    /// Before the first pull of a folder that holds files: what the server holds too is not shipped, and nothing is
    /// downloaded that is here.
    async fn adopt(&mut self, report: &mut PullReport) -> Result<(), ClientError> {
        if self.copy.base()? != (0, None) {
            return Ok(());
        }
        let here = self.copy.unindexed()?;
        if here.is_empty() {
            return Ok(());
        }
        // A workspace that was made for this folder is empty. If another was quicker nothing is lost: what both have is the
        // same change twice, and of what differs both stay.
        if self.copy.setting(UNSEEN)?.is_some_and(|mark| !mark.is_empty()) {
            return self.copy.set_setting(UNSEEN, "");
        }
        self.adopting = Some(here);
        self.pull(report).await.map(drop)
    }

    /// Takes the lock that allows one sync at a time, for other work that must not meet one.
    async fn lock(&self) -> Result<OwnedFd, ClientError> {
        // A watch holds it for a moment at a time.
        self.copy.lock_sync_within(PATIENCE).await
    }

    /// Registers what was added here while the server was away.
    async fn register_modules(&mut self) -> Result<(), ClientError> {
        for module in self.book.unregistered() {
            self.book.register(&mut self.api, &module).await?;
            self.book.mark_registered(&module.name)?;
        }
        Ok(())
    }

    /// Tells the server of which conflicts nothing is left to decide, so that it need not keep both sides for ever.
    async fn tell_resolved(&mut self) -> Result<(), ClientError> {
        let entries = self.copy.newly_resolved()?;
        let mut by_client: BTreeMap<ClientId, Vec<u64>> = BTreeMap::new();
        for entry in &entries {
            by_client.entry(entry.client).or_default().push(entry.sequence);
        }
        for (client, sequences) in by_client {
            match self.api.resolve_entries(&client, &sequences).await {
                // An older server keeps both; there is nothing to be told.
                Err(ClientError::Problem { status: 404 | 405, .. }) => {}
                told => told?,
            }
        }
        self.copy.mark_told(&entries.iter().map(|entry| entry.number).collect::<Vec<_>>())
    }

    /// Drops what was kept for entries whose outputs the server holds. What somebody wrote to a displaced file meanwhile
    /// is kept as a conflict copy.
    fn release_ended(&self, report: &mut SyncReport) -> Result<(), ClientError> {
        let mut copies = self.copy.release_left()?;
        for entry in self.copy.unreleased()? {
            if entry.verdict().is_some_and(Verdict::is_final_for_client) {
                copies.extend(self.copy.release(entry.number)?);
            }
        }
        report.pulled.conflict_copies.extend(copies.iter().map(ToString::to_string));
        Ok(())
    }
}

/// The API of the server that a working copy names.
///
/// # Errors
/// [`ClientError::Refused`] if the address is none or no token is at hand.
pub fn api_for(copy: &WorkingCopy) -> Result<Api, ClientError> {
    let link = link_to(&copy.config().server.parse()?, &LinkChoice::default())?;
    api_over(copy, link)
}

fn api_over(copy: &WorkingCopy, link: Option<Link>) -> Result<Api, ClientError> {
    let server: ServerUrl = copy.config().server.parse()?;
    let token = token_for(&server, &copy.config().workspace)?;
    Ok(Api::new(server, token, &copy.config().workspace).over(link))
}
