//! The same command lines by this sort and by the system's, in the C locale: standard output, exit code
//! and the output file must be the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::process::Command;

const OURS: &str = env!("CARGO_BIN_EXE_sort");
const SYSTEM: &str = "/usr/bin/sort";

/// Exit code, standard output, and what is in the file `out`.
fn outcome(program: &str, dir: &Path, args: &[String]) -> (Option<i32>, String, Option<String>) {
    let out = dir.join("out");
    let _ = fs::remove_file(&out);
    let stdin = fs::File::open(dir.join("stdin")).unwrap();
    let output =
        Command::new(program).args(args).current_dir(dir).env_clear().env("LC_ALL", "C").stdin(stdin).output().unwrap();
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string().replace("\\n", "\n");
    let written = fs::read(&out).ok().map(|bytes| text(&bytes));
    (output.status.code(), text(&output.stdout), written)
}

fn same(files: &[(&str, &[u8])], args: &[String]) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("stdin"), b"").unwrap();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    let expected = outcome(SYSTEM, dir.path(), args);
    let found = outcome(OURS, dir.path(), args);
    assert!(found == expected, "sort {args:?}\nexpected {expected:?}\nfound    {found:?}");
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn files_and_output() {
    let files: &[(&str, &[u8])] = &[
        ("a", b"c\nb\na"),
        ("b", b"b\nd\n"),
        ("stdin", b"x\nB\n"),
        ("empty", b""),
        ("sorted", b"a\nb\nb\nc\n"),
        ("zero", b"b\0a\nz\0\0a"),
        ("names", b"a\0b\0"),
        ("badnames", b"a\0\0b"),
    ];
    for line in [
        "a b",
        "a - b",
        "",
        "-",
        "empty",
        "empty a",
        "-o out a b",
        "-oout -",
        "-r a b -u",
        "-m a b",
        "-m sorted b sorted -u",
        "-m -u sorted",
        "-m empty sorted",
        "-c sorted",
        "-cu sorted",
        "-c a",
        "-C a",
        "-C sorted",
        "-c a b",
        "-c -o out sorted",
        "-c -C sorted",
        "--check=quiet a",
        "--check=silent sorted",
        "-c empty",
        "-c",
        "-z zero",
        "-zc zero",
        "-z -k2 zero",
        "--files0-from=names",
        "--files0-from=names a",
        "--files0-from=badnames",
        "--files0-from=empty",
        "missing",
        "a missing -o out",
        "-k0 a",
        "-k1.0 a",
        "-k a",
        "-kx a",
        "-k1,0 a",
        "-k1q a",
        "-ng a",
        "-nV a",
        "-d -n a",
        "-di a",
        "-k1n -g -d a",
        "-t xx a",
        "-t, -t: a",
        "-t, -t, a",
        "-tb -k2 a b",
        "-t \\0 a",
        "--sort=numeric a",
        "--sort=n a",
        "--rev a",
        "--re=1 a",
        "--bogus a",
        "-S 10M --parallel=2 -T /tmp --batch-size=4 a b",
        "-o out -o other a",
        "-- a",
    ] {
        let args = if line.is_empty() { Vec::new() } else { words(line) };
        same(files, &args);
    }
    same(files, &["-t", "", "a"].map(str::to_owned));
}

#[test]
fn output_replaces_an_input() {
    let dir = tempfile::tempdir().unwrap();
    for (args, expected) in [(&["-o", "f", "f"][..], "a\nb\nc\n"), (&["-mo", "f", "f", "g"], "a\nb\nc\nd\n")] {
        fs::write(dir.path().join("f"), if args.len() == 3 { "c\na\nb" } else { "a\nb\nc" }).unwrap();
        fs::write(dir.path().join("g"), "d").unwrap();
        let status = Command::new(OURS).args(args).current_dir(dir.path()).status().unwrap();
        assert!(status.success());
        assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), expected);
    }
}

#[test]
fn the_line_out_of_order_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "a\nc\nb\n").unwrap();
    let output = Command::new(OURS).args(["-c", "f"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "sort: f:3: disorder: b\n");
}

#[test]
fn a_random_order_is_refused() {
    let output = Command::new(OURS).arg("-R").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("run again"));
}

/// GNU sort exits 1 here, which says that a file is out of order.
#[test]
fn an_unknown_word_is_an_error_like_others() {
    for arg in ["--check=odd", "--sort=wild"] {
        assert_eq!(Command::new(OURS).arg(arg).output().unwrap().status.code(), Some(2));
    }
}

#[test]
fn help_and_version_are_shown() {
    for arg in ["--help", "--version"] {
        let output = Command::new(OURS).arg(arg).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty() && output.stderr.is_empty(), "{arg}");
    }
}

/// Pieces that lines are made of, chosen to hit what the options look at.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[abAB01.~ -]{0,4}",
        2 => "[ \\t]{0,3}",
        3 => "-?[0-9]{0,3}(\\.[0-9]{0,3})?[KkMGTm]?",
        1 => "0{0,3}[0-9]{0,22}",
        1 => "[+-]?[0-9]{1,3}(\\.[0-9]{1,3})?(e[+-]?[0-9]{1,2})?",
        // Without nan: GNU sort takes two of them for different or not by bytes that it never wrote.
        1 => "-?(inf|0x[0-9a-f]{1,3}(\\.[0-9a-f])?(p-?[0-9])?)",
        1 => "(jan|FEB|Mar|dec|de)",
        2 => "[a-c]{0,2}[-_.]?[0-9]{0,3}(\\.[0-9]{1,2}|~|\\.tar|\\.gz|\\.c~|\\.9)?",
        1 => "[\\x01-\\x7f]{0,3}".prop_map(|s| s.replace('\n', "")),
        1 => Just("é".to_owned()),
    ]
}

fn line() -> impl Strategy<Value = String> {
    (prop::collection::vec(piece(), 0..4), prop::sample::select(vec!["", " ", ":", "  "]))
        .prop_map(|(pieces, glue)| pieces.join(glue))
}

fn text(size: usize) -> impl Strategy<Value = String> {
    (prop::collection::vec(line(), 0..size), any::<bool>())
        .prop_map(|(lines, end)| lines.join("\n") + if end { "\n" } else { "" })
}

/// A key with letters that go together.
fn key() -> impl Strategy<Value = String> {
    let position = || "[1-4](\\.[1-3])?";
    let letters =
        || prop::sample::select(vec!["", "", "b", "n", "r", "f", "V", "g", "h", "M", "d", "i", "bf", "nr", "Vf"]);
    (position(), letters(), prop::option::of((position(), prop::sample::select(vec!["", "", "b", "r"])))).prop_map(
        |(start, letters, end)| match end {
            Some((end, more)) => format!("-k{start}{letters},{end}{more}"),
            None => format!("-k{start}{letters}"),
        },
    )
}

fn options() -> impl Strategy<Value = Vec<String>> {
    let word = |words: &[&'static str]| prop::sample::select(words.to_vec());
    (
        word(&["", "", "-n", "-g", "-h", "-V", "-M", "-d", "-i", "-di", "-n", "-g", "-V"]),
        word(&["", "-r"]),
        word(&["", "", "-f"]),
        word(&["", "", "-b"]),
        word(&["", "", "-s"]),
        word(&["", "", "-u"]),
        word(&["", "", "", "-z"]),
        word(&["", "", "-t:", "-t ", "-t."]),
        prop::collection::vec(key(), 0..3),
    )
        .prop_map(|(order, reverse, fold, blanks, stable, unique, zero, separator, keys)| {
            [order, reverse, fold, blanks, stable, unique, zero, separator]
                .into_iter()
                .filter(|option| !option.is_empty())
                .map(str::to_owned)
                .chain(keys)
                .collect()
        })
}

/// Whether a text has numbers that `-g` of GNU sort does not tell apart, since they are closer together or
/// smaller than its floating point numbers.
fn beyond_floating_point(text: &str) -> bool {
    let many_digits = |part: &str| part.len() > 13;
    let large_exponent = |part: &str| {
        let digits = part.trim_start_matches(['+', '-']);
        digits.len() > 2 && digits.bytes().take(3).all(|b| b.is_ascii_digit())
    };
    text.split(|c: char| !(c.is_ascii_hexdigit() || c == '.')).any(many_digits)
        || text.split(['e', 'E', 'p', 'P']).skip(1).any(large_exponent)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_lines_by_any_options(
        first in text(24),
        second in text(8),
        options in options(),
        task in prop::sample::select(vec!["", "", "", "", "-c", "-m"]),
    ) {
        let mut args = options;
        let general = args.iter().any(|option| option.contains('g'));
        prop_assume!(!(general && beyond_floating_point(&format!("{first}\n{second}"))));
        args.extend((!task.is_empty()).then(|| task.to_owned()));
        args.push("a".to_owned());
        args.extend((task != "-c").then(|| "b".to_owned()));
        same(&[("a", first.as_bytes()), ("b", second.as_bytes())], &args);
    }

    #[test]
    fn names_with_versions(names in prop::collection::vec("[.a1~-]{0,3}[0-9]{0,2}[ab.~]{0,4}[0-9]?[.]?[a-b0~]{0,2}", 0..30)) {
        same(&[("a", names.join("\n").as_bytes())], &["-V".to_owned(), "-s".to_owned(), "a".to_owned()]);
    }

    #[test]
    fn what_was_sorted_is_in_order(lines in text(40), options in options()) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), lines).unwrap();
        let run = |extra: &[&str]| {
            Command::new(OURS).args(&options).args(extra).current_dir(dir.path()).output().unwrap().status.code()
        };
        if run(&["-o", "b", "a"]) == Some(0) {
            prop_assert_eq!(run(&["-c", "b"]), Some(0));
        }
    }
}
