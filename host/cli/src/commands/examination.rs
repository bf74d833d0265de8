//! What people and programs read of a checked module.

use crate::output;
use opship_client::examine::{Compiled, Difference, Examination, Found, Perturbation, Place, Ran};
use opship_client::modules::ModuleChoice;
use opship_engine::RunError;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most differences of a world that people are shown.
const SHOWN: usize = 10;
/// Bytes of a page of memory.
const PAGE: u64 = 64 << 10;

/// What a contradiction means, and what to do about it.
const CONTRADICTION: &str = "a server could not replay what it does: in a world that is equal for it, it did something \
                             else. This must not happen: report it with the module, and ship its results by value";
/// What a dependence on the seed means.
const SECRETS: &str = "its output depends on the random seed, which is in the record: whoever holds the record, the server \
                       among them, can compute keys, passwords or tokens that it makes. Make such things outside of opship";

/// For people.
pub(super) fn print(name: &str, examination: &Examination) {
    output::line(&format!("{}: {}", output::name(name), headline(examination)));
    let Examination { info, compiled, ran } = examination;
    line("module", &format!("{}, {}", output::bytes(info.bytes), output::count(u64::from(info.functions), "function")));
    if info.imports.is_empty() {
        line("imports", "nothing");
    }
    for (index, (module, names)) in by_module(&info.imports).into_iter().enumerate() {
        line(if index == 0 { "imports" } else { "" }, &format!("{module}: {}", names.join(" ")));
    }
    for (index, made) in compiled.iter().enumerate() {
        let what = format!("{} for {}, {}", millis(made.micros), made.target.name(), output::bytes(made.bytes));
        line(if index == 0 { "compiled" } else { "" }, &what);
    }
    match ran {
        Ok(ran) => print_ran(ran),
        Err(error) => output::error(&error.to_string()),
    }
}

/// The names of imports by the module that they are from.
fn by_module(imports: &[(String, String)]) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (module, name) in imports {
        all.entry(module).or_default().push(name);
    }
    all.values_mut().for_each(|names| names.sort_unstable());
    all
}

fn headline(examination: &Examination) -> String {
    let ran = match &examination.ran {
        Err(RunError::Source(_) | RunError::Refused { .. } | RunError::Host { .. }) => return "did not run".to_owned(),
        Err(_) => return "came to no end, so it could not be compared".to_owned(),
        Ok(ran) => ran,
    };
    if !ran.contradictions().is_empty() {
        return "NOT deterministic".to_owned();
    }
    let depends: Vec<&str> = ran.depends_on().into_iter().map(shown).collect();
    match depends.as_slice() {
        [] if ran.usage.asked == Default::default() => {
            "deterministic; what it does depends on its input alone".to_owned()
        }
        [] => "deterministic; what it asked for made no difference in any world".to_owned(),
        [others @ .., last] if !others.is_empty() => {
            format!("deterministic; what it does depends on {} and {last}", others.join(", "))
        }
        [only, ..] => format!("deterministic; what it does depends on {only}"),
    }
}

fn print_ran(ran: &Ran) {
    let pages = ran.usage.memory_pages;
    line("ran", &format!("{}, exit code {}, {} of memory", millis(ran.micros), ran.exit, output::bytes(pages * PAGE)));
    if ran.exit != 0 {
        line("", "the module itself says that it failed: is this the run that you meant?");
    }
    for (index, words) in ran.said.lines().enumerate() {
        line(if index == 0 { "said" } else { "" }, words);
    }
    let (observed, changed) = (output::count(ran.observed as u64, "thing"), output::count(ran.changed as u64, "path"));
    let produced = output::bytes(ran.produced_bytes);
    line("did", &format!("saw {observed}, changed {changed}, wrote {produced}; record of {} B", ran.record_bytes));
    line("asked for", &asked(ran));
    for comparison in &ran.comparisons {
        let name = shown(comparison.world);
        match &comparison.found {
            Found::Same => line(name, "the same"),
            Found::Skipped(why) => line(name, &format!("not compared: {why}")),
            Found::Ended(error) => line(name, &format!("DIFFERS: {error}")),
            Found::Differs(differences) => print_differences(name, differences),
        }
    }
    if ran.depends_on().contains(&Perturbation::Seed) {
        output::note(&format!("warning: {SECRETS}"));
    }
    if !ran.contradictions().is_empty() {
        output::error(CONTRADICTION);
    }
}

fn print_differences(name: &str, differences: &[Difference]) {
    for (index, difference) in differences.iter().take(SHOWN).enumerate() {
        line(if index == 0 { name } else { "" }, &format!("DIFFERS in {}", in_words(difference)));
    }
    if differences.len() > SHOWN {
        line("", &format!("and {} more (--json shows them)", differences.len() - SHOWN));
    }
}

/// One line of the report: what it is about, and what there is to say.
fn line(about: &str, text: &str) {
    output::line(&format!("  {about:<17} {}", output::name(text)));
}

/// A world's name for people.
fn shown(world: Perturbation) -> &'static str {
    match world {
        Perturbation::Clock => "clock",
        Perturbation::Seed => "random seed",
        Perturbation::EnvironmentOrder => "environment order",
        Perturbation::Repeat => "run again",
        Perturbation::ListingOrder => "listing order",
        Perturbation::Cached => "compiled before",
        Perturbation::Load => "beside load",
        Perturbation::Baseline => "least processor",
        Perturbation::Interpreter => "interpreter",
    }
}

fn asked(ran: &Ran) -> String {
    let asked = ran.usage.asked;
    let all = [(asked.clock, "the time"), (asked.random, "random bytes"), (asked.poll, "sleep or readiness")];
    let some: Vec<String> = all
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{what} ({})", output::count(*count, "call")))
        .collect();
    if some.is_empty() { "neither time nor random bytes".to_owned() } else { some.join(", ") }
}

fn in_words(difference: &Difference) -> String {
    match difference {
        Difference::Exit(a, b) => format!("exit code: {a} and {b}"),
        Difference::Bytes { place, offset, lengths: [a, b] } => {
            let place = match place {
                Place::Stdout => "standard output".to_owned(),
                Place::Stderr => "standard error".to_owned(),
                Place::File(path) => format!("'{path}'"),
            };
            format!("{place} from byte {offset} on ({a} and {b} bytes)")
        }
        Difference::Path { path, aspect } => format!("'{path}': {}", aspect.name()),
    }
}

fn millis(micros: u64) -> String {
    let decimals = if micros < 10_000 { 3 } else { 0 };
    format!("{:.decimals$} ms", micros as f64 / 1000.0)
}

/// For programs; docs/user-guide.md describes it.
pub(super) fn as_json(choice: &ModuleChoice, examination: &Examination) -> Value {
    let Examination { info, compiled, ran } = examination;
    let imports: Vec<String> = info.imports.iter().map(|(module, name)| format!("{module}.{name}")).collect();
    let compiled: Vec<Value> = compiled.iter().map(compiled_as_json).collect();
    let mut value = json!({
        "module": choice.name, "hash": choice.hash.to_string(), "length": info.bytes, "functions": info.functions,
        "imports": imports, "compiled": compiled, "error": null,
    });
    match ran {
        Ok(ran) => merge(&mut value, ran_as_json(ran)),
        Err(error) => value["error"] = json!(error.to_string()),
    }
    value
}

fn merge(value: &mut Value, more: Value) {
    if let (Value::Object(value), Value::Object(more)) = (value, more) {
        value.extend(more);
    }
}

fn compiled_as_json(compiled: &Compiled) -> Value {
    json!({ "target": compiled.target.name(), "micros": compiled.micros, "bytes": compiled.bytes })
}

fn ran_as_json(ran: &Ran) -> Value {
    let names = |worlds: Vec<Perturbation>| worlds.into_iter().map(Perturbation::name).collect::<Vec<_>>();
    let (depends_on, asked) = (ran.depends_on(), ran.usage.asked);
    json!({
        "deterministic": ran.contradictions().is_empty(),
        "secrets_can_be_computed": depends_on.contains(&Perturbation::Seed),
        "depends_on": names(depends_on),
        "contradictions": names(ran.contradictions()),
        "asked_for": { "clock": asked.clock, "random": asked.random, "poll": asked.poll },
        "exit": ran.exit, "said": ran.said, "micros": ran.micros, "memory_pages": ran.usage.memory_pages,
        "observed": ran.observed, "changed": ran.changed,
        "produced_bytes": ran.produced_bytes, "record_bytes": ran.record_bytes,
        "worlds": ran.comparisons.iter().map(|c| found_as_json(c.world, &c.found)).collect::<Vec<_>>(),
    })
}

fn found_as_json(world: Perturbation, found: &Found) -> Value {
    let (result, detail, differences) = match found {
        Found::Same => ("same", None, Vec::new()),
        Found::Differs(all) => ("differs", None, all.iter().map(difference_as_json).collect()),
        Found::Ended(error) => ("ended", Some(error), Vec::new()),
        Found::Skipped(why) => ("skipped", Some(why), Vec::new()),
    };
    json!({
        "world": world.name(), "recorded": world.is_recorded(), "result": result, "detail": detail,
        "differences": differences,
    })
}

fn difference_as_json(difference: &Difference) -> Value {
    match difference {
        Difference::Exit(a, b) => json!({ "what": "exit", "values": [a, b] }),
        Difference::Bytes { place, offset, lengths } => {
            let (what, path) = match place {
                Place::Stdout => ("stdout", None),
                Place::Stderr => ("stderr", None),
                Place::File(path) => ("content", Some(path.as_str())),
            };
            json!({ "what": what, "path": path, "offset": offset, "lengths": lengths })
        }
        Difference::Path { path, aspect } => json!({ "what": aspect.name(), "path": path.as_str() }),
    }
}
