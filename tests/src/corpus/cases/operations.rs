//! Runs of the standard operations.

use super::{Definition, Input, StepDefinition, case, step};

pub(super) const GZIP: &[Definition] = &[
    case("gzip-keep", &[step("gzip", "-k words.txt more/noise.bin")]),
    case(
        "gzip-levels",
        &[step("gzip", "-1 -c words.txt"), step("gzip", "-9 -c words.txt"), step("gzip", "-6 -n -c words.txt")],
    ),
    case("gzip-replaces", &[step("gzip", "-v dir/second more/empty")]),
    case("gzip-recursive", &[step("gzip", "-r more")]),
    case(
        "gzip-there-and-back",
        &[
            step("gzip", "-S .z dir/file"),
            step("gzip", "-t -v -S .z dir/file.z"),
            step("gzip", "-l -S .z dir/file.z"),
            step("gzip", "-d -S .z dir/file.z"),
        ],
    ),
    case(
        "gzip-refuses",
        &[
            step("gzip", "no-such-file"),
            step("gzip", "-d words.txt"),
            step("gzip", "dir"),
            step("gzip", "--no-such-option"),
        ],
    ),
    Definition {
        stdin: Some("what comes in by standard input\n"),
        ..case(
            "gzip-stream-to-file",
            &[StepDefinition { stdin: Input::Blob, stdout: Some("out.gz"), ..step("gzip", "") }],
        )
    },
];

pub(super) const SORT: &[Definition] = &[
    case("sort-plain", &[step("sort", "words.txt")]),
    case("sort-in-place", &[step("sort", "-o words.txt words.txt")]),
    case(
        "sort-keys",
        &[
            step("sort", "-t \t -k 2,2n -k 1,1r -o by-number words.txt"),
            step("sort", "-t \t -k 3.4,3.5 -s -o by-minute words.txt"),
            step("sort", "-c -t \t -k 2,2n by-number"),
            step("sort", "-c by-minute"),
        ],
    ),
    case(
        "sort-orders",
        &[
            step("sort", "-h values"),
            step("sort", "-g -t \t -k 2 values"),
            step("sort", "-M -t \t -k 3 values"),
            step("sort", "-V -t \t -k 4 values"),
            step("sort", "-u -f -r values"),
        ],
    ),
    case(
        "sort-merge",
        &[step("sort", "-o a words.txt"), step("sort", "-o b more/words.txt"), step("sort", "-m -u a b")],
    ),
    case("sort-zero-terminated", &[StepDefinition { stdin: Input::Path("more/noise.bin"), ..step("sort", "-z") }]),
    case("sort-refuses", &[step("sort", "no-such-file"), step("sort", "-k 0"), step("sort", "dir")]),
];

pub(super) const TAR: &[Definition] = &[
    case("tar-create", &[step("tar", "-cf all.tar dir more dangling to-file circle void")]),
    case("tar-create-pax", &[step("tar", "-czvf all.tgz --format=pax more words.txt")]),
    case(
        "tar-create-picked",
        &[
            step("tar", "-cf a.tar -C more --exclude=*.bin ."),
            step("tar", "-cf b.tar -h --mtime=@86400 to-file dir"),
            step("tar", "-tvf a.tar"),
            step("tar", "-tvvf b.tar"),
        ],
    ),
    case(
        "tar-extract",
        &[
            step("tar", "-cf all.tar dir more dangling void"),
            step("treeprobe", "mkdir out"),
            step("tar", "-xvf all.tar -C out"),
            step("tar", "-xf all.tar -C void --strip-components=1 -m more"),
            step("tar", "-xOf all.tar dir/file"),
        ],
    ),
    case(
        "tar-over-existing",
        &[
            step("tar", "-cf all.tar dir"),
            step("tar", "-xkf all.tar"),
            step("tar", "--skip-old-files -xf all.tar"),
            step("tar", "-xpf all.tar"),
        ],
    ),
    case(
        "tar-refuses",
        &[
            step("tar", "-xf words.txt"),
            step("tar", "-cf x.tar no-such-file"),
            step("tar", "-tf no-such-file"),
            step("tar", ""),
        ],
    ),
];
