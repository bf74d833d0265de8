//! A real watch process.

use crate::Place;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take that a test waits for.
const DEADLINE: Duration = Duration::from_secs(120);

/// A running `opship watch`; killed when dropped.
#[derive(Debug)]
pub struct Watch {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Watch {
    /// Starts a watch of a working copy and waits until it has begun.
    pub fn start(place: &Place, folder: &Path) -> Watch {
        Watch::start_with(place.command(folder), &[])
    }

    /// Starts it by a command, with more arguments.
    pub fn start_with(mut command: Command, arguments: &[&str]) -> Watch {
        command.args(["--json", "watch"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let to = Arc::clone(&events);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                to.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        let mut watch = Watch { child, events };
        watch.until("started");
        watch
    }

    /// Everything that it has told so far.
    pub fn events(&self) -> Vec<Value> {
        self.events.lock().unwrap().clone()
    }

    /// Waits until it has told of an event, and gives the last of its kind.
    pub fn until(&mut self, event: &str) -> Value {
        eventually(|| {
            let ended = self.child.try_wait().unwrap();
            let events = self.events();
            let found = events.iter().rev().find(|told| told["event"] == event).cloned();
            assert!(found.is_some() || ended.is_none(), "the watch ended: {events:?}");
            found
        })
    }

    /// Its process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Waits until it has ended.
    pub fn ended(&mut self) -> ExitStatus {
        eventually(|| self.child.try_wait().unwrap())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks again and again until there is an answer; fails after two minutes.
pub fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "it has not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until something holds; fails, naming it, after two minutes.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}
