//! What a run is recorded to have seen: enough to tell whether it would go the same way again, and nothing of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use opship_record::Hash;
use opship_record::effect::{After, Before};
use opship_record::node::Kind;
use opship_record::observation::{Observation, listing_digest};
use opship_world::{Errno, MemoryTree};

fn absent(at: &str, missing: &str, above: Kind) -> Observation {
    Observation::Absent { path: path(at), missing: path(missing), above }
}

fn exists(at: &str, kind: Kind) -> Observation {
    Observation::Exists { path: path(at), kind }
}

fn content(at: &str, bytes: &[u8]) -> Observation {
    Observation::Content { path: path(at), hash: Hash::of(bytes) }
}

fn tree() -> MemoryTree {
    MemoryTree::new().file_with("d/f", "text", 0o600, 7).symlink("l", "d/f").directory("e")
}

#[test]
fn only_what_was_looked_at_is_observed() {
    let mut guest = Guest::new(tree());
    guest.open("d/f", 0, READ).unwrap();
    assert_eq!(guest.observations(), [exists("d/f", Kind::File)]);

    let mut guest = Guest::new(tree());
    guest.read_file("l").unwrap();
    let target = Observation::LinkTarget { path: path("l"), target: b"d/f".to_vec() };
    assert_eq!(guest.observations(), [content("d/f", b"text"), target]);

    let mut guest = Guest::new(tree());
    guest.stat("d/f", 0).unwrap();
    let metadata = Observation::Metadata { path: path("d/f"), kind: Kind::File, mode: 0o600, mtime: 7, size: 4 };
    assert_eq!(guest.observations(), [metadata]);

    assert!(Guest::new(tree()).observations().is_empty());
}

#[test]
fn a_missing_path_is_observed_with_its_first_missing_component() {
    let mut guest = Guest::new(tree());
    assert_eq!(guest.stat("x/y/z", 1), Err(Errno::Noent));
    assert_eq!(guest.stat("d/f/g/h", 1), Err(Errno::Notdir));
    assert_eq!(guest.stat("d/n", 1), Err(Errno::Noent));
    let expected = [
        absent("d/f/g/h", "d/f/g", Kind::File),
        absent("d/n", "d/n", Kind::Directory),
        absent("x/y/z", "x", Kind::Directory),
    ];
    assert_eq!(guest.observations(), expected);
}

#[test]
fn opening_for_writing_without_truncation_observes_the_content() {
    let mut guest = Guest::new(tree());
    guest.open("d/f", 0, WRITE).unwrap();
    let outcome = guest.finish();
    assert_eq!(outcome.lists.observations, [content("d/f", b"text")]);
    assert!(outcome.lists.changes.is_empty(), "nothing was written");

    let mut guest = Guest::new(tree());
    guest.open("d/f", TRUNC, WRITE).unwrap();
    let outcome = guest.finish();
    assert_eq!(outcome.lists.observations, [exists("d/f", Kind::File)]);
    assert_eq!(outcome.lists.changes[0].before, Before::File { hash: Hash::of(b"text") });
}

#[test]
fn what_the_run_made_is_not_observed() {
    let mut guest = Guest::new(tree());
    guest.write_file("n", b"1").unwrap();
    guest.read_file("n").unwrap();
    guest.stat("n", 0).unwrap();
    guest.mkdir("m").unwrap();
    assert_eq!(guest.stat("m/x", 0), Err(Errno::Noent));
    guest.list("m").unwrap();
    guest.unlink("n").unwrap();
    assert_eq!(guest.stat("n", 0), Err(Errno::Noent));
    assert_eq!(guest.observations(), [absent("m", "m", Kind::Directory), absent("n", "n", Kind::Directory)]);
}

#[test]
fn a_listing_is_that_of_the_source_whatever_the_run_did_before() {
    let listing = |guest: &mut Guest| guest.list(".").unwrap();
    let mut guest = Guest::new(tree());
    guest.unlink("l").unwrap();
    guest.write_file("n", b"").unwrap();
    assert_eq!(listing(&mut guest), ["d", "e", "n"]);
    let seen = guest.observations();
    let names = [("d", Kind::Directory), ("e", Kind::Directory), ("l", Kind::Symlink)];
    assert!(seen.contains(&Observation::Listing { path: path(""), digest: listing_digest(names) }), "{seen:?}");
}

#[test]
fn removing_a_directory_observes_that_it_is_empty() {
    let mut guest = Guest::new(tree());
    assert_eq!(guest.rmdir("d"), Err(Errno::Notempty));
    guest.rmdir("e").unwrap();
    let outcome = guest.finish();
    let of = |at: &str, names: &[(&str, Kind)]| Observation::Listing {
        path: path(at),
        digest: listing_digest(names.iter().copied()),
    };
    let mut expected = [of("d", &[("f", Kind::File)]), of("e", &[])];
    expected.sort();
    assert_eq!(outcome.lists.observations, expected);
    assert_eq!(outcome.lists.changes.len(), 1);
    assert_eq!(outcome.lists.changes[0].after, After::Removed);
}

#[test]
fn a_temporary_file_that_is_gone_is_no_change() {
    let mut guest = Guest::new(tree());
    guest.write_file("d/t", b"x").unwrap();
    guest.rename("d/t", "d/u").unwrap();
    guest.unlink("d/u").unwrap();
    let outcome = guest.finish();
    assert!(outcome.lists.changes.is_empty() && outcome.files.is_empty());
    assert_eq!(outcome.lists.observations.len(), 2);
}

#[test]
fn a_renamed_directory_is_one_change_and_a_renamed_file_keeps_mode_and_time() {
    let mut guest = Guest::new(tree());
    guest.rename("d", "e/g").unwrap();
    guest.rename("e/g/f", "f").unwrap();
    let outcome = guest.finish();
    let afters: Vec<_> = outcome.lists.changes.iter().map(|c| (c.path.as_str(), &c.after)).collect();
    let file = After::File { length: 4, hash: Hash::of(b"text"), mode: Some(0o600), mtime: 7 };
    let moved = After::Moved { from: path("d"), mode: None };
    let expected = [("d", &After::Removed), ("e/g", &moved), ("e/g/f", &After::Removed), ("f", &file)];
    assert_eq!(afters, expected);
    assert!(outcome.files.is_empty(), "a file that was only renamed has no new content");
}

#[test]
fn a_directory_below_its_own_old_place_is_recorded_as_made_anew() {
    let mut guest = Guest::new(tree());
    guest.rename("d", "t").unwrap();
    guest.mkdir("d").unwrap();
    guest.rename("t", "d/old").unwrap();
    let changes = guest.changes();
    let afters: Vec<_> = changes.iter().map(|c| (c.path.as_str(), &c.after)).collect();
    let file = After::File { length: 4, hash: Hash::of(b"text"), mode: Some(0o600), mtime: 7 };
    // Nobody looked at the mode of the old one, so that of the new one is said.
    let made = After::Directory { mode: Some(0o755) };
    let expected =
        [("d", &made), ("d/f", &After::Removed), ("d/old", &After::Directory { mode: None }), ("d/old/f", &file)];
    assert_eq!(afters, expected);
}

#[test]
fn setting_metadata_alone_is_a_metadata_change() {
    let mut guest = Guest::new(tree());
    guest.set_mode("d/f", 0o755).unwrap();
    assert_eq!(guest.mode("d/f"), Ok(0o755));
    guest.set_mtime("l", 99).unwrap();
    guest.set_mode("e", 0o700).unwrap();
    assert_eq!(guest.set_mode("l", 0o700), Err(Errno::Notsup));
    assert_eq!(guest.set_mode(".", 0o700), Err(Errno::Perm));
    // Bits that lend rights are left out.
    guest.set_mode("e", 0o4700).unwrap();
    assert_eq!(guest.mode("e"), Ok(0o700));
    let changes = guest.changes();
    let of = |kind, mode, mtime| After::Metadata { kind, mode, mtime };
    let afters: Vec<_> = changes.iter().map(|c| (c.path.as_str(), c.after.clone())).collect();
    let expected = [
        ("d/f", of(Kind::File, Some(0o755), None)),
        ("e", of(Kind::Directory, Some(0o700), None)),
        ("l", of(Kind::Symlink, None, Some(99))),
    ];
    assert_eq!(afters, expected);
}

#[test]
fn lists_do_not_depend_on_the_order_in_which_the_tree_was_made() {
    let run = |source: MemoryTree| {
        let mut guest = Guest::new(source);
        let names = guest.list(".").unwrap();
        let numbers: Vec<u64> = names.iter().map(|name| guest.stat(name, 0).unwrap().ino).collect();
        guest.write_file("out", format!("{names:?}{numbers:?}").as_bytes()).unwrap();
        guest.finish().lists
    };
    let one = run(MemoryTree::new().file("a", "1").file("b/c", "2").symlink("z", "a"));
    let two = run(MemoryTree::new().symlink("z", "a").file("b/c", "2").file("a", "1"));
    assert_eq!(one, two);
}

#[test]
fn what_takes_anothers_place_says_its_mode_whatever_that_one_has() {
    let after = |mode: u16, run: &dyn Fn(&mut Guest)| {
        let mut guest = Guest::new(MemoryTree::new().file_with("f", "1", mode, 7).file("g", "2"));
        run(&mut guest);
        guest.finish().lists
    };
    let renamed = |guest: &mut Guest| guest.rename("g", "f").unwrap();
    let made_anew = |guest: &mut Guest| {
        guest.unlink("f").unwrap();
        guest.write_file("f", b"3").unwrap();
    };
    let runs: [&dyn Fn(&mut Guest); 2] = [&renamed, &made_anew];
    for run in runs {
        let lists = after(0o644, run);
        assert_eq!(lists, after(0o600, run), "the mode of what was there was not looked at");
        let change = lists.changes.iter().find(|change| change.path.as_str() == "f").unwrap();
        assert!(matches!(change.after, After::File { mode: Some(0o644), .. }), "{change:?}");
    }
    let overwritten = |guest: &mut Guest| guest.write_file("f", b"3").unwrap();
    let change = after(0o600, &overwritten).changes.remove(0);
    assert!(matches!(change.after, After::File { mode: None, .. }), "overwriting keeps the mode: {change:?}");
}
