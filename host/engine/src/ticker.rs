//! One thread an engine that moves the epoch while anything runs, so that runs look at their deadline.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wasmtime::{Engine, EngineWeak};

/// Time between two looks of a run at its deadline, its cancel flag and its progress.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// The thread's handle. It starts with the first run, sleeps while nothing runs and ends with the engine.
#[derive(Default)]
pub(crate) struct Ticker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    started: bool,
    stopped: bool,
    running: usize,
}

/// The epoch moves while one of these lives.
pub(crate) struct Ticking(Arc<Shared>);

impl Ticker {
    /// Makes the epoch of `engine` move.
    pub(crate) fn start(&self, engine: &Engine) -> io::Result<Ticking> {
        let mut state = self.0.lock();
        if !state.started {
            let (shared, engine) = (Arc::clone(&self.0), engine.weak());
            std::thread::Builder::new().name("opship-epoch".into()).spawn(move || tick(&shared, &engine))?;
            state.started = true;
        }
        state.running += 1;
        self.0.wake.notify_one();
        Ok(Ticking(Arc::clone(&self.0)))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.lock().stopped = true;
        self.0.wake.notify_one();
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tick(shared: &Shared, engine: &EngineWeak) {
    loop {
        let mut state = shared.lock();
        while state.running == 0 && !state.stopped {
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let stopped = state.stopped;
        drop(state);
        let Some(engine) = engine.upgrade().filter(|_| !stopped) else { return };
        std::thread::sleep(TICK);
        engine.increment_epoch();
    }
}
