//! Runs of the conformance guests and of the probe that moves many bytes.

use super::{Definition, StepDefinition, case, step};

pub(super) const LANGUAGES: &[Definition] = &[
    Definition {
        tree: "empty",
        ..case(
            "conform-rust",
            &[
                step("conform-rust", "files"),
                step("conform-rust", "directories"),
                step("conform-rust", "links"),
                step("conform-rust", "errors"),
                step("conform-rust", "clocks"),
                step("conform-rust", "random"),
                step("conform-rust", "raw"),
                step("conform-rust", "edges"),
            ],
        )
    },
    Definition {
        tree: "empty",
        ..case(
            "conform-c",
            &[
                step("conform-c", "files"),
                step("conform-c", "directories"),
                step("conform-c", "errors"),
                step("conform-c", "clocks"),
                step("conform-c", "random"),
                step("conform-c", "stdio"),
            ],
        )
    },
    Definition {
        tree: "empty",
        ..case(
            "conform-as",
            &[
                step("conform-as", "files"),
                step("conform-as", "directories"),
                step("conform-as", "errors"),
                step("conform-as", "clocks"),
                step("conform-as", "random"),
            ],
        )
    },
    Definition {
        tree: "input",
        ..case(
            "conform-go",
            &[
                step("conform-go", "files"),
                step("conform-go", "directories"),
                step("conform-go", "errors"),
                step("conform-go", "clocks"),
                step("conform-go", "random"),
            ],
        )
    },
    case(
        "conform-arguments",
        &[
            StepDefinition { environment: &[("X", "1"), ("Y", "ü")], ..step("conform-rust", "arguments a '' ü") },
            StepDefinition { environment: &[("X", "1"), ("Y", "ü")], ..step("conform-c", "arguments a '' ü") },
        ],
    ),
    case("many-bytes", &[step("ioprobe", "write large 3000001"), step("ioprobe", "read large")]),
    case(
        "many-files",
        &[step("ioprobe", "make small 500 70"), step("ioprobe", "sum small 500"), step("ioprobe", "list small")],
    ),
];
