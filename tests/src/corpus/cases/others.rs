//! Runs of the other guests, and of the programs in `tests/corpus/programs`.

use super::{Definition, Input, StepDefinition, case, step};

pub(super) const OTHERS: &[Definition] = &[
    case("wordfreq", &[step("wordfreq", "words.txt more/words.txt dir/file")]),
    case(
        "pipeline",
        &[
            StepDefinition { stdin: Input::Path("words.txt"), ..step("wordfreq", "") },
            StepDefinition { stdin: Input::Step(0), ..step("sort", "-k 2") },
            StepDefinition { stdin: Input::Step(1), stdout: Some("words.gz"), ..step("gzip", "-9") },
            StepDefinition { stdin: Input::Path("words.gz"), ..step("gzip", "-d") },
        ],
    ),
    case(
        "clock-random",
        &[
            StepDefinition {
                environment: &[("B", "2"), ("A", "ä"), ("LANG", "own"), ("EMPTY", "")],
                ..step("clock-random", "one '' drei-ö")
            },
            step("clock-random", ""),
        ],
    ),
    // Those of its commands that end.
    case(
        "hostile-endings",
        &[
            step("hostile", "sleep"),
            step("hostile", "hole 3"),
            step("hostile", "copies 2"),
            step("hostile", "if absent loop"),
        ],
    ),
    Definition { clock_start: 0, seed: "fedcba9876543210", ..case("clock-random-first", &[step("clock-random", "")]) },
    Definition { clock_start: u64::MAX - 1500, ..case("clock-random-last", &[step("clock-random", "")]) },
];

pub(super) const PROGRAMS: &[Definition] = &[
    case("floats", &[step("floats", "")]),
    case("integers", &[step("integers", "")]),
    case("vectors", &[step("vectors", "")]),
    case("relaxed", &[step("relaxed", "")]),
    case("calls", &[step("calls", "")]),
    Definition { memory_pages: Some(64), ..case("grow-64-pages", &[step("grow", "")]) },
    case("grow-profiles-limit", &[step("grow", "")]),
    case("errnos", &[StepDefinition { environment: &[("K", "v")], ..step("errnos", "argument") }]),
    Definition { tree: "empty", ..case("errnos-on-nothing", &[step("errnos", "")]) },
];
