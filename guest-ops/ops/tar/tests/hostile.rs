//! Archives that try to write where they should not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::path::Path;
use support::{OURS, run, tree};

/// A member in the simplest form: type, name, link, content.
type Raw<'a> = (u8, &'a str, &'a str, &'a str);

fn archive(members: &[Raw<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, name, link, content) in members {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000755");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[136..147].copy_from_slice(b"00000000005");
        header[156] = *kind;
        header[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header[257..265].copy_from_slice(b"ustar  \0");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        bytes.extend(header);
        bytes.extend(content.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.extend([0; 1024]);
    bytes
}

/// Extracts into `in` beside a directory `out` with a file; that must be as before. The tree of `in`.
fn extract(members: &[Raw<'_>], options: &[&str], before: &str) -> (Option<i32>, String, String) {
    let dir = support::prepare(&format!("mkdir in out; echo safe >out/file; touch -d @9 out/file out; {before}"));
    let out = dir.path().join("out");
    let was = tree(&out);
    // An absolute path into the directory that must not change.
    let absolute = out.to_str().unwrap().to_owned();
    let members: Vec<_> = members
        .iter()
        .map(|&(kind, name, link, content)| (kind, name, link.replace("OUT", &absolute), content))
        .collect();
    let raw: Vec<Raw<'_>> =
        members.iter().map(|(kind, name, link, content)| (*kind, *name, &link[..], *content)).collect();
    let output = run(OURS, &dir.path().join("in"), &[&["-xp"][..], options].concat(), &archive(&raw));
    assert_eq!(tree(&out), was, "written outside: {members:?}");
    let mut here: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    here.sort();
    assert_eq!(here, ["in", "out"], "written outside: {members:?}");
    let left = tree(&dir.path().join("in"));
    (output.status.code(), left, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn names_that_lead_up_are_refused() {
    for name in ["../x", "a/../../x", "..", "/../x", "a/.."] {
        let (code, left, errors) = extract(&[(b'0', name, "", "bad"), (b'0', "good", "", "x")], &[], ":");
        assert_eq!(code, Some(2), "{name}");
        assert!(errors.contains("Member name contains '..'"), "{errors}");
        assert!(left.starts_with("good "), "{left}");
    }
    let (code, left, _) = extract(&[(b'5', "../out", "", "")], &[], ":");
    assert_eq!((code, &left[..]), (Some(2), ""));
}

#[test]
fn absolute_names_go_below_the_target() {
    let (code, left, errors) = extract(&[(b'0', "/a//b", "", "x")], &[], ":");
    assert_eq!(code, Some(0));
    assert!(left.contains("a/b "), "{left}");
    assert_eq!(errors, "tar: Removing leading `/' from member names\n");
    let (_, left, _) = extract(&[(b'0', "/a", "", "x")], &["-P"], ":");
    assert!(left.contains("a "), "{left}");
}

#[test]
fn nothing_is_written_through_a_link_of_the_archive() {
    for target in ["../out", "OUT", "."] {
        for members in [
            &[(b'2', "l", target, ""), (b'0', "l/file", "", "bad")][..],
            &[(b'2', "l", target, ""), (b'5', "l/file/d", "", "")],
            &[(b'2', "l", target, ""), (b'2', "l/new", "x", "")],
            &[(b'5', "d", "", ""), (b'2', "d/l", target, ""), (b'0', "d/l/file", "", "bad")],
            &[(b'2', "l", target, ""), (b'1', "h", "l", ""), (b'0', "h/file", "", "bad")],
            &[(b'2', "l", target, ""), (b'1', "h", "l/file", "")],
        ] {
            let (code, left, errors) = extract(members, &[], ":");
            assert_eq!(code, Some(2), "{members:?}");
            assert!(errors.contains("is a symbolic link"), "{errors}");
            assert!(!left.contains("file "), "{left}");
        }
    }
}

#[test]
fn a_file_takes_the_place_of_a_link_and_not_of_what_it_leads_to() {
    let (code, left, _) = extract(&[(b'2', "l", "../out/file", ""), (b'0', "l", "", "new")], &[], ":");
    assert_eq!(code, Some(0));
    assert!(left.starts_with("l 0755 5.000000000 1 3 bytes"), "{left}");
}

#[test]
fn a_link_that_was_there_is_not_followed_either() {
    let (code, left, errors) = extract(&[(b'0', "l/file", "", "bad")], &[], "ln -s ../out in/l");
    assert_eq!(code, Some(2));
    assert!(errors.contains("is a symbolic link"), "{errors}");
    assert!(left.contains("l ") && !left.contains("l/file"), "{left}");
    // Nor is its target's mode or time set: the directory takes the link's place.
    let (code, left, _) = extract(&[(b'5', "l", "", ""), (b'0', "l/file", "", "x")], &[], "ln -s ../out in/l");
    assert_eq!(code, Some(0));
    assert!(left.contains("l/file 0755"), "{left}");
}

#[test]
fn a_directory_that_became_a_link_gets_no_mode() {
    let (code, left, _) = extract(&[(b'5', "d", "", ""), (b'2', "d", "../out", "")], &[], ":");
    assert_eq!(code, Some(0));
    assert!(left.contains("-> \"../out\""), "{left}");
}

#[test]
fn hard_links_stay_below_the_target() {
    for link in ["../out/file", "a/../../out/file"] {
        let (code, left, errors) = extract(&[(b'1', "h", link, ""), (b'0', "h", "", "bad")], &[], ":");
        assert_eq!(code, Some(2));
        assert!(errors.contains("contains '..'"), "{errors}");
        assert!(left.starts_with("h 0755 5.000000000 1 "), "{left}");
    }
    let (code, _, errors) = extract(&[(b'1', "h", "OUT/file", "")], &[], ":");
    assert_eq!(code, Some(2));
    assert!(errors.contains("Cannot hard link"), "{errors}");
}

#[test]
fn stripping_does_not_open_a_way() {
    let (code, _, _) = extract(&[(b'0', "a/../../out/file", "", "bad")], &["--strip-components=1"], ":");
    assert_eq!(code, Some(2));
    let (code, left, _) = extract(&[(b'0', "a//x", "", "ok")], &["--strip-components=1"], ":");
    assert_eq!(code, Some(0));
    assert!(left.starts_with("x "), "{left}");
}

#[test]
fn devices_and_pipes_are_not_made() {
    for kind in [b'3', b'4', b'6'] {
        let (code, left, _) = extract(&[(kind, "dev", "", ""), (b'0', "good", "", "x")], &[], ":");
        assert_eq!(code, Some(2));
        assert!(left.starts_with("good "), "{left}");
    }
}

#[test]
fn a_target_directory_may_be_reached_by_a_link() {
    let dir = support::prepare("mkdir real; ln -s real l");
    let bytes = archive(&[(b'0', "a/b", "", "x")]);
    assert!(run(OURS, dir.path(), &["-x", "-C", "l"], &bytes).status.success());
    assert!(Path::new(&dir.path().join("real/a/b")).exists());
}
