//! The same command lines by this tar and by the system's: archives, exit code, standard output and the
//! files that are left must be the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{DETERMINISTIC, OURS, SYSTEM, prepare, run, script, tree, words};

/// Files of all kinds, with modes and times.
const FILES: &str = r#"
    umask 022
    mkdir -p d/e/deep d/empty; seq 300 >d/a; seq 2000 >d/e/b; : >d/zero; echo x >top
    head -c 512 /dev/zero >d/block; seq 99999 | head -c 10240 >d/e/deep/big
    L=$(printf 'n%.0s' $(seq 98)); echo long >d/$L; ln -s $L d/tolong; ln -s $L$L d/tolonger
    echo long2 >d/${L}nn; mkdir d/${L}n; echo 1 >d/${L}n/f; ln d/${L}nn d/zz
    ln -s a d/soft; ln -s /etc/hostname d/absolute; ln -s ../../.. d/up; ln -s gone d/dangling
    ln d/a d/hard; ln d/a d/e/hard2; ln -P d/soft d/softhard
    chmod 600 d/a; chmod 4755 d/e/b; chmod 1777 d/empty; chmod 711 d/e/deep; chmod 2664 d/zero
    printf 'x' >'d/with blank'; printf 'y' >'d/back\slash'; printf 'z' >'d/new
line'; echo u >d/ü; echo s >'d/[set]'
    find . -exec touch -hd @1234567890 {} +
    touch -d @1300000000.123456789 d/a; touch -d @86400 d/zero; touch -d @1500000000 d/e d
"#;

/// Exit code, standard output and files after one command on a copy of files.
fn outcome(program: &str, files: &Path, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(files.join(".")).arg(dir.path()).status().unwrap();
    assert!(copied.success());
    let output = run(program, dir.path(), args, b"");
    format!("exit {:?}\n{}\n{}", output.status.code(), output.stdout.escape_ascii(), tree(dir.path()))
}

/// Compares command lines on the files that a script makes; all that differ are shown.
fn same(setup: &str, lines: &[&str]) {
    let files = prepare(setup);
    let mut differing = String::new();
    for line in lines {
        let args = words(line);
        let (expected, found) = (outcome(SYSTEM, files.path(), &args), outcome(OURS, files.path(), &args));
        if expected == found {
            continue;
        }
        let all = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        let (e, f) = (all(&expected), all(&found));
        let lacks: Vec<_> = e.difference(&f).collect();
        let adds: Vec<_> = f.difference(&e).collect();
        differing.push_str(&format!("tar {line}\nexpected {lacks:#?}\nfound {adds:#?}\n"));
    }
    assert!(differing.is_empty(), "{differing}");
}

/// The same, with an archive of [`FILES`] at hand and an empty directory `x`.
fn same_with_archive(lines: &[&str]) {
    let setup =
        format!("{FILES}\ntar -cf a.tar d; tar -czf a.tgz d; tar --format=posix -cf p.tar d; rm -rf d; mkdir x\n");
    same(&setup, lines);
}

fn archive(program: &str, dir: &Path, args: &[&str]) -> Vec<u8> {
    let output = run(program, dir, args, b"");
    assert_eq!(output.status.code(), Some(0), "{args:?} {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn archives_are_the_same_bytes() {
    let dir = prepare(FILES);
    for line in [
        "-c d",
        "-c ./d top",
        "-c .",
        "-c d/ top",
        "-c d//e d",
        "-c --exclude=e d",
        "-c --exclude=d/e --exclude=n* d",
        "-c --exclude=*.x --exclude=zero --exclude=[ab] d",
        "-c --no-recursion d d/a",
        "-c --mtime=@77 d",
        "-c -C d a e -C e b",
        "-c -C d . -C e .",
        "-ch d/soft d/e",
        "cC d a",
        "-c d/e/../a d/hard",
        "-c -- d/zero",
        "-c --null top",
    ] {
        let mut theirs = DETERMINISTIC.to_vec();
        theirs.extend(words(line));
        let old_style = !line.starts_with('-');
        let args = if old_style { words(line) } else { theirs.clone() };
        if old_style {
            // The system's tar takes an old style bundle as first argument only.
            theirs = words(line);
            theirs.extend(DETERMINISTIC);
        }
        let (expected, found) = (archive(SYSTEM, dir.path(), &theirs), archive(OURS, dir.path(), &args));
        assert!(expected == found, "tar {line}: differ at {:?}", expected.iter().zip(&found).position(|(a, b)| a != b));
    }
}

#[test]
fn lists() {
    same_with_archive(&[
        "-tf a.tar",
        "-tvf a.tar",
        "-tvvf a.tgz",
        "tzf a.tgz",
        "tf p.tar -v",
        "-tf a.tar d/e d/a",
        "-tf a.tar d/e/",
        "-tf a.tar missing d/a",
        "-tf a.tar ./d",
        "-tf a.tar --wildcards d/[abz]*",
        "-tf a.tar --wildcards *e",
        "-tf a.tar --exclude=e --exclude=d/n*",
        "-tf a.tar --exclude=*",
        "-tf missing.tar",
        "-tzf a.tar",
        "-tf top",
    ]);
}

#[test]
fn extracts() {
    same_with_archive(&[
        "-xf a.tar --no-same-permissions",
        "-xpf a.tar",
        "-xpvf a.tgz",
        "xpfC p.tar x",
        "-xpf a.tar -C x d/e d/a",
        "-xpf a.tar -C x d/hard d/a",
        "-xpf a.tar --strip-components=1 -C x d/e d/a d/hard",
        "-xpf a.tar --strip-components=2 -C x",
        "-xpf a.tar --strip-components=9 -C x",
        "-xpf a.tar -C x missing",
        "-xpf a.tar d/e/b -C x d/zero",
        "-xOf a.tar d/a d/zero d/soft d/e",
        "-xpf a.tar --exclude=e --exclude=n*",
        "-xf a.tar -p --wildcards d/b*",
        "-xf missing.tar",
        "--get --file=a.tar --same-permissions d/a",
    ]);
}

#[test]
fn what_is_there_already() {
    let setup = format!(
        "{FILES}
        tar --sort=name -cf a.tar d/a d/e/b d/soft d/empty d/hard d/zero; rm -rf d
        mkdir -p d/soft d/e; echo old >d/a; echo other >keep; ln d/a d/hard; ln -s ../keep d/zero; mkdir d/empty
        find . -name '*[a-z]' -exec touch -hd @1400000000 {{}} +
        "
    );
    same(&setup, &["-xpf a.tar", "-xpkf a.tar", "-xpf a.tar --skip-old-files", "-xpUf a.tar"]);
    let blocked = format!("{setup}\necho in the way >d/soft/file; touch -d @1400000000 d/soft/file d/soft");
    same(&blocked, &["-xpf a.tar", "-xpkf a.tar"]);
    let file = "mkdir d; echo 1 >d/a; tar -cf a.tar d; rm -r d; echo 2 >d; touch -d @1400000000 d a.tar";
    same(file, &["-xpf a.tar d/a"]);
}

#[test]
fn touched_files_are_new() {
    let dir = prepare("echo 1 >a; touch -d @5 a; tar -cf a.tar a; rm a");
    assert!(run(OURS, dir.path(), &["-xmf", "a.tar"], b"").status.success());
    let age = fs::metadata(dir.path().join("a")).unwrap().modified().unwrap().elapsed().unwrap();
    assert!(age.as_secs() < 1_000_000);
}

#[test]
fn formats_of_the_systems_tar_are_read() {
    let setup = format!(
        "{FILES}
        for f in v7 oldgnu gnu ustar posix; do tar --format=$f -cf $f.tar d/a d/hard d/e d/soft d/empty d/zero; done
        tar --format=posix -cf long.tar d
        truncate -s 3M holes; printf start | dd of=holes conv=notrunc status=none
        printf middle | dd of=holes bs=1 seek=1000000 conv=notrunc status=none; cp holes tail; printf end >>tail
        touch -d @7 holes tail
        tar -S --format=gnu -cf sparse-gnu.tar holes tail
        for v in 0.0 0.1 1.0; do tar -S --format=posix --sparse-version=$v -cf sparse-$v.tar holes tail top; done
        rm -rf d holes tail
        "
    );
    same(
        &setup,
        &[
            "-xpf v7.tar",
            "-xpf oldgnu.tar",
            "-xpf gnu.tar",
            "-xpf ustar.tar",
            "-xpf posix.tar",
            "-xpf long.tar",
            "-tvf long.tar",
            "-tvf v7.tar",
            "-xpf sparse-gnu.tar",
            "-xpf sparse-0.0.tar",
            "-xpf sparse-0.1.tar",
            "-xpf sparse-1.0.tar",
            "-tvf sparse-gnu.tar",
            "-tvf sparse-0.0.tar",
            "-tvf sparse-0.1.tar",
            "-tvf sparse-1.0.tar",
        ],
    );
}

#[test]
fn the_systems_tar_reads_what_is_made() {
    for make in ["-cf", "--format=pax -cf", "-czf", "-caf"] {
        let name = if make == "-caf" { "a.tgz" } else { "a.tar" };
        let dir = prepare(FILES);
        let before = tree(dir.path());
        let mut args = words(make);
        args.extend([name, "d", "top"]);
        assert_eq!(run(OURS, dir.path(), &args, b"").status.code(), Some(0));
        script(dir.path(), "chmod -R u+w d; rm -r d top");
        assert_eq!(run(SYSTEM, dir.path(), &["-xpf", name], b"").status.code(), Some(0));
        fs::remove_file(dir.path().join(name)).unwrap();
        let after = tree(dir.path());
        if make.contains("pax") {
            assert!(after.contains("1300000000.123456789"), "{after}");
            assert_eq!(after, before);
        } else {
            assert_eq!(after, before.replace(".123456789", ".000000000"));
        }
    }
}

#[test]
fn the_archive_is_not_stored_in_itself() {
    let setup = "echo 1 >a; touch -d @5 a .";
    let dir = prepare(setup);
    let output = run(OURS, dir.path(), &["-cf", "all.tar", "."], b"");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"tar: ./all.tar: file is the archive; not dumped\n");
    script(dir.path(), &format!("{OURS} -c . >out.tar 2>/dev/null"));
    for name in ["all.tar", "out.tar"] {
        let listed = run(SYSTEM, dir.path(), &["-tf", name], b"").stdout;
        assert!(!String::from_utf8(listed).unwrap().contains(&format!("./{name}")));
    }
}

#[test]
fn names_from_files_and_verbose_lists() {
    let setup = format!(
        "{FILES}\nprintf 'd/a\\nd/with blank\\n\\ntop\\n' >list; printf 'd/new\\nline\\0top' >list0
        printf 'e\\nn*\\n' >out; touch -d @5 list list0 out; mkdir -p r; touch -d @6 r"
    );
    let dir = prepare(&setup);
    for line in ["-c -T list", "-c --null -T list0", "-c top -T list -C d zero", "-c -X out d", "-c -T /dev/null"] {
        let mut theirs = DETERMINISTIC.to_vec();
        theirs.extend(words(line));
        let (expected, found) = (archive(SYSTEM, dir.path(), &theirs), archive(OURS, dir.path(), &words(line)));
        assert!(expected == found, "{line}");
    }
    for args in [&["-cvf", "/dev/null", "d"][..], &["-cvvf", "/dev/null", "d/e", "d/a", "d/hard"]] {
        let theirs = [&DETERMINISTIC[..5], args].concat();
        let (expected, found) = (run(SYSTEM, dir.path(), &theirs, b""), run(OURS, dir.path(), args, b""));
        assert_eq!(expected.stdout.escape_ascii().to_string(), found.stdout.escape_ascii().to_string());
        assert!(!found.stdout.is_empty());
    }
    let to_stdout = run(OURS, dir.path(), &["-cv", "top"], b"");
    assert_eq!(to_stdout.stderr, b"top\n");
}

#[test]
fn errors_and_their_codes() {
    let setup = format!("{FILES}\ntar -cf a.tar d/a d/e; head -c 700 a.tar >short.tar; head -c 3000 a.tar >shorter.tar; : >empty
        tar -czf a.tgz d/e; head -c 3000 a.tgz >short.tgz; (cat a.tgz; echo x) >garbage.tgz; head -c 1024 a.tar >noend.tar
        rm -rf d; touch -d @5 *.t*");
    same(
        &setup,
        &[
            "-cf new.tar missing",
            "-cf new.tar",
            "-tf empty",
            "-tf noend.tar",
            "-tf short.tgz",
            "-tf garbage.tgz",
            "-t --delete",
            "-f a.tar",
            "-xf a.tar --strip-components=x",
            "tf",
        ],
    );
    // Here GNU tar says 64, for a usage error found by its option parser.
    for line in ["--bogus", "-Q", "-tf"] {
        let dir = prepare(":");
        assert_eq!(run(OURS, dir.path(), &words(line), b"").status.code(), Some(2), "{line}");
    }
    // A member that is cut off is an error even where only its name is wanted.
    let dir = prepare(&setup);
    for (line, code) in [("-xf short.tgz", 2), ("-tf short.tar", 2), ("-xf shorter.tar", 2), ("-tf shorter.tar", 2)] {
        let output = run(OURS, dir.path(), &words(line), b"");
        assert_eq!(output.status.code(), Some(code), "{line}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("Unexpected EOF in archive"), "{line}");
    }
}

#[test]
fn help_and_version_are_shown() {
    for arg in ["--help", "--version"] {
        let output = run(OURS, Path::new("/"), &[arg], b"");
        assert!(output.status.success() && !output.stdout.is_empty() && output.stderr.is_empty(), "{arg}");
    }
}

/// A script that makes one file of a random tree.
fn file() -> impl Strategy<Value = String> {
    let path = "[a-c]{1,2}(/[a-c\\\\ü ]{1,3}){0,3}(/x{90,110})?";
    let kind = prop_oneof![
        5 => (0..5000u32, prop::sample::select(vec!["644", "600", "755", "444"]))
            .prop_map(|(size, mode)| format!("head -c {size} /dev/zero | tr '\\0' x >\"$p\" && chmod {mode} \"$p\"")),
        1 => Just("mkdir \"$p\"".to_owned()),
        2 => "[a-c/.]{1,9}(y{100})?".prop_map(|target| format!("ln -s '{target}' \"$p\"")),
        1 => Just("f=$(find . -type f | sort | head -1) && [ -n \"$f\" ] && ln \"$f\" \"$p\"".to_owned()),
    ];
    (path, kind, 0..2_000_000_000u32).prop_map(|(path, kind, time)| {
        // What cannot be made beside what is there already is left out, without a word.
        format!("p='{path}'; mkdir -p \"$(dirname \"$p\")\" && {{ {kind}; }} && touch -hd @{time} \"$p\" || true\n")
            .replace("&&", "2>/dev/null &&")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_tree_is_the_same_archive_and_comes_back(files in prop::collection::vec(file(), 0..12), pax: bool) {
        let dir = prepare(&format!("mkdir t; cd t\n{}", files.concat()));
        let theirs = archive(SYSTEM, dir.path(), &[DETERMINISTIC, &["-c", "t"][..]].concat());
        let ours = archive(OURS, dir.path(), &["-c", "t"]);
        prop_assert!(theirs == ours);
        let other = archive(OURS, dir.path(), &["-c", if pax { "--format=pax" } else { "-z" }, "t"]);
        let before = tree(&dir.path().join("t"));
        for (program, bytes) in [(OURS, &ours), (OURS, &other), (SYSTEM, &other)] {
            let out = prepare(":");
            let gzip: &[&str] = if bytes.starts_with(&[0x1f, 0x8b]) { &["-xpz"] } else { &["-xp"] };
            let output = run(program, out.path(), gzip, bytes);
            prop_assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            let after = tree(&out.path().join("t"));
            // Links to what was named outside the tree are still one file; times of parts of a second are lost.
            prop_assert_eq!(&after, &before);
        }
    }

    #[test]
    fn damaged_archives_end_in_an_error_or_files(at in 0usize..20_000, value: u8, cut in 0usize..20_000) {
        let dir = prepare("mkdir t; seq 900 >t/a; ln t/a t/b; ln -s a t/c; tar -cf a.tar t; mkdir x");
        let mut bytes = fs::read(dir.path().join("a.tar")).unwrap();
        let length = bytes.len();
        bytes[at % length] = value;
        bytes.truncate(cut % (length + 1));
        let output = run(OURS, &dir.path().join("x"), &["-x"], &bytes);
        prop_assert!(matches!(output.status.code(), Some(0..=2)), "{:?}", output);
    }
}
