//! Holds the layering of the crates: dependencies point one way (see ARCHITECTURE.md).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Each package with the packages of ours that it may use outside of tests. Who is not listed as
/// somebody's may not be used: `record` knows nobody, `client` neither the store nor the server.
const MAY_USE: &[(&str, &[&str])] = &[
    ("opship-record", &[]),
    ("opship-sys", &[]),
    ("opship-residual", &["opship-record"]),
    ("opship-pace", &["opship-record", "opship-sys"]),
    ("opship-world", &["opship-record"]),
    ("opship-engine", &["opship-world", "opship-record"]),
    ("opship-storage", &["opship-engine", "opship-world", "opship-record", "opship-residual", "opship-pace"]),
    (
        "opship-client",
        &["opship-engine", "opship-world", "opship-record", "opship-residual", "opship-pace", "opship-sys"],
    ),
    (
        "opship-server",
        &[
            "opship-storage",
            "opship-engine",
            "opship-world",
            "opship-record",
            "opship-residual",
            "opship-pace",
            "opship-sys",
        ],
    ),
    (
        "opship",
        &[
            "opship-client",
            "opship-server",
            "opship-storage",
            "opship-engine",
            "opship-world",
            "opship-record",
            "opship-residual",
            "opship-pace",
            "opship-sys",
        ],
    ),
    ("opship-tap", &[]),
    // xtask builds the others, so it leans on little: plain data and the relay that counts bytes.
    ("xtask", &["opship-record", "opship-tap"]),
];

/// Packages that drive all others and that nobody uses.
const DRIVERS: &[&str] = &["opship-tests", "opship-bench", "opship-linkemu"];

/// A dependency inside the workspace.
struct Edge {
    from: String,
    to: String,
}

fn metadata() -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--no-deps", "--format-version=1"])
        .current_dir(root)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

/// Normal and build dependencies on a package by path; tests may use what they like.
fn edges(metadata: &Value) -> Vec<Edge> {
    let mut edges = Vec::new();
    for package in list(metadata, "packages") {
        for dependency in list(package, "dependencies") {
            if dependency["path"].is_null() || dependency["kind"] == "dev" {
                continue;
            }
            edges.push(Edge { from: text(package, "name").to_owned(), to: text(dependency, "name").to_owned() });
        }
    }
    edges
}

fn allowed(from: &str, to: &str) -> bool {
    if DRIVERS.contains(&from) {
        return !DRIVERS.contains(&to) && to != "xtask";
    }
    MAY_USE.iter().any(|(name, uses)| *name == from && uses.contains(&to))
}

#[test]
fn dependencies_point_one_way() {
    let edges = edges(&metadata());
    assert!(
        edges.iter().any(|edge| edge.from == "opship-world" && edge.to == "opship-record"),
        "world's use of record was not seen: this test reads the metadata wrongly"
    );
    let wrong: Vec<String> = edges
        .iter()
        .filter(|edge| !allowed(&edge.from, &edge.to))
        .map(|edge| format!("{} uses {}", edge.from, edge.to))
        .collect();
    assert!(wrong.is_empty(), "against the layering: {wrong:#?}");
}

#[test]
fn every_package_has_a_place() {
    let metadata = metadata();
    for package in list(&metadata, "packages") {
        let name = text(package, "name");
        let known = DRIVERS.contains(&name) || MAY_USE.iter().any(|(known, _)| *known == name);
        assert!(known, "{name} has no place in MAY_USE of this test yet");
    }
}

#[test]
fn the_table_itself_has_no_circle() {
    // Whoever is used stands above its user, so that following the table always ends.
    for (place, (name, uses)) in MAY_USE.iter().enumerate() {
        for used in *uses {
            let above = MAY_USE[..place].iter().any(|(other, _)| other == used);
            assert!(above, "{name} may use {used}, which does not stand above it");
        }
    }
}
