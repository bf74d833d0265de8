//! The soak: three clients that edit, run operations and sync at random, while connections are cut, clients and the server
//! are killed and clocks jump. In the end all hold the same tree and nothing that was written is lost.

mod books;
mod chance;
mod client;
mod edits;
mod import;
mod memory;

pub use import::{Import, import};

use crate::{Place, Server};
use books::Books;
use chance::Chance;
use client::Client;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Syncs of all clients until they must be the same.
const ROUNDS: usize = 12;
/// Memory that the server may have taken.
const SERVER_MEMORY: u64 = 1 << 30;
/// Memory that a sync may have taken.
const SYNC_MEMORY: u64 = 512 << 20;
/// What the server's data folder may take besides twice what was written: modules, the database and its log, what is set
/// aside.
const SERVER_BYTES: u64 = 128 << 20;

/// What happened, by name.
pub type Counts = BTreeMap<&'static str, u64>;

struct Soak {
    place: Place,
    server: Option<Server>,
    clients: Vec<Client>,
    books: Books,
    chance: Chance,
    counts: Counts,
}

/// Runs for a time, then checks. The same seed makes the same decisions, as far as timing lets them.
///
/// # Errors
/// What was lost, or did not come together, in words.
pub fn soak(seed: u64, time: Duration) -> Result<Counts, String> {
    let mut soak = Soak::new(seed);
    let end = Instant::now() + time;
    let mut told = Instant::now();
    while Instant::now() < end {
        soak.step()?;
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            println!("{} s to go, {:?}", end.saturating_duration_since(told).as_secs(), soak.counts);
        }
    }
    match soak.finish() {
        Ok(()) => Ok(soak.counts),
        Err(error) => {
            let folder = soak.place.keep();
            Err(format!("{error}\nall is kept in {}", folder.display()))
        }
    }
}

impl Soak {
    fn new(seed: u64) -> Soak {
        let place = Place::new();
        let server = Server::start(&place);
        let clients = ["one", "two", "three"].map(|name| Client::new(&place, &server, name)).into();
        let (books, chance) = (Books::default(), Chance::new(seed));
        Soak { place, server: Some(server), clients, books, chance, counts: Counts::new() }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn step(&mut self) -> Result<(), String> {
        let who = self.chance.below(self.clients.len());
        match self.chance.below(100) {
            0..55 => {
                let what = edits::edit(&self.clients[who].folder, &mut self.chance, &mut self.books, who);
                self.count(what);
            }
            55..65 => {
                let ran = self.clients[who].operate(&self.place, &mut self.chance);
                self.count(if ran { "operations" } else { "operations refused" });
            }
            65..82 => self.sync(who)?,
            82..90 => self.disturbed_sync(who),
            90..96 => self.killed_sync(who),
            96..97 => {
                self.count("server kills");
                self.restart_server();
            }
            97..98 => self.collect(who)?,
            _ => {
                self.count("clock jumps");
                self.clients[who].clock = self.chance.below(200_000) as i64 - 100_000;
            }
        }
        Ok(())
    }

    fn sync(&mut self, who: usize) -> Result<(), String> {
        self.count("syncs");
        let client = &self.clients[who];
        let (code, said) = client.sync(&self.place);
        if code != Some(0) {
            return Err(format!("a sync of {} without disturbance ended with {code:?}: {said}", client.name));
        }
        if client.waiting(&self.place) == 0 {
            self.books.recorded(&client.folder);
        }
        Ok(())
    }

    /// The server's administrator collects; sometimes somebody syncs meanwhile.
    fn collect(&mut self, who: usize) -> Result<(), String> {
        self.count("collections");
        let Some(server) = &self.server else { return Err("no server".to_owned()) };
        let mut syncing = (self.chance.below(2) == 0).then(|| self.clients[who].start_sync(&self.place));
        let (status, body) = server.request("POST", "/v1/admin/gc", b"{}");
        let said = String::from_utf8_lossy(&body);
        if let Some(child) = &mut syncing {
            child.wait().unwrap();
        }
        if status != 200 || !said.contains("\"report\"") {
            return Err(format!("collecting ended with {status}: {said}"));
        }
        Ok(())
    }

    /// A sync while its files are edited, or its connections are cut.
    fn disturbed_sync(&mut self, who: usize) {
        let mut child = self.clients[who].start_sync(&self.place);
        let (cut, after) = (self.chance.below(2) == 0, self.chance.below(20_000) as u64);
        let begun = self.clients[who].tap.count().total();
        while child.try_wait().unwrap().is_none() {
            if self.clients[who].tap.count().total() > begun + after {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if cut {
            self.clients[who].tap.cut();
            self.count("cuts");
        } else {
            edits::edit(&self.clients[who].folder, &mut self.chance, &mut self.books, who);
            self.count("edits during a sync");
        }
        child.wait().unwrap();
    }

    fn killed_sync(&mut self, who: usize) {
        let mut child = self.clients[who].start_sync(&self.place);
        std::thread::sleep(Duration::from_millis(self.chance.below(300) as u64));
        if self.chance.below(4) == 0 {
            self.restart_server();
            self.count("server kills during a sync");
        } else {
            child.kill().unwrap();
            self.count("client kills");
        }
        child.wait().unwrap();
    }

    fn restart_server(&mut self) {
        // Killed first: it holds its data folder.
        drop(self.server.take());
        let server = Server::start(&self.place);
        for client in &self.clients {
            client.tap.cut();
            client.tap.move_to(server.authority().parse().unwrap());
        }
        self.server = Some(server);
    }

    /// All come together, and all that was written is somewhere.
    fn finish(&mut self) -> Result<(), String> {
        let mut differing = String::new();
        for _ in 0..ROUNDS {
            for who in 0..self.clients.len() {
                self.sync(who)?;
                self.clients[who].drop_parked(&self.place);
            }
            differing = self.clients[1..].iter().map(|client| client.differs(&self.clients[0])).collect();
            if differing.is_empty() && self.clients.iter().all(|client| client.is_settled(&self.place)) {
                return self.check();
            }
        }
        let standing: String = self.clients.iter().map(|client| client.standing(&self.place)).collect();
        Err(format!("the clients do not come together:\n{differing}{standing}"))
    }

    fn check(&mut self) -> Result<(), String> {
        let Some(server) = &self.server else { return Err("no server".to_owned()) };
        let lost = self.books.lost(server, &self.clients);
        if !lost.is_empty() {
            return Err(format!("{} contents are lost:\n{}", lost.len(), lost.join("\n")));
        }
        let memory = server.peak_memory();
        if memory > SERVER_MEMORY {
            return Err(format!("the server took {memory} bytes of memory"));
        }
        let (taken, written) = (client::size(server.data()), self.books.bytes());
        if taken > 2 * written + SERVER_BYTES {
            return Err(format!("the data folder takes {taken} bytes for {written} that were written"));
        }
        for client in &self.clients {
            client.check_disk()?;
            if client.peak.bytes() > SYNC_MEMORY {
                return Err(format!("a sync of {} took {} bytes of memory", client.name, client.peak.bytes()));
            }
        }
        let most = self.clients.iter().map(|client| client.peak.bytes()).max().unwrap_or(0);
        self.counts.insert("MB of memory at a sync's peak", most >> 20);
        self.counts.insert("MB of the server's data folder", taken >> 20);
        self.counts.insert("contents written", self.books.written());
        self.counts.insert("contents looked for", self.books.required());
        self.counts.insert("MB of memory at the server's peak", memory >> 20);
        Ok(())
    }
}
