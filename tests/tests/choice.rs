//! Which way operations go: by their records or by their results, what is told of it beforehand and afterwards.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{Place, Server, assert_same_tree, noise, run_through};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

struct Here {
    place: Place,
    server: Server,
    copy: PathBuf,
}

fn here() -> Here {
    let place = Place::new();
    let server = Server::start(&place);
    let copy = place.init(&server, "here", "main");
    Here { place, server, copy }
}

impl Here {
    /// As users have it: nothing says how operations travel.
    fn json(&self, arguments: &[&str]) -> Value {
        let mut command = self.place.command(&self.copy);
        let output = command.env_remove("OPSHIP_SHIP").arg("--json").args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Packs so many zeros, which takes long and gives little, and gives the entry.
    fn pack_zeros(&self, bytes: usize) -> String {
        fs::write(self.copy.join("zeros"), vec![0; bytes]).unwrap();
        self.place.ok(&self.copy, ["sync"]);
        self.place.ok(&self.copy, ["run", "gzip", "--", "-k", "zeros"]);
        self.json(&["log", "-n", "1"])["entries"][0]["number"].to_string()
    }

    fn newest(&self) -> Value {
        self.json(&["log", "-n", "1"])["entries"][0].clone()
    }

    fn arrives_as_it_is(&self) {
        let address = format!("{}/main", self.server.url());
        self.place.ok(&self.place.path(""), ["clone", &address, "there"]);
        assert_same_tree(&self.copy, &self.place.path("there"));
    }
}

fn way_of(plan: &Value, command: &str) -> String {
    let entries = plan["entries"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["command"].as_str().unwrap().starts_with(command)).unwrap();
    assert!(entry["predicted_bytes"].is_u64() && entry["predicted_micros"].is_u64(), "{entry}");
    assert!(!entry["because"].as_str().unwrap().is_empty(), "{entry}");
    entry["way"].as_str().unwrap().to_owned()
}

#[test]
fn results_that_arrive_sooner_than_a_replay_travel_instead() {
    let here = here();
    let number = here.pack_zeros(96 << 20);
    assert_eq!(way_of(&here.json(&["sync", "--dry-run"]), "gzip"), "value");
    here.json(&["sync"]);
    let entry = here.newest();
    assert_eq!((&entry["kind"], &entry["verdict"]), (&"value".into(), &"shipped".into()), "{entry}");
    assert_eq!((&entry["reason"], &entry["command"]), (&"cheaper-by-value".into(), &"gzip -k zeros".into()));
    assert_eq!(entry["prediction"]["way"], "value");
    assert!(entry["shipped_micros"].as_u64().unwrap() > 0 && entry["run_micros"].as_u64().unwrap() > 0, "{entry}");
    let shown = here.place.ok(&here.copy, ["show", &number]);
    assert!(shown.contains("predicted: ") && shown.contains("its results travelled; it took "), "{shown}");
    here.arrives_as_it_is();
}

#[test]
fn a_chain_of_which_a_link_travels_by_its_results_arrives_as_it_is() {
    let here = here();
    here.pack_zeros(96 << 20);
    here.place.ok(&here.copy, ["run", "sort", "--", "-o", "sorted", "zeros.gz"]);
    here.place.ok(&here.copy, ["run", "gzip", "--", "-k", "sorted"]);
    here.json(&["sync"]);
    let log = here.json(&["log", "-n", "3"]);
    let verdicts: Vec<&str> =
        log["entries"].as_array().unwrap().iter().map(|e| e["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["matched", "matched", "shipped"], "{log}");
    here.arrives_as_it_is();
}

#[test]
fn the_user_has_the_last_word() {
    let here = here();
    here.pack_zeros(96 << 20);
    assert_eq!(way_of(&here.json(&["sync", "--dry-run", "--ship", "operation"]), "gzip"), "operation");
    here.json(&["sync", "--ship", "operation"]);
    assert_eq!(here.newest()["verdict"], "matched");
    here.place.ok(&here.copy, ["run", "sort", "--", "-o", "sorted", "zeros.gz"]);
    assert_eq!(way_of(&here.json(&["sync", "--dry-run"]), "sort"), "operation");
    configure(&here.copy, "value");
    assert_eq!(way_of(&here.json(&["sync", "--dry-run"]), "sort"), "value");
    here.json(&["sync"]);
    assert_eq!(here.newest()["reason"], "cheaper-by-value");
    configure(&here.copy, "sometimes");
    let refused = here.place.run(&here.copy, ["sync"]);
    assert_eq!(refused.code, Some(125), "{refused}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("config.toml"), "{refused}");
}

fn configure(copy: &Path, ship: &str) {
    let file = copy.join(".opship/config.toml");
    let text = fs::read_to_string(&file).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("ship")).collect();
    fs::write(&file, format!("{}\nship = \"{ship}\"\n", kept.join("\n"))).unwrap();
}

#[test]
fn a_plan_names_the_way_of_each_entry() {
    let here = here();
    let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    fs::write(here.copy.join("text"), &text).unwrap();
    here.place.ok(&here.copy, ["sync"]);
    fs::write(here.copy.join("text"), text.replace("line 7\n", "line seven\n")).unwrap();
    here.place.ok(&here.copy, ["run", "sort", "--", "-o", "sorted", "text"]);
    fs::copy(here.copy.join("text"), here.copy.join("copy")).unwrap();
    here.place.ok(&here.copy, ["run", "gzip", "--", "-k", "copy"]);
    let plan = here.json(&["sync", "--dry-run"]);
    assert_eq!(way_of(&plan, "changed text"), "delta", "{plan}");
    assert_eq!([way_of(&plan, "sort"), way_of(&plan, "gzip")], ["operation", "operation"]);
    here.json(&["sync"]);
    assert_eq!(here.json(&["sync", "--dry-run"])["entries"], serde_json::json!([]));
}

/// Over a link on which these results would take much longer than a replay, if all of them had to go.
#[test]
fn results_count_as_what_of_them_the_server_lacks() {
    let here = here();
    let mut lines: Vec<String> = noise(1, 2 << 20).chunks(8).map(|line| format!("{line:02x?}\n")).collect();
    fs::write(here.copy.join("lines"), lines.concat()).unwrap();
    here.place.ok(&here.copy, ["run", "gzip", "--", "-kn", "lines"]);
    let tap = Tap::start_paced(here.server.authority().parse().unwrap(), 500_000).unwrap();
    run_through(&here.place, &tap, &here.server, &here.copy, &["sync"]);
    // Compressing takes long, and all but the end of what comes of it is there already.
    lines.push("[0]\n".to_owned());
    fs::write(here.copy.join("lines"), lines.concat()).unwrap();
    here.place.ok(&here.copy, ["run", "gzip", "--", "-kfn", "lines"]);
    here.place.ok(&here.copy, ["run", "sort", "--", "-r", "-o", "turned", "lines"]);
    let plan = here.json(&["sync", "--dry-run"]);
    assert_eq!([way_of(&plan, "gzip"), way_of(&plan, "sort -r")], ["value", "operation"], "{plan}");
    here.json(&["sync"]);
    // What is as something that the server has is only named.
    fs::copy(here.copy.join("lines"), here.copy.join("again")).unwrap();
    here.place.ok(&here.copy, ["run", "gzip", "--", "-kn", "again"]);
    assert_eq!(way_of(&here.json(&["sync", "--dry-run"]), "gzip"), "value");
    here.json(&["sync"]);
    let log = here.json(&["log", "-n", "5"]);
    let told =
        |entry: &Value| (entry["verdict"].as_str().unwrap().to_owned(), entry["sent"].as_u64().unwrap() < 20_000);
    let told: Vec<_> = log["entries"].as_array().unwrap().iter().map(told).collect();
    let few = |verdict: &str| (verdict.to_owned(), true);
    let expected = ["shipped", "shipped", "matched", "shipped", "shipped"].map(few);
    assert_eq!(told, expected, "{log}");
    here.arrives_as_it_is();
}
