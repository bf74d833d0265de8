//! Cases of conformance: a module, what it gets, and what must come of it. The form is that of the official WASI test
//! suite (WebAssembly/wasi-testsuite): `X.wasm` with an optional `X.json` beside it.

mod case;
mod root;
mod spill;

pub use case::{Case, CaseError, cases};
pub use root::read_tree;
pub use spill::TempSpill;

use opship_engine::{Engine, Finished, Run, RunError};
use opship_record::plan::{PROFILE, Plan, Step};
use opship_record::{FORMAT_VERSION, Hash};
use opship_world::{Budget, Fixtures, Produced, WorldConfig};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// How long a case may run.
const DEADLINE: Duration = Duration::from_secs(120);
/// Most characters of a stream in a reason.
const SHOWN: usize = 2000;

/// Runs a case in a fresh world.
///
/// # Errors
/// The reason why it failed, for people.
pub fn run(engine: &Engine, case: &Case) -> Result<(), String> {
    let finished = finish(engine, case).map_err(|error| error.to_string())?;
    let exit = finished.outcome.lists.exits.first().copied().unwrap_or_default();
    let Some((stdout, stderr)) = finished.outcome.streams.first() else {
        return Err("the run has no streams".to_owned());
    };
    let (stdout, stderr) = (text(stdout)?, text(stderr)?);
    let mut wrong = String::new();
    if exit != case.exit_code {
        let _ = write!(wrong, "exit code {exit}, not {}", case.exit_code);
    }
    for (name, is, wanted) in [("stdout", &stdout, &case.stdout), ("stderr", &stderr, &case.stderr)] {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != is) {
            let gap = if wrong.is_empty() { "" } else { "; " };
            let _ = write!(wrong, "{gap}{name} is {}, not {}", shown(is), shown(wanted));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    // What the module itself says of its failure.
    for (name, is) in [("stdout", &stdout), ("stderr", &stderr)] {
        if !is.is_empty() && !wrong.contains(&format!("{name} is")) {
            let _ = write!(wrong, "; {name}: {}", shown(is));
        }
    }
    Err(wrong)
}

fn finish(engine: &Engine, case: &Case) -> Result<Finished, RunError> {
    let hash = Hash::of(&case.module);
    let (module, _) = engine.load(&hash, &mut || Ok(case.module.clone()))?;
    let name = format!("{}.wasm", case.name);
    let mut step = Step::new(hash, std::iter::once(name).chain(case.arguments.iter().cloned()));
    let pairs = case
        .environment
        .iter()
        .map(|(name, value)| (name.clone().into_bytes().into(), value.clone().into_bytes().into()));
    step.environment = Some(pairs.collect()).filter(|pairs: &Vec<_>| !pairs.is_empty());
    let plan = Plan {
        format: FORMAT_VERSION,
        steps: vec![step],
        clock_start: 1_700_000_000_000_000_000,
        seed: [0; 16].into(),
        limits: None,
        profile: PROFILE,
    };
    let world = WorldConfig {
        plan,
        source: Arc::new(case.root.clone().unwrap_or_default()),
        spill: Arc::new(TempSpill),
        budget: Budget::default(),
        stdin_blobs: BTreeMap::new(),
        mounts: BTreeMap::new(),
        fixtures: Fixtures { variables: false, directories: case.root.is_some() },
    };
    let modules = BTreeMap::from([(hash, module)]);
    engine.run(Run { deadline: Some(DEADLINE), ..Run::new(world, &modules) })
}

fn text(stream: &Produced) -> Result<String, String> {
    let mut bytes = Vec::new();
    stream.copy_to(&mut bytes).map_err(|error| format!("what it printed cannot be read: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A quoted, shortened form that cannot command a terminal.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more}")
}
