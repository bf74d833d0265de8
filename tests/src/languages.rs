//! The conformance guests (`guest-ops/conformance`): which there are, what each can be asked, and what is true.

use crate::{guest, target_folder};
use opship_world::MemoryTree;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A guest: the same scenarios in another language.
#[derive(Debug, Clone, Copy)]
pub struct Language {
    /// The language, as people call it.
    pub name: &'static str,
    /// The module.
    pub module: &'static str,
    /// Scenarios that not all guests have.
    own: &'static [&'static str],
}

/// Rust's standard library over wasi-libc, and calls of preview 1 by hand.
pub const RUST: Language = Language { name: "Rust", module: "conform-rust", own: &["edges", "escapes", "raw"] };
/// C over wasi-libc.
pub const C: Language = Language { name: "C", module: "conform-c", own: &["escapes", "stdio"] };
/// Go with its own system layer.
pub const GO: Language = Language { name: "Go", module: "conform-go", own: &["library"] };
/// AssemblyScript with `wasi-shim`.
pub const ASSEMBLYSCRIPT: Language = Language { name: "AssemblyScript", module: "conform-as", own: &["escapes"] };

/// What a guest is started with.
#[derive(Debug, Clone, Default)]
pub struct Scenario {
    /// The arguments after its name; the first one names the scenario.
    pub arguments: Vec<String>,
    /// Variables beside those that every run has.
    pub environment: Vec<(String, String)>,
    /// Standard input.
    pub stdin: Vec<u8>,
}

/// Variables that every run in the world has.
pub const FIXED_VARIABLES: [(&str, &str); 2] = [("LANG", "C.UTF-8"), ("TZ", "UTC")];

impl Language {
    /// Its module. `None` where its tools are not installed and nobody insists (`OPSHIP_REQUIRE_ALL`); a test then has
    /// nothing to test.
    pub fn find(&self) -> Option<PathBuf> {
        let built = target_folder().join("guests").join(format!("{}.wasm", self.module)).is_file();
        if !built && std::env::var_os("OPSHIP_REQUIRE_ALL").is_none() && self.module != RUST.module {
            return None;
        }
        Some(guest(self.module))
    }

    /// What it can be asked on any host.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let plain = ["files", "directories", "links", "clocks", "random", "errors"].iter().chain(self.own);
        let mut all: Vec<Scenario> = plain.map(|name| Scenario::new([*name])).collect();
        all.push(Scenario::new(["arguments"]));
        all.push(many_words());
        all.push(Scenario::new(["stdin"]));
        all.push(Scenario { stdin: lines(150_000).into_bytes(), ..Scenario::new(["stdin"]) });
        let counted = ["output 20000", "exit 0", "exit 7", "exit 125", "large 16", "deep 100", "many 1000"];
        all.extend(counted.iter().map(|words| Scenario::new(words.split(' '))));
        all
    }
}

impl Scenario {
    /// One with arguments alone.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Scenario {
        Scenario { arguments: words.into_iter().map(str::to_owned).collect(), ..Scenario::default() }
    }

    /// Its name and arguments, shortened, for messages.
    pub fn name(&self) -> String {
        self.arguments.join(" ").chars().take(40).collect()
    }

    /// What is true of it: standard output, standard error and exit code.
    pub fn truth(&self) -> (String, String, u32) {
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let number = || words[1].parse().unwrap();
        let stdout = match words[0] {
            "arguments" => self.arguments_shown(),
            "stdin" => format!("standard input: {} bytes, sum {:016x}\n", self.stdin.len(), sum(&self.stdin)),
            "output" => lines(number()),
            "exit" => format!("leaving with: {}\n", words[1]),
            "large" => large(number()),
            "deep" => format!(
                "the bottom: \"leaf\\n\"\nlevels: {}\nup and down again: yes\nremove all: ok\ngone: yes\n",
                words[1]
            ),
            "many" => many(number()),
            name => {
                let file =
                    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../guest-ops/conformance/expected/{name}.txt"));
                std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
            }
        };
        let stderr = if words[0] == "output" {
            let tenths = (1..=number()).filter(|line| line % 10 == 0);
            tenths.fold(String::new(), |text, line| text + &format!("error line {line}\n"))
        } else {
            String::new()
        };
        (stdout, stderr, if words[0] == "exit" { number() } else { 0 })
    }

    fn arguments_shown(&self) -> String {
        let mut text = String::new();
        for (index, word) in self.arguments.iter().enumerate() {
            writeln!(text, "argument {}: {} bytes, {word}", index + 1, word.len()).unwrap();
        }
        let own = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let mut variables: Vec<String> =
            FIXED_VARIABLES.iter().map(|(name, value)| format!("{name}={value}")).collect();
        variables.extend(own);
        variables.sort();
        variables.iter().fold(text, |text, variable| text + &format!("variable {variable}\n"))
    }
}

/// Arguments and variables of all kinds, and many of them.
fn many_words() -> Scenario {
    let odd =
        ["arguments", "", " ", "two words", "-x", "--", "*", "ünïcödé 语言 🦀", "tab\tand\nline", "\"quoted'", "a=b"];
    let mut scenario = Scenario::new(odd);
    scenario.arguments.extend((0..500).map(|index| "x".repeat(index % 90)));
    let variables = [("EMPTY", ""), ("SPACED", " a  b "), ("EQUALS", "a=b=c"), ("ÜNÏ", "语言"), ("lower", "1")];
    scenario.environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    scenario.environment.extend((0..100).map(|index| (format!("V{index}"), index.to_string())));
    scenario
}

fn lines(count: u32) -> String {
    (1..=count).fold(String::new(), |mut text, line| {
        writeln!(text, "line {line}").unwrap();
        text
    })
}

/// FNV-1a with 64 bits (Fowler, Noll and Vo), as the guests compute it.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The words of a linear congruential generator (Knuth's MMIX), summed.
fn large(mib: u32) -> String {
    let (words, mut state, mut sum) = (u64::from(mib) << 17, 1_u64, 0xcbf2_9ce4_8422_2325_u64);
    for _ in 0..words {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sum = state.to_le_bytes().iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    }
    format!("size: {}\nsum: {sum:016x}\nthe middle is what was written: yes\n", words * 8)
}

fn many(count: u32) -> String {
    let names: String = (0..count).map(|number| format!("{number:06}")).collect();
    let contents: String = (0..count).map(|number| format!("file {number}\n")).collect();
    let (names, contents) = (sum(names.as_bytes()), sum(contents.as_bytes()));
    format!("listed: {count}, sum {names:016x}\nread: sum {contents:016x}\nleft: {}\n", count.div_ceil(1000))
}

/// The tree that every scenario starts with.
pub fn input() -> MemoryTree {
    let bytes: Vec<u8> = (0..=255).collect();
    MemoryTree::new()
        .file("input/text.txt", "one\ntwo\nthree\n")
        .file("input/bytes.bin", bytes.repeat(300))
        .file("input/empty", "")
        .file("input/sub/leaf.txt", "leaf\n")
}
