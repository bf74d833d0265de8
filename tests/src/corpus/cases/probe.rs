//! What treeprobe does to a tree.

use super::{Definition, StepDefinition, case, step};

pub(super) const PROBE: &[Definition] = &[
    case(
        "probe-writes",
        &[step(
            "treeprobe",
            "write new first + append new and-more + overwrite-at new 30 far + cat new + truncate new 33 + \
             truncate dir/file 4 + append dir/file ! + stat new + touch-exclusive touched + overwrite-at \
             dir/second 3000000 x + stat dir/second + copy words.txt void/copy + copy dir/file more/link/copied + \
             cat to-file",
        )],
    ),
    case(
        "probe-looks",
        &[step(
            "treeprobe",
            "list . + list more + list more/link + stat words.txt + stat to-file + lstat to-file + lstat dangling \
             + exists no/such + exists dangling + stat dir + mode words.txt + mode dir + readlink circle + \
             read-many dir + stat dir + stat more/deep/er/est.txt + print ö + eprint to-standard-error",
        )],
    ),
    case(
        "probe-names",
        &[step(
            "treeprobe",
            "mkdir made + mkdir made/below + mv dir made/dir + write made/dir/third 3 + rm made/dir/second + mv \
             words.txt void/words + ln made/dir/file twin + append twin seen-by-both + cat made/dir/file + stat \
             twin + ln -s ../words made/link + rmdir made/below + rm circle + mv more/deep dir + list dir + \
             unlink-open values + mv to-file dangling + readlink dangling",
        )],
    ),
    case(
        "probe-metadata",
        &[step(
            "treeprobe",
            "chmod 700 words.txt + mode words.txt + chmod 0 more/empty + chmod 711 void + set-mtime dir/file 12 \
             34 + stat dir/file + set-mtime more/empty 4000000000 999999999 + chmod 555 dir/second + write \
             dir/second kept-mode + mode dir/second + sleep 1500 + write later x + stat later",
        )],
    ),
    case(
        "probe-many",
        &[step("treeprobe", "mkdir many + write-many many 300 + read-many many + rm many/000150 + list many")],
    ),
    case(
        "probe-scratch",
        &[
            step("treeprobe", "write /tmp/scratch between-steps + list /tmp + stat /tmp/scratch"),
            step("treeprobe", "cat /tmp/scratch + list ."),
            StepDefinition {
                directory: Some("dir"),
                ..step("treeprobe", "cat file + list . + list .. + write ../up x")
            },
            step("treeprobe", "exit 42"),
        ],
    ),
    case(
        "probe-mounts",
        &[
            StepDefinition {
                mounts: &[("lib/here", "files"), ("usr", "files")],
                ..step(
                    "treeprobe",
                    "list lib/here + stat usr/words.txt + copy usr/dir/file mine + list . + write usr/new x",
                )
            },
            step("treeprobe", "list lib"),
        ],
    ),
    case(
        "probe-errors",
        &[
            step("treeprobe", "cat no-such"),
            step("treeprobe", "cat dir"),
            step("treeprobe", "cat dir/file/below"),
            step("treeprobe", "cat circle"),
            step("treeprobe", "cat dangling"),
            step("treeprobe", "cat ../outside"),
            step("treeprobe", "write dir x"),
            step("treeprobe", "write '' x"),
            step("treeprobe", "write no/such/folder x"),
            step("treeprobe", "append dir/ x"),
            step("treeprobe", "touch-exclusive dangling"),
            step("treeprobe", "touch-exclusive words.txt"),
            step("treeprobe", "truncate words.txt 1099511627777"),
            step("treeprobe", "mkdir dir"),
            step("treeprobe", "mkdir words.txt/x"),
            step("treeprobe", "rmdir dir"),
            step("treeprobe", "rmdir words.txt"),
            step("treeprobe", "rmdir no-such"),
            step("treeprobe", "rm dir"),
            step("treeprobe", "rm words.txt/"),
            step("treeprobe", "mv dir dir/into-itself"),
            step("treeprobe", "mv dir words.txt"),
            step("treeprobe", "mv words.txt dir"),
            step("treeprobe", "mv void dir"),
            step("treeprobe", "mv no-such x"),
            step("treeprobe", "ln dir twin"),
            step("treeprobe", "ln words.txt dir/file"),
            step("treeprobe", "ln -s x words.txt"),
            step("treeprobe", "readlink words.txt"),
            step("treeprobe", "readlink no-such"),
            step("treeprobe", "list words.txt"),
            step("treeprobe", "stat circle/x"),
            step("treeprobe", "chmod 777 no-such"),
            step("treeprobe", "set-mtime no-such 1 2"),
        ],
    ),
    Definition { memory_pages: Some(700), ..case("probe-memory", &[step("treeprobe", "grow")]) },
];
