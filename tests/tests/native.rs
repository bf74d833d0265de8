//! Native runs: this machine's own programs, recorded as the modules that stand for them, or by value with a reason.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Printed, Server, assert_same_tree, noise, snapshot, verdicts};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct World {
    place: Place,
    server: Server,
    here: PathBuf,
}

impl World {
    fn new() -> World {
        let place = Place::new();
        let server = Server::start(&place);
        let here = place.init(&server, "here", "main");
        World { place, server, here }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.here.join(name), content).unwrap();
    }

    /// `opship run --native`.
    fn native(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(&self.here);
        command.args(["run", "--native", arguments[0], "--"]).args(&arguments[1..]);
        command
    }

    /// Runs a program natively; gives what it printed.
    fn run(&self, arguments: &[&str]) -> Printed {
        self.native(arguments).output().unwrap().into()
    }

    fn ok(&self, arguments: &[&str]) {
        let printed = self.run(arguments);
        assert_eq!(printed.code, Some(0), "{arguments:?}: {printed}");
    }

    fn show(&self, entry: &str) -> Value {
        self.place.json(&self.here, ["show", entry])
    }

    /// The newest entry.
    fn newest(&self) -> Value {
        let log = self.place.json(&self.here, ["log", "-n", "1"]);
        self.show(&log["entries"][0]["number"].to_string())
    }

    fn sync(&self) {
        self.place.ok(&self.here, ["sync"]);
    }

    /// Syncs, and sees that another client gets the very same tree.
    fn arrives(&self) {
        self.sync();
        let there = self.place.path("there");
        self.place.ok(&self.place.path(""), ["clone", &format!("{}/main", self.server.url()), "there"]);
        assert_same_tree(&self.here, &there);
        fs::remove_dir_all(there).unwrap();
    }

    fn configure(&self, text: &str) {
        let folder = self.place.folder("home/config/opship");
        fs::write(folder.join("config.toml"), text).unwrap();
    }

    /// A script that the user has mapped to a name.
    fn script(&self, name: &str, text: &str) {
        let file = self.place.path(format!("{name}.sh"));
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        self.configure(&format!("[native]\n{name} = {{ program = \"{}\" }}\n", file.display()));
    }
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new("gzip").arg("-nc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    child.wait_with_output().unwrap().stdout
}

#[test]
fn a_program_that_does_what_its_module_does_is_matched() {
    let world = World::new();
    world.file("in", "b\na\n");
    world.sync();
    world.ok(&["sort", "-o", "out", "in"]);
    assert_eq!(fs::read(world.here.join("out")).unwrap(), b"a\nb\n");
    let entry = world.newest();
    assert_eq!(
        (&entry["kind"], &entry["native"], &entry["command"]),
        (&"operation".into(), &true.into(), &"sort -o out in".into())
    );
    world.arrives();
    assert_eq!(verdicts(&world.place, &world.here), ["shipped", "matched"]);
}

#[test]
fn an_input_that_the_program_destroys_was_captured() {
    let world = World::new();
    let text = "a line of text\n".repeat(200);
    world.file("synced.gz", gzipped(text.as_bytes()));
    world.sync();
    world.ok(&["gzip", "-d", "synced.gz"]);
    // Nothing but the folder knew this one.
    world.file("new.gz", gzipped(b"another text"));
    world.ok(&["gzip", "-d", "new.gz"]);
    assert!(!world.here.join("new.gz").exists());
    world.arrives();
    assert_eq!(verdicts(&world.place, &world.here), ["shipped", "matched", "shipped", "matched"]);
}

#[test]
fn an_input_that_is_written_in_place_was_copied() {
    let world = World::new();
    world.file("list", "c\nb\na\n");
    world.ok(&["sort", "-o", "list", "list"]);
    assert_eq!(world.newest()["kind"], "operation");
    world.arrives();
    assert_eq!(verdicts(&world.place, &world.here), ["shipped", "matched"]);
}

#[test]
fn operations_follow_one_another_without_a_sync() {
    let world = World::new();
    world.file("in", "b\na\n");
    world.ok(&["sort", "-o", "once", "in"]);
    world.ok(&["sort", "-r", "-o", "twice", "once"]);
    fs::write(world.here.join("in"), "edited since").unwrap();
    world.arrives();
    let verdicts = verdicts(&world.place, &world.here);
    assert_eq!(verdicts.iter().filter(|verdict| *verdict == "matched").count(), 2, "{verdicts:?}");
}

#[test]
fn standard_input_and_output_that_are_files_of_the_tree_are_recorded() {
    let world = World::new();
    world.file("in", "b\na\n");
    world.sync();
    let open = |name: &str| File::open(world.here.join(name)).unwrap();
    let status =
        world.native(&["sort"]).stdin(open("in")).stdout(File::create(world.here.join("out")).unwrap()).status();
    assert!(status.unwrap().success());
    assert_eq!(fs::read(world.here.join("out")).unwrap(), b"a\nb\n");
    let entry = world.newest();
    assert_eq!((&entry["kind"], &entry["command"]), (&"operation".into(), &"sort < in > out".into()));
    // Behind what is there already: no record can say that.
    let mut out = File::options().append(true).open(world.here.join("out")).unwrap();
    out.write_all(b"before\n").unwrap();
    assert!(world.native(&["sort", "in"]).stdout(out).status().unwrap().success());
    assert_eq!(fs::read(world.here.join("out")).unwrap(), b"a\nb\nbefore\na\nb\n");
    world.arrives();
    assert_eq!(verdicts(&world.place, &world.here), ["shipped", "matched", "shipped"]);
}

#[test]
fn what_differs_by_little_is_an_operation_and_what_differs_much_a_value() {
    let world = World::new();
    // Does not compress, so that both write it nearly as it is.
    world.file("noise", noise(1, 200_000));
    world.file("text", (0..20_000u64).map(|n| format!("{}\n", n * n)).collect::<String>());
    world.sync();
    world.ok(&["gzip", "-k", "text"]);
    let entry = world.newest();
    assert_eq!(entry["kind"], "value", "{entry}");
    assert_eq!(entry["native_runs"][0]["reason"], "diverged", "{entry}");
    assert_eq!(entry["native_runs"][0]["command"], "gzip -k text", "{entry}");
    let why = world.place.ok(&world.here, ["why", "text.gz"]);
    assert!(why.contains("gzip -k text") && why.contains("diverged"), "{why}");
    world.ok(&["gzip", "-k", "noise"]);
    let entry = world.newest();
    assert_eq!(entry["kind"], "operation", "{entry}");
    world.arrives();
    assert_eq!(verdicts(&world.place, &world.here), ["shipped", "shipped", "repaired"]);
    // The user's hint decides.
    world.configure("[native]\ngzip = { hint = \"none\" }\n");
    world.file("other", noise(2, 200_000));
    world.ok(&["gzip", "-k", "other"]);
    let entry = world.newest();
    assert_eq!((&entry["kind"], &entry["native_runs"][0]["reason"]), (&"value".into(), &"diverged".into()));
}

#[test]
fn a_program_without_a_module_goes_by_value_with_the_reason() {
    let world = World::new();
    world.file("f", "one\n");
    world.sync();
    world.ok(&["sed", "-i", "s/one/two/", "f"]);
    assert_eq!(fs::read(world.here.join("f")).unwrap(), b"two\n");
    let entry = world.newest();
    assert_eq!((&entry["kind"], &entry["native_runs"][0]["reason"]), (&"value".into(), &"module-unknown".into()));
    world.arrives();
}

#[test]
fn exit_codes_and_signals_are_the_programs_own() {
    let world = World::new();
    world.file("f", "x");
    world.sync();
    assert_eq!(world.run(&["sort", "missing"]).code, Some(2));
    // It failed and changed nothing, as its module does.
    assert_eq!(verdicts(&world.place, &world.here), ["shipped"]);
    world.script("dies", "echo partly > partial; kill -TERM $$");
    let status = world.native(&["dies"]).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert_eq!(world.newest()["native_runs"][0]["reason"], "outcome-changed");
    world.script("sort", "sort \"$@\"; exit 7");
    assert_eq!(world.run(&["sort", "-o", "out", "f"]).code, Some(7));
    assert_eq!(world.newest()["native_runs"][0]["reason"], "outcome-changed");
    assert_eq!(world.run(&["no-such-program"]).code, Some(127));
    world.arrives();
}

#[test]
fn descriptors_environment_and_directory_are_the_callers() {
    let world = World::new();
    fs::create_dir(world.here.join("d")).unwrap();
    world.sync();
    world.script("look", "pwd; echo \"$WORD\"; echo to-stderr >&2; cat; ulimit -n");
    let mut command = world.native(&["look"]);
    command.current_dir(world.here.join("d")).env("WORD", "a word").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let limit = Command::new("sh").args(["-c", "ulimit -n"]).output().unwrap().stdout;
    let expected = format!("{}/d\na word\ntyped\n{}", world.here.display(), String::from_utf8_lossy(&limit));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "to-stderr\n");
}

#[test]
fn what_others_change_meanwhile_is_not_the_programs() {
    let world = World::new();
    world.file("in", "b\na\n");
    world.file("other", "old");
    world.sync();
    world.script("sort", "echo new > other; echo more > added; exec sort \"$@\"");
    world.ok(&["sort", "-o", "out", "in"]);
    let entry = world.newest();
    let changed: Vec<_> = entry["changes"].as_array().unwrap().iter().map(|change| change["path"].clone()).collect();
    assert_eq!((&entry["kind"], changed), (&"operation".into(), vec![Value::from("out")]));
    world.arrives();
    assert_eq!(fs::read(world.here.join("other")).unwrap(), b"new\n");
}

#[test]
fn an_input_that_changes_under_the_program_never_gives_a_wrong_record() {
    let world = World::new();
    world.file("in", "b\na\n");
    world.sync();
    world.script("sort", "sort \"$@\"; echo c >> in; echo z >> out");
    world.ok(&["sort", "-o", "out", "in"]);
    world.arrives();
    assert_eq!(fs::read(world.here.join("out")).unwrap(), b"a\nb\nz\n");
}

#[test]
fn an_ignored_output_stays_out_of_the_workspace() {
    let world = World::new();
    world.file(".opshipignore", "*.sorted\n");
    world.file("in", "b\na\n");
    world.sync();
    world.ok(&["sort", "-o", "in.sorted", "in"]);
    assert_eq!(verdicts(&world.place, &world.here), ["shipped"]);
    assert!(world.here.join("in.sorted").exists());
}

#[test]
fn modes_and_times_are_the_programs() {
    let world = World::new();
    world.file("in", "b\na\n");
    world.sync();
    world.script("sort", "umask 077; sort \"$@\"; touch -d @1000000000.5 out");
    world.ok(&["sort", "-o", "out", "in"]);
    assert_eq!(world.newest()["kind"], "operation");
    assert_eq!(fs::metadata(world.here.join("out")).unwrap().permissions().mode() & 0o777, 0o600);
    world.arrives();
    assert_eq!(verdicts(&world.place, &world.here), ["shipped", "matched"]);
}

#[test]
fn a_workspace_cannot_name_a_program() {
    let world = World::new();
    world.file("opship.toml", "[native]\nsort = { program = \"/bin/false\" }\n");
    world.file("in", "b\na\n");
    let printed = world.run(&["sort", "-o", "out", "in"]);
    assert!(!world.here.join("out").exists());
    let said = printed.to_string();
    assert!(printed.code != Some(0) && said.contains("opship.toml") && said.contains("program"), "{said}");
    // The name of a module is no program: what runs is the user's own.
    world.file("opship.toml", "[native]\nsort = { module = \"gzip\", hint = \"none\" }\n");
    world.ok(&["sort", "-o", "out", "in"]);
    assert_eq!(fs::read(world.here.join("out")).unwrap(), b"a\nb\n");
    assert_eq!(world.newest()["native_runs"][0]["reason"], "outcome-changed");
    world.arrives();
}

#[test]
fn mappings_come_from_the_users_configuration() {
    let world = World::new();
    world.file("in", "b\na\n");
    world.configure("[native]\nsorted = { program = \"sort\", module = \"sort\" }\n");
    world.ok(&["sorted", "-o", "out", "in"]);
    assert_eq!(world.newest()["kind"], "operation");
    world.configure("[native]\nsorted = { program = \"bin/sort\" }\n");
    let printed = world.run(&["sorted", "-o", "more", "in"]);
    assert!(printed.code == Some(125) && printed.to_string().contains("absolute"), "{printed}");
    assert!(!world.here.join("more").exists());
}

fn killed_at(point: &str) {
    let world = World::new();
    world.file("f.gz", gzipped(b"a text that was compressed"));
    let status = world.native(&["gzip", "-d", "f.gz"]).env("OPSHIP_FAILPOINT", point).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "not killed at {point}");
    let left = snapshot(&world.here);
    assert!(left.contains_key("f") && !left.contains_key("f.gz"), "{left:?}");
    world.arrives();
    assert_eq!(snapshot(&world.here), left);
}

#[test]
fn killed_before_anything_is_recorded_the_files_are_as_the_program_left_them() {
    killed_at("native-replayed");
}

#[test]
fn killed_while_the_run_is_recorded_the_files_are_as_the_program_left_them() {
    killed_at("native-captured");
}

#[test]
fn killed_when_the_run_was_recorded_the_files_are_as_the_program_left_them() {
    killed_at("native-appended");
}

#[test]
fn an_archive_of_many_files_and_what_stands_above_them_arrives() {
    let world = World::new();
    fs::create_dir_all(world.here.join("d/e")).unwrap();
    for n in 0..50 {
        world.file(&format!("d/e/{n}"), format!("number {n}"));
    }
    world.ok(&["tar", "--format=ustar", "-cf", "all.tar", "d"]);
    world.ok(&["gzip", "d/e/7"]);
    assert!(Path::new(&world.here.join("d/e/7.gz")).exists());
    world.arrives();
}

/// A running `opship record-api`; killed when dropped.
struct Api(std::process::Child);

impl Api {
    fn start(world: &World) -> Api {
        let mut command = world.place.command(&world.here);
        let mut child = command.arg("record-api").stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut first).unwrap();
        assert!(first.contains("record.sock"), "{first}");
        Api(child)
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_that_logs_its_own_operations_is_recorded() {
    let world = World::new();
    world.file("in", "b\na\n");
    world.sync();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/record_api.py");
    let sorts = || {
        let output =
            Command::new("python3").arg(&example).args(["in", "out"]).current_dir(&world.here).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read(world.here.join("out")).unwrap(), b"a\nb\n");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(sorts(), Value::Null, "without opship it works all the same");
    let _api = Api::start(&world);
    let answer = sorts();
    assert_eq!(answer["recorded"]["as"], "operation", "{answer}");
    let mode = fs::metadata(world.here.join(".opship/record.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = world.place.run(&world.here, ["record-api"]);
    assert_eq!(second.code, Some(126), "{second}");
    world.arrives();
    assert!(verdicts(&world.place, &world.here).contains(&"matched".to_owned()));
}

#[test]
fn whatever_a_program_says_to_the_socket_is_answered() {
    let world = World::new();
    let _api = Api::start(&world);
    let stream = std::os::unix::net::UnixStream::connect(world.here.join(".opship/record.sock")).unwrap();
    let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
    for said in [
        "nonsense",
        "{\"end\": {\"exit\": 0}}",
        "{\"begin\": {\"module\": \"sort\", \"program\": \"/bin/sh\"}}",
        "{\"begin\": {\"module\": \"sort\", \"inputs\": [\"../outside\"]}}",
        "{\"begin\": {\"module\": \"sort\", \"hint\": \"parity(3)\"}}",
    ] {
        writeln!(&stream, "{said}").unwrap();
        let mut answer = String::new();
        std::io::BufRead::read_line(&mut reader, &mut answer).unwrap();
        assert!(answer.starts_with("{\"failed\""), "{said}: {answer}");
    }
}
