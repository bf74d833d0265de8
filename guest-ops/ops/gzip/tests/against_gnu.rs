//! The same command lines by this gzip and by the system's: exit code, standard output and the files
//! that are left must be the same, compressed bytes aside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const OURS: &str = env!("CARGO_BIN_EXE_gzip");
const SYSTEM: &str = "/usr/bin/gzip";

fn run(program: &str, dir: &Path, args: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let bytes = stdin.to_vec();
    // The program may end without reading; that is its own business.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&bytes)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Compressed bytes as header and content, since two compressors never agree on the rest.
fn readable(bytes: &[u8]) -> String {
    if !bytes.starts_with(&[0x1f, 0x8b, 8]) {
        return bytes.escape_ascii().to_string();
    }
    let output = run(SYSTEM, Path::new("/"), &["-dc"], bytes);
    if output.status.code() != Some(0) {
        return bytes.escape_ascii().to_string();
    }
    let name: Vec<u8> = bytes[10..].iter().take_while(|&&b| bytes[3] & 8 != 0 && b != 0).copied().collect();
    format!("header {:?} {} {}", &bytes[..10], name.escape_ascii(), output.stdout.escape_ascii())
}

/// Each file that is left, as a line.
fn tree(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_str().unwrap();
            let meta = path.symlink_metadata().unwrap();
            let mode = meta.permissions().mode() & 0o7777;
            if meta.is_dir() {
                found.insert(format!("{name}/ {mode:o}"));
                folders.push(path);
            } else if meta.is_symlink() {
                found.insert(format!("{name} -> {:?}", fs::read_link(&path).unwrap()));
            } else {
                let content = readable(&fs::read(&path).unwrap());
                found.insert(format!("{name} {mode:o} {} {content}", meta.mtime()));
            }
        }
    }
    found
}

/// Exit code, standard output and files, as lines.
fn outcome(program: &str, files: &Path, args: &[&str], stdin: &[u8]) -> BTreeSet<String> {
    let dir = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(files.join(".")).arg(dir.path()).status().unwrap();
    assert!(copied.success());
    let output = run(program, dir.path(), args, stdin);
    let mut lines = tree(dir.path());
    lines.insert(format!("exit {:?}", output.status.code()));
    lines.insert(format!("stdout {}", readable(&output.stdout)));
    lines
}

/// What differs between the two programs, to be shown; nothing if they agree.
fn difference(files: &Path, args: &[&str], stdin: &[u8]) -> String {
    let expected = outcome(SYSTEM, files, args, stdin);
    let found = outcome(OURS, files, args, stdin);
    if found == expected {
        return String::new();
    }
    let lacks: Vec<_> = expected.difference(&found).collect();
    let adds: Vec<_> = found.difference(&expected).collect();
    format!("gzip {args:?} < {:?}\nexpected {lacks:#?}\nfound {adds:#?}\n", stdin.escape_ascii().to_string())
}

/// Compares command lines on the files that a script makes.
fn same(setup: &str, lines: &[&[&str]]) {
    let files = tempfile::tempdir().unwrap();
    let made = Command::new("sh").args(["-ec", setup]).current_dir(files.path()).status().unwrap();
    assert!(made.success());
    let all: String = lines.iter().map(|args| difference(files.path(), args, b"")).collect();
    assert!(all.is_empty(), "{all}");
}

fn same_for_inputs(lines: &[&[&str]], inputs: &[&[u8]]) {
    let none = tempfile::tempdir().unwrap();
    let pairs = lines.iter().flat_map(|args| inputs.iter().map(|input| difference(none.path(), args, input)));
    let all: String = pairs.collect();
    assert!(all.is_empty(), "{all}");
}

/// Files with modes and times, plain and compressed.
const FILES: &str = "
    umask 022
    seq 300 >a; seq 500 >b; : >empty; seq 3 | tee setuid setgid >sticky
    chmod 640 a; chmod 4755 setuid; chmod 2755 setgid; chmod 1644 sticky
    touch -d @1234567890 a; touch -d @1300000000 b
    gzip -k a; cp a.gz renamed.gz; touch -d @1400000000 renamed.gz; chmod 600 renamed.gz
    cat a.gz a.gz >two.gz; (cat a.gz; echo garbage) >garbage.gz
    (cat a.gz; head -c 999 /dev/zero) >zeros.gz; (cat zeros.gz; echo x) >mixed.gz
    head -c 100 a.gz >short.gz; head -c 5 a.gz >header.gz; : >nothing.gz; echo plain >plain.gz
    mkdir d d/e; seq 20 >d/x; seq 30 >d/e/y; touch -d @1400000000 d/x; gzip -k d/x; mkdir one; seq 9 >one/f; touch -d @1500000000 one/f; ln -s ../a d/link
    ln -s a soft; ln -s a.gz soft.gz; cp b hard; ln hard hard2
    cp a.gz t.tgz; cp a.gz m-gz; cp a.gz u_z; cp a.gz own.foo
    for f in *.* m-gz u_z empty hard set* sticky d/x d/x.gz d/e/y; do touch -hd @1400000000 $f; done
";

#[test]
fn compress_in_place() {
    same(
        FILES,
        &[
            &["b"][..],
            &["-9", "b", "empty"],
            &["-1nk", "b"],
            &["--fast", "--name", "--keep", "b"],
            &["-k", "a"],
            &["-kf", "a"],
            &["-q", "b", "missing", "d"],
            &["a.gz"],
            &["t.tgz", "m-gz", "u_z"],
            &["-S", ".foo", "b"],
            &["-S", ".foo", "own.foo", "a.gz"],
            &["-S", "", "b"],
            &["soft"],
            &["-f", "soft"],
            &["hard"],
            &["-f", "hard"],
            &["d"],
            &["-r", "d"],
            &["-rf", "d/"],
            &["--", "b"],
            &["b", "-c", "b"],
            &["--bogus", "b"],
            &["-1x", "b"],
            &["setuid", "setgid", "sticky"],
            &["-f", "setuid", "setgid", "sticky"],
        ],
    );
}

#[test]
fn decompress_in_place() {
    same(
        FILES,
        &[
            &["-d", "renamed"][..],
            &["-d", "renamed.gz"],
            &["-dN", "renamed.gz"],
            &["-dNf", "renamed.gz"],
            &["-dk", "two.gz", "d/x.gz"],
            &["-dfk", "a.gz"],
            &["-d", "a.gz"],
            &["-d", "a"],
            &["-d", "garbage.gz"],
            &["-dq", "garbage.gz"],
            &["-d", "zeros.gz"],
            &["-dv", "zeros.gz"],
            &["-d", "mixed.gz"],
            &["-d", "short.gz", "header.gz", "nothing.gz", "plain.gz"],
            &["-df", "plain.gz"],
            &["-d", "t.tgz", "m-gz", "u_z"],
            &["-d", "own.foo"],
            &["-d", "-S", ".foo", "own.foo"],
            &["-d", "-S.foo", "own"],
            &["-d", "soft.gz"],
            &["-df", "soft.gz"],
            &["-d", "d"],
            &["-dr", "d"],
            &["-drf", "d"],
            &["-d", "missing", "renamed"],
            &["--uncompress", "renamed"],
            &["--decomp", "renamed"],
        ],
    );
}

#[test]
fn to_standard_output() {
    same(
        FILES,
        &[
            &["-c", "a"][..],
            &["-c", "a.gz"],
            &["-9c", "a", "b"],
            &["-nc", "a"],
            &["-rc", "one"],
            &["-dc", "two.gz", "missing", "a"],
            &["-dc", "short.gz"],
            &["-dcf", "plain.gz", "a.gz", "b"],
            &["-dcf", "empty"],
            &["-dc", "garbage.gz"],
            &["-dc", "soft", "hard"],
            &["-t", "a.gz", "two.gz", "soft.gz"],
            &["-t", "a"],
            &["-t", "short.gz"],
            &["-tr", "d"],
            &["-tq", "zeros.gz", "garbage.gz"],
            &["-l", "a.gz", "renamed.gz"],
            &["-l", "renamed", "missing"],
            &["-lv", "a.gz"],
            &["-lvN", "a.gz", "renamed.gz"],
            &["-lq", "a.gz", "renamed.gz"],
            &["-l", "t.tgz", "own.foo"],
            &["-l", "plain.gz"],
            &["-lt", "a.gz"],
            &["-lr", "d"],
            &["-l", "missing", "missing2"],
        ],
    );
}

#[test]
fn standard_input() {
    let compressed = run(SYSTEM, Path::new("/"), &["-c"], b"some words\n").stdout;
    let damaged = |at: usize| {
        let mut bytes = compressed.clone();
        let at = bytes.len() - at;
        bytes[at] ^= 1;
        bytes
    };
    same_for_inputs(&[&[], &["-9"], &["-"], &["-c", "-"]], &[b"", b"some words\n"]);
    let twice = [&compressed[..], &compressed].concat();
    let cut = &twice[..compressed.len() + 9];
    same_for_inputs(
        &[&["-d"], &["-dc"], &["-t"], &["-df"], &["-dcf"], &["-l"], &["-lv"]],
        &[b"", &compressed, cut, &damaged(1), &damaged(5), b"words", b"\x1f\x8b", b"\x1f\x8b\x07"],
    );
    same_for_inputs(&[&["-dcf"]], &[b"\x1f", b"words", b"longer words\n"]);
}

#[test]
fn other_names_decompress() {
    let dir = tempfile::tempdir().unwrap();
    let compressed = run(SYSTEM, dir.path(), &["-c"], b"words").stdout;
    for name in ["zcat", "gunzip"] {
        std::os::unix::fs::symlink(OURS, dir.path().join(name)).unwrap();
        fs::write(dir.path().join("f.gz"), &compressed).unwrap();
        let output = run(dir.path().join(name).to_str().unwrap(), dir.path(), &["f.gz"], b"");
        assert_eq!(output.status.code(), Some(0));
        let in_place = name == "gunzip";
        assert_eq!(output.stdout, if in_place { &b""[..] } else { b"words" });
        assert_eq!(dir.path().join("f").exists(), in_place);
        assert_eq!(dir.path().join("f.gz").exists(), !in_place);
    }
}

#[test]
fn help_and_version_are_shown() {
    for arg in ["-h", "--help", "-V", "--version"] {
        let output = run(OURS, Path::new("/"), &[arg], b"");
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{arg}");
    }
}

/// Bytes that compress somewhat: repeats of short random pieces.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), 1..400usize), 0..30)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(piece, n)| piece.repeat(n)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn round_trips_in_both_directions(
        members in prop::collection::vec((content(), 1..10u8), 1..4),
        ours_first: bool,
    ) {
        let (compressor, other) = if ours_first { (OURS, SYSTEM) } else { (SYSTEM, OURS) };
        let mut compressed = Vec::new();
        for (bytes, level) in &members {
            let output = run(compressor, Path::new("/"), &[&format!("-{level}")], bytes);
            prop_assert_eq!(output.status.code(), Some(0));
            compressed.extend(output.stdout);
        }
        let expected: Vec<u8> = members.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        for program in [other, compressor] {
            let output = run(program, Path::new("/"), &["-d"], &compressed);
            prop_assert_eq!(output.status.code(), Some(0));
            prop_assert!(output.stdout == expected);
        }
    }
}
