//! The conformance guests in the world and under a second host (wasmtime's own WASI on a real directory): the same exit
//! code, the same bytes on both streams, the same tree.
//!
//! What differs on purpose is never printed by these scenarios:
//!
//! | what | reference | world | how the guests avoid it |
//! | --- | --- | --- | --- |
//! | clock values, times of new files | the machine's | the record's | print whether they fit together |
//! | random bytes | the machine's | from the seed | print whether they look random and differ |
//! | listing order | the file system's | byte order | sort |
//! | inode and device numbers | the file system's | counted | compare two of one host |
//! | size and link count of directories | the file system's | 0 and 1 | print those of files and links only |
//! | buffers of one read or write that are used | the first that is not empty | all | go on with the rest |
//! | ready files that one poll reports | some | all | print that there is one and no clock |
//! | exit codes from 126 on | a trap | a result | end with smaller ones |
//! | values outside an enumeration, pointers outside the memory | a trap | `EINVAL`, `EFAULT` | scenario `world` only |
//! | `fd_sync` of a directory | `EBADF` | succeeds, as on POSIX: careful programs do it | scenario `world` only |
//! | `path_remove_directory` of `x/` | `EINVAL` | succeeds, as on POSIX | scenario `world` only |
//! | offsets near 2⁶³ | what the kernel and the file system say | writing `EFBIG`, reading nothing | scenario `world` only |
//! | seeking beyond the last offset | comes out at the start, and writing overwrites it | `EINVAL` | scenario `world` only |
//! | listing while removing | names may be left out | each name once | scenario `world` only |
//! | 100,000 files | each call reads the whole directory again, so hours | 100,000 | 1,000 here |
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::languages::{ASSEMBLYSCRIPT, C, GO, Language, RUST, input};
use opship_tests::{Guest, Seen, run_in_reference};

fn compare(language: &Language) {
    let Some(module) = language.find() else { return };
    let scenarios = language.scenarios();
    let Some(reference) = run_in_reference(&module, &scenarios, &input()) else { return };
    let guest = Guest::load(&module);
    let mut differences = Vec::new();
    for (scenario, reference) in scenarios.iter().zip(&reference) {
        let (world, _) = guest.run(scenario, &input());
        if world != *reference {
            differences.push(format!("{}:\n{}", scenario.name(), difference(&world, reference)));
        }
    }
    assert!(differences.is_empty(), "the guest in {}:\n{}", language.name, differences.join("\n"));
}

/// The first lines and paths that differ.
fn difference(world: &Seen, reference: &Seen) -> String {
    let mut found = Vec::new();
    if world.exit != reference.exit {
        found.push(format!("  exit: world {:?}, reference {:?}", world.exit, reference.exit));
    }
    for (stream, one, two) in
        [("stdout", &world.stdout, &reference.stdout), ("stderr", &world.stderr, &reference.stderr)]
    {
        let (one, two) = (String::from_utf8_lossy(one), String::from_utf8_lossy(two));
        let (mut ours, mut theirs) = (one.lines(), two.lines());
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => break,
                (a, b) if a == b => {}
                (a, b) => found.push(format!("  {stream}: world {a:?}, reference {b:?}")),
            }
        }
    }
    let paths: std::collections::BTreeSet<&String> = world.tree.keys().chain(reference.tree.keys()).collect();
    for path in paths {
        let (a, b) = (world.tree.get(path), reference.tree.get(path));
        if a != b {
            found.push(format!("  {path}: world {a:?}, reference {b:?}"));
        }
    }
    found.truncate(40);
    found.join("\n")
}

#[test]
fn rust_does_the_same_on_both_hosts() {
    compare(&RUST);
}

#[test]
fn c_does_the_same_on_both_hosts() {
    compare(&C);
}

#[test]
fn go_does_the_same_on_both_hosts() {
    compare(&GO);
}

#[test]
fn assemblyscript_does_the_same_on_both_hosts() {
    compare(&ASSEMBLYSCRIPT);
}
