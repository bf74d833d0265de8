//! Modules in the text format, put together from a few actions.

use std::fmt::Write;

/// Where strings lie in the module's memory.
const STRINGS: usize = 1024;
/// The buffer that files are read into: the second page.
const BUFFER: usize = 65536;

/// What a module does, one after the other. A failing call makes it exit with code 99.
pub enum Do<'a> {
    /// Reads the file into the buffer.
    Read(&'a str),
    /// Writes the buffer's content to the file, made or truncated.
    WriteRead(&'a str),
    /// Writes these bytes to the file, made or truncated.
    Write(&'a str, &'a [u8]),
    /// Prints to standard output.
    Print(&'a [u8]),
    /// Exits with a code if what was read begins with this byte.
    ExitIfRead(u8, u32),
    /// Traps if what was read begins with this byte.
    TrapIfRead(u8),
    /// Never ends if what was read begins with this byte.
    LoopIfRead(u8),
    /// Exits with this code.
    Exit(u32),
    /// Takes so many pages of memory more.
    Grow(u32),
    /// Traps.
    Trap,
    /// Counts so far, which takes time.
    Count(u32),
    /// Never ends.
    Loop,
}

/// A module that does this. `name` makes modules that do the same differ.
pub fn module(name: &str, actions: &[Do<'_>]) -> Vec<u8> {
    let mut strings = Strings::default();
    let mut body = String::new();
    for action in actions {
        match action {
            Do::Read(path) => {
                let (at, length) = strings.put(path.as_bytes());
                open(&mut body, at, length, 0, 2);
                call(&mut body, "$read (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 24)");
                call(&mut body, "$close (local.get $fd)");
            }
            Do::WriteRead(path) => {
                let (at, length) = strings.put(path.as_bytes());
                open(&mut body, at, length, 9, 64);
                writeln!(body, "(i32.store (i32.const 32) (i32.const {BUFFER}))").unwrap();
                writeln!(body, "(i32.store (i32.const 36) (i32.load (i32.const 24)))").unwrap();
                call(&mut body, "$write (local.get $fd) (i32.const 32) (i32.const 1) (i32.const 40)");
                call(&mut body, "$close (local.get $fd)");
            }
            Do::Write(path, bytes) => {
                let (at, length) = strings.put(path.as_bytes());
                open(&mut body, at, length, 9, 64);
                write_bytes(&mut body, &mut strings, "(local.get $fd)", bytes);
                call(&mut body, "$close (local.get $fd)");
            }
            Do::Print(bytes) => write_bytes(&mut body, &mut strings, "(i32.const 1)", bytes),
            Do::ExitIfRead(byte, code) => if_read(&mut body, *byte, &format!("(call $exit (i32.const {code}))")),
            Do::TrapIfRead(byte) => if_read(&mut body, *byte, "unreachable"),
            Do::LoopIfRead(byte) => if_read(&mut body, *byte, "(loop $again (br $again))"),
            Do::Exit(code) => writeln!(body, "(call $exit (i32.const {code}))").unwrap(),
            Do::Grow(pages) => {
                let grown = format!("(i32.eq (memory.grow (i32.const {pages})) (i32.const -1))");
                writeln!(body, "(if {grown} (then (call $exit (i32.const 99))))").unwrap();
            }
            Do::Count(to) => {
                let next = "(local.set $count (i32.add (local.get $count) (i32.const 1)))";
                writeln!(body, "(local.set $count (i32.const 0))").unwrap();
                writeln!(body, "(loop $on {next} (br_if $on (i32.ne (local.get $count) (i32.const {to}))))").unwrap();
            }
            Do::Trap => body.push_str("unreachable\n"),
            Do::Loop => body.push_str("(loop $again (br $again))\n"),
        }
    }
    let data = strings.text();
    wat::parse_str(format!(
        r#"(module
        (import "wasi_snapshot_preview1" "path_open"
            (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 2)
        {data}
        (func (export "{name}"))
        (func (export "_start") (local $fd i32) (local $count i32)
            (i32.store (i32.const 16) (i32.const {BUFFER}))
            (i32.store (i32.const 20) (i32.const 65536))
            {body}))"#
    ))
    .unwrap()
}

/// A module that imports what no world has.
pub fn stranger() -> Vec<u8> {
    wat::parse_str(r#"(module (import "env" "launch" (func)) (memory (export "memory") 1) (func (export "_start")))"#)
        .unwrap()
}

fn if_read(body: &mut String, byte: u8, then: &str) {
    let same = format!("(i32.eq (i32.load8_u (i32.const {BUFFER})) (i32.const {byte}))");
    writeln!(body, "(if {same} (then {then}))").unwrap();
}

fn call(body: &mut String, call: &str) {
    writeln!(body, "(if (call {call}) (then (call $exit (i32.const 99))))").unwrap();
}

fn open(body: &mut String, at: usize, length: usize, oflags: u32, rights: u32) {
    let path = format!("(i32.const {at}) (i32.const {length}) (i32.const {oflags})");
    let rest = format!("(i64.const {rights}) (i64.const 0) (i32.const 0) (i32.const 8)");
    call(body, &format!("$open (i32.const 3) (i32.const 0) {path} {rest}"));
    body.push_str("(local.set $fd (i32.load (i32.const 8)))\n");
}

fn write_bytes(body: &mut String, strings: &mut Strings, fd: &str, bytes: &[u8]) {
    let (at, length) = strings.put(bytes);
    writeln!(body, "(i32.store (i32.const 32) (i32.const {at}))").unwrap();
    writeln!(body, "(i32.store (i32.const 36) (i32.const {length}))").unwrap();
    call(body, &format!("$write {fd} (i32.const 32) (i32.const 1) (i32.const 40)"));
}

#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn put(&mut self, bytes: &[u8]) -> (usize, usize) {
        let at = STRINGS + self.0.len();
        self.0.extend_from_slice(bytes);
        (at, bytes.len())
    }

    fn text(&self) -> String {
        let escaped: String = self.0.iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!("(data (i32.const {STRINGS}) \"{escaped}\")")
    }
}
