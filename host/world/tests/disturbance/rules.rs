//! What may happen to a tree, what a guest may do, and which of the former disturbs the latter.

use crate::common::*;
use crate::tree::Tree;
use std::fmt::Debug;

/// A change of the tree by its name.
type Named = (&'static str, fn(Tree) -> Tree);

/// What may happen to the tree between two runs.
pub(crate) const CHANGES: [Named; 26] = [
    ("content f", |tree| tree.file("d/f", "TEXT")),
    ("length f", |tree| tree.file("d/f", "longer text")),
    ("mtime f", |tree| tree.file_with("d/f", "text", 0o600, 8)),
    ("mode f", |tree| tree.file_with("d/f", "text", 0o644, 7)),
    ("no f", |tree| tree.gone("d/f")),
    ("f a directory", |tree| tree.directory("d/f", 0o755)),
    ("f a link", |tree| tree.link("d/f", "g", 7)),
    ("content g", |tree| tree.file("d/g", "OTHER")),
    ("no g", |tree| tree.gone("d/g")),
    ("g a directory", |tree| tree.directory("d/g", 0o755)),
    ("new d/n", |tree| tree.file("d/n", "new")),
    ("new d/o", |tree| tree.file("d/o", "new")),
    ("new d/sub/n", |tree| tree.file("d/sub/n", "new")),
    ("content h", |tree| tree.file("d/sub/h", "DEEP")),
    ("mode d", |tree| tree.directory("d", 0o700)),
    ("no d", |tree| tree.gone("d")),
    ("d a file", |tree| tree.gone("d").file("d", "text")),
    ("target l", |tree| tree.link("l", "d/g", 5)),
    ("mtime l", |tree| tree.link("l", "d/f", 6)),
    ("l a file", |tree| tree.file("l", "text")),
    ("new e/n", |tree| tree.file("e/n", "new")),
    ("mode e", |tree| tree.directory("e", 0o700)),
    ("new x", |tree| tree.directory("x", 0o755)),
    ("x a file", |tree| tree.file("x", "text")),
    ("new tmp", |tree| tree.directory("tmp", 0o755)),
    ("content k", |tree| tree.file("k", "KEPT")),
];

/// What a guest does, what of the changes changes its observations, and what the states before of its effects. No other
/// change may do either.
pub(crate) struct Rule {
    pub(crate) action: &'static str,
    pub(crate) run: fn(&mut Guest) -> Seen,
    pub(crate) seen: &'static [&'static str],
    pub(crate) before: &'static [&'static str],
}

/// What the guest got, as text.
pub(crate) type Seen = String;

pub(crate) fn told(seen: impl Debug) -> Seen {
    format!("{seen:?}")
}

pub(crate) const RULES: &[Rule] = &[
    Rule { action: "nothing", run: |_| told(()), seen: &[], before: &[] },
    Rule {
        action: "read a file: its content",
        run: |guest| told(guest.read_file("d/f")),
        seen: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "read part of a file: all its content",
        run: |guest| told(guest.open("d/f", 0, READ).and_then(|fd| guest.read(fd, 1))),
        seen: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "open a file to read: that it is there, and a file",
        run: |guest| told(guest.open("d/f", 0, READ)),
        seen: &["no f", "f a directory", "f a link", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "open for writing without truncation: the content",
        run: |guest| told(guest.open("d/f", 0, WRITE)),
        seen: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "stat: kind, size, mode, mtime",
        run: |guest| told(guest.stat("d/f", 0)),
        seen: &["length f", "mtime f", "mode f", "no f", "f a directory", "f a link", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "stat of an open file: the same",
        run: |guest| told(guest.open("d/f", 0, READ).and_then(|fd| guest.fstat(fd))),
        seen: &["length f", "mtime f", "mode f", "no f", "f a directory", "f a link", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "get the mode: the same",
        run: |guest| told(guest.mode("d/f")),
        seen: &["length f", "mtime f", "mode f", "no f", "f a directory", "f a link", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "seek to the end: the length",
        run: |guest| told(guest.open("d/f", 0, READ).and_then(|fd| guest.seek(fd, 0, 2))),
        seen: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "stat a directory: its mode, nothing of what it holds",
        run: |guest| told(guest.stat("d", 0)),
        seen: &["mode d", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "open a directory: that it is there",
        run: |guest| told(guest.open("d", DIRECTORY, READ)),
        seen: &["no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "list a directory: names and kinds",
        run: |guest| told(guest.list("d")),
        seen: &["no f", "f a directory", "f a link", "no g", "g a directory", "new d/n", "new d/o", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "list the root",
        run: |guest| told(guest.list(".")),
        seen: &["no d", "d a file", "l a file", "new x", "x a file", "new tmp"],
        before: &[],
    },
    Rule {
        action: "read a link: its target",
        run: |guest| told(guest.readlink("l")),
        seen: &["target l", "l a file"],
        before: &[],
    },
    Rule {
        action: "stat a link: its own metadata",
        run: |guest| told(guest.stat("l", 0)),
        seen: &["mtime l", "l a file"],
        before: &[],
    },
    Rule {
        action: "read through a link: target and content",
        run: |guest| told(guest.read_file("l")),
        seen: &[
            "content f",
            "length f",
            "no f",
            "f a directory",
            "f a link",
            "no d",
            "d a file",
            "target l",
            "l a file",
        ],
        before: &[],
    },
    Rule {
        action: "miss a name: that name",
        run: |guest| told(guest.stat("d/n", 1)),
        seen: &["new d/n", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "miss a path: its first missing component",
        run: |guest| told(guest.stat("x/y/z", 1)),
        seen: &["new x", "x a file"],
        before: &[],
    },
    Rule {
        action: "miss a path below a file: that it is none",
        run: |guest| told(guest.stat("d/f/n", 1)),
        seen: &["no f", "f a directory", "f a link", "no d", "d a file"],
        before: &[],
    },
    Rule {
        action: "use the scratch directory: that the tree has none of that name",
        run: |guest| told(guest.write_file("tmp/t", b"scratch").and_then(|()| guest.read_file("tmp/t"))),
        seen: &["new tmp"],
        // It is written into the tree then.
        before: &["new tmp"],
    },
    Rule {
        action: "replace a file: nothing of it but the state before",
        run: |guest| told(guest.write_file("d/f", b"new")),
        seen: &["no f", "f a directory", "f a link", "no d", "d a file"],
        before: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file"],
    },
    Rule {
        action: "write into a file: its content, and the state before",
        run: |guest| told(guest.open("d/f", 0, WRITE).and_then(|fd| guest.pwrite(fd, b"X", 1))),
        seen: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file"],
        before: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file"],
    },
    Rule {
        action: "create a file: that the name is free",
        run: |guest| told(guest.write_file("d/n", b"new")),
        seen: &["new d/n", "no d", "d a file"],
        before: &["new d/n", "no d", "d a file"],
    },
    Rule {
        action: "create a file exclusively: the same",
        run: |guest| told(guest.open("d/n", CREAT | EXCL, WRITE)),
        seen: &["new d/n", "no d", "d a file"],
        before: &["new d/n", "no d", "d a file"],
    },
    Rule {
        action: "make a directory and fill it: that the name is free",
        run: |guest| told((guest.mkdir("x"), guest.write_file("x/y", b"new"), guest.list("x"))),
        seen: &["new x", "x a file"],
        before: &["new x", "x a file"],
    },
    Rule {
        action: "make a link: that the name is free, nothing of its target",
        run: |guest| told(guest.symlink("d/f", "x")),
        seen: &["new x", "x a file"],
        before: &["new x", "x a file"],
    },
    Rule {
        action: "remove a file: that it is there, and the state before",
        run: |guest| told(guest.unlink("d/f")),
        seen: &["no f", "f a directory", "f a link", "no d", "d a file"],
        before: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file"],
    },
    Rule {
        action: "remove a directory: that it is empty",
        run: |guest| told(guest.rmdir("e")),
        seen: &["new e/n"],
        before: &["new e/n"],
    },
    Rule {
        action: "rename a file: all that it takes along",
        run: |guest| told(guest.rename("d/f", "e/n")),
        seen: &[
            "content f",
            "length f",
            "mtime f",
            "mode f",
            "no f",
            "f a directory",
            "f a link",
            "no d",
            "d a file",
            "new e/n",
        ],
        before: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file", "new e/n"],
    },
    Rule {
        action: "replace a file and rename it: its metadata, since it keeps its mode",
        run: |guest| told((guest.write_file("d/f", b"new"), guest.rename("d/f", "k"))),
        seen: &["length f", "mtime f", "mode f", "no f", "f a directory", "f a link", "no d", "d a file"],
        before: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file", "content k"],
    },
    Rule {
        action: "replace a file, set its mode and rename it: nothing of it but the state before",
        run: |guest| told((guest.write_file("d/f", b"new"), guest.set_mode("d/f", 0o600), guest.rename("d/f", "k"))),
        seen: &["no f", "f a directory", "f a link", "no d", "d a file"],
        before: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file", "content k"],
    },
    Rule {
        action: "replace a file and make a second name: its metadata, as for renaming",
        run: |guest| told((guest.write_file("d/f", b"new"), guest.link("d/f", "e/n"))),
        seen: &["length f", "mtime f", "mode f", "no f", "f a directory", "f a link", "no d", "d a file", "new e/n"],
        before: &["content f", "length f", "no f", "f a directory", "f a link", "no d", "d a file", "new e/n"],
    },
    Rule {
        action: "rename a directory: that it is there, nothing of what it holds",
        run: |guest| told(guest.rename("d", "e/n")),
        seen: &["no d", "d a file", "new e/n"],
        before: &["no d", "d a file", "new e/n"],
    },
    Rule {
        action: "make a second name: all that the copy will have",
        run: |guest| told(guest.link("d/f", "e/n")),
        seen: &[
            "content f",
            "length f",
            "mtime f",
            "mode f",
            "no f",
            "f a directory",
            "f a link",
            "no d",
            "d a file",
            "new e/n",
        ],
        before: &["no f", "f a directory", "no d", "d a file", "new e/n"],
    },
    Rule {
        action: "set a mode: that it is there, nothing else of it",
        run: |guest| told(guest.set_mode("d/f", 0o755)),
        seen: &["no f", "f a directory", "f a link", "no d", "d a file"],
        before: &["no f", "f a directory", "f a link", "no d", "d a file"],
    },
    Rule {
        action: "set a time: the same",
        run: |guest| told(guest.set_mtime("d/f", 99)),
        seen: &["no f", "f a directory", "f a link", "no d", "d a file"],
        before: &["no f", "f a directory", "f a link", "no d", "d a file"],
    },
    Rule {
        action: "look at what the run itself wrote: nothing",
        run: |guest| {
            guest.write_file("k", b"own").unwrap();
            told((guest.read_file("k"), guest.stat("k", 0)))
        },
        seen: &[],
        before: &["content k"],
    },
    Rule {
        action: "look at what the run itself made: nothing but that the names were free",
        run: |guest| {
            let made = (guest.mkdir("x"), guest.write_file("x/a", b"own"), guest.symlink("a", "x/l"));
            let seen = (guest.list("x"), guest.read_file("x/l"), guest.stat("x/a", 0), guest.stat("x/none", 0));
            told((made, seen, guest.unlink("x/a"), guest.stat("x/a", 0), guest.rename("x/l", "x/m")))
        },
        seen: &["new x", "x a file"],
        before: &["new x", "x a file"],
    },
    Rule {
        action: "a file made and gone again: that the name was free",
        run: |guest| told((guest.write_file("d/n", b"gone"), guest.unlink("d/n"))),
        seen: &["new d/n", "no d", "d a file"],
        before: &["new d/n"],
    },
];
