//! Shims: programs called as ever, recorded in a working copy, and run without opship's doing everywhere else.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tests::{Place, Printed, Server, assert_same_tree, until, verdicts};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct World {
    place: Place,
    server: Server,
    here: PathBuf,
    shims: PathBuf,
}

impl World {
    fn new(names: &[&str]) -> World {
        let place = Place::new();
        let server = Server::start(&place);
        let here = place.init(&server, "here", "main");
        let mut arguments = vec!["shims", "enable"];
        arguments.extend(names);
        place.ok(&here, arguments);
        let shims = place.path("home/data/opship/shims");
        World { place, server, here, shims }
    }

    /// A command of the place's user, the shims in front of the path.
    fn command(&self, program: &str, directory: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, value) in self.place.command(directory).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let path = std::env::var_os("PATH").unwrap();
        let folders = std::iter::once(self.shims.clone()).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap()).current_dir(directory).stdin(Stdio::null());
        command
    }

    fn shell_in(&self, directory: &Path, script: &str) -> Printed {
        self.command("sh", directory).args(["-c", script]).output().unwrap().into()
    }

    /// Runs a script in the working copy; it must succeed.
    fn shell(&self, script: &str) -> String {
        let printed = self.shell_in(&self.here, script);
        assert_eq!(printed.code, Some(0), "{script}: {printed}");
        assert_eq!(String::from_utf8_lossy(&printed.stderr), "", "{script}");
        String::from_utf8_lossy(&printed.stdout).into_owned()
    }

    /// A program of this name in a folder of the path behind the shims.
    fn script(&self, name: &str, text: &str) {
        let file = self.place.path(format!("{name}.sh"));
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let folder = self.place.folder("home/config/opship");
        let text = format!("[native]\n{name} = {{ program = \"{}\" }}\n", file.display());
        fs::write(folder.join("config.toml"), text).unwrap();
    }

    /// The commands of the operations in the log, oldest first.
    fn operations(&self) -> Vec<String> {
        // Whoever syncs waits for runs that are being recorded.
        self.place.ok(&self.here, ["sync"]);
        let log = self.place.json(&self.here, ["log", "-n", "1000"]);
        let entries = log["entries"].as_array().unwrap().iter().rev();
        let operations = entries.filter(|entry| entry["kind"] == "operation");
        operations.map(|entry| entry["command"].as_str().unwrap().to_owned()).collect()
    }

    fn arrives(&self) {
        self.place.ok(&self.here, ["sync"]);
        self.place.ok(&self.place.path(""), ["clone", &format!("{}/main", self.server.url()), "there"]);
        assert_same_tree(&self.here, &self.place.path("there"));
    }
}

#[test]
fn a_shim_in_a_working_copy_records_what_its_program_does() {
    let world = World::new(&["sort", "gzip"]);
    world.shell("printf 'b\\na\\n' > in; sort -o out in; gzip -n < out > out.gz; rm in; gzip -d out.gz -c > again");
    assert_eq!(fs::read(world.here.join("again")).unwrap(), b"a\nb\n");
    let operations = world.operations();
    assert!(operations.contains(&"sort -o out in".to_owned()), "{operations:?}");
    world.arrives();
}

#[test]
fn pipes_redirections_and_quoting_are_as_without_shims() {
    let world = World::new(&["sort", "printf", "cat", "tr"]);
    let script = "printf '%s\\n' 'a b' \"c'd\" '$x' '' | sort -r | tr a-z A-Z > 'out file'; cat < 'out file'; \
                  cat 'out file' no-such-file > both 2>&1; echo $?; sort < 'out file' >> both; cat both";
    let with = world.shell(script);
    let elsewhere = world.place.folder("elsewhere");
    let without = Command::new("sh").args(["-c", script]).current_dir(&elsewhere).output().unwrap();
    assert_eq!(with, String::from_utf8_lossy(&without.stdout));
    world.arrives();
}

#[test]
fn a_makefile_runs_as_without_shims() {
    let world = World::new(&["sort", "gzip"]);
    let makefile =
        "all: all.gz\nall.gz: a.sorted b.sorted\n\tcat $^ | gzip -n > $@\n%.sorted: %.txt\n\tsort -o $@ $<\n";
    fs::write(world.here.join("Makefile"), makefile).unwrap();
    fs::write(world.here.join("a.txt"), "b\na\n").unwrap();
    fs::write(world.here.join("b.txt"), "d\nc\n").unwrap();
    world.shell("make -s -j2");
    assert_eq!(world.shell("gzip -dc all.gz"), "a\nb\nc\nd\n");
    // What is up to date is not made again.
    assert_eq!(world.shell("make -s -q; echo $?"), "0\n");
    world.arrives();
}

#[test]
fn exit_codes_and_signals_reach_the_caller() {
    let world = World::new(&["sort", "ends"]);
    assert_eq!(world.shell_in(&world.here, "sort no-such-file").code, Some(2));
    for (script, code, signal) in
        [("exit 42", Some(42), None), ("kill -KILL $$", None, Some(9)), ("kill -INT $$", None, Some(2))]
    {
        world.script("ends", script);
        let status = world.command("ends", &world.here).stderr(Stdio::null()).status().unwrap();
        assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
    }
}

#[test]
fn a_signal_for_the_shim_is_the_programs() {
    let world = World::new(&["waits"]);
    world.script("waits", "trap 'echo caught; exit 3' TERM\necho ready\nwhile :; do sleep 0.05; done");
    let mut child = world.command("waits", &world.here).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "caught");
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn an_interrupt_of_the_group_reaches_the_program_and_the_shim_waits_for_it() {
    let world = World::new(&["waits"]);
    world.script(
        "waits",
        "trap 'echo cleaning; echo done > cleaned; exit 4' INT\necho ready\nwhile :; do sleep 0.05; done",
    );
    let mut command = world.command("waits", &world.here);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    rustix::process::kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(fs::read(world.here.join("cleaned")).unwrap(), b"done\n");
}

#[test]
fn elsewhere_the_program_takes_the_shims_place() {
    let world = World::new(&["tells"]);
    world.script("tells", "echo $$; printf '%s\\n' \"$@\"; echo ${OPSHIP_SHIM_DEPTH-none}");
    let elsewhere = world.place.folder("elsewhere");
    let mut command = world.command("tells", &elsewhere);
    let child = command.args(["a b", ""]).stdout(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{process}\na b\n\nnone\n"));
}

#[test]
fn the_program_is_called_by_the_name_that_the_caller_gave() {
    let world = World::new(&["sh"]);
    for directory in [world.here.clone(), world.place.folder("elsewhere")] {
        let mut command = world.command("sh", &directory);
        std::os::unix::process::CommandExt::arg0(&mut command, "sh");
        let output = command.args(["-c", "cat /proc/$$/cmdline | tr '\\0' ' '"]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("sh -c "), "{output:?}");
    }
}

#[test]
fn descriptors_stay_open_and_only_the_depth_is_added_to_the_environment() {
    let world = World::new(&["tells"]);
    world.script("tells", "echo to-three >&3; env | grep -v '^_=\\|^PWD=\\|^OLDPWD=\\|^SHLVL=' | sort");
    let with = world.shell("tells 3> three");
    let direct = world.place.path("tells.sh");
    let without = world.shell(&format!("'{}' 3> /dev/null", direct.display()));
    let added: Vec<&str> = with.lines().filter(|line| !without.lines().any(|other| other == *line)).collect();
    assert_eq!(added, ["OPSHIP_SHIM_DEPTH=1"]);
    assert_eq!(fs::read(world.here.join("three")).unwrap(), b"to-three\n");
}

#[test]
fn nobody_waits_for_a_recording_at_the_end_of_a_pipe() {
    let world = World::new(&["sort"]);
    fs::write(world.here.join("in"), "b\na\n").unwrap();
    // Nothing is recorded before this goes.
    let turn = fs::File::create(world.here.join(".opship/recorder.lock")).unwrap();
    rustix::fs::flock(&turn, rustix::fs::FlockOperation::LockExclusive).unwrap();
    // Descriptor 3 is the pipe too: a recording that kept it would hold up whoever reads.
    let mut command = world.command("sh", &world.here);
    let mut child = command.args(["-c", "exec 3>&1; sort -o out in"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    drop(turn);
    assert_eq!(world.operations(), ["sort -o out in"]);
}

#[test]
fn what_a_recorded_program_starts_is_not_recorded_again() {
    let world = World::new(&["sort", "outer"]);
    fs::write(world.here.join("in"), "b\na\n").unwrap();
    world.script("outer", "sort -o out in");
    world.shell("outer");
    assert_eq!(world.operations(), [""; 0]);
    let log = world.place.json(&world.here, ["why", "out"]);
    assert_eq!(
        (&log["native_runs"][0]["command"], &log["native_runs"][0]["reason"]),
        (&Value::from("outer"), &"module-unknown".into())
    );
    world.arrives();
}

#[test]
fn a_shim_never_finds_itself() {
    let world = World::new(&["sort", "no-such-program"]);
    // Another link, and the folder of shims by another name.
    let links = world.place.folder("links");
    std::os::unix::fs::symlink(world.shims.join("sort"), links.join("sort")).unwrap();
    let other = world.place.path("other-name");
    std::os::unix::fs::symlink(&world.shims, &other).unwrap();
    let script = format!("PATH='{}:{}':\"$PATH\"; printf 'b\\na\\n' | sort", links.display(), other.display());
    for directory in [world.here.clone(), world.place.folder("elsewhere")] {
        assert_eq!(world.shell_in(&directory, &script).stdout, b"a\nb\n");
        let printed = world.shell_in(&directory, "no-such-program");
        assert!(printed.code == Some(127) && printed.to_string().contains("no-such-program"), "{printed}");
    }
}

#[test]
fn whatever_is_wrong_with_opship_the_program_runs() {
    let world = World::new(&["sort"]);
    fs::write(world.here.join("in"), "b\na\n").unwrap();
    let config = world.place.folder("home/config/opship").join("config.toml");
    fs::write(&config, "[native\n").unwrap();
    world.shell("sort -o one in");
    fs::remove_file(&config).unwrap();
    fs::write(world.here.join("opship.toml"), "[native]\nsort = { program = \"/bin/false\" }\n").unwrap();
    world.shell("sort -o two in");
    world.arrives();
    let why = world.place.json(&world.here, ["why", "two"]);
    assert_eq!(why["native_runs"][0]["reason"], "policy", "{why}");
    assert!(why["native_runs"][0]["detail"].as_str().unwrap().contains("program"), "{why}");
    fs::write(world.here.join(".opship/config.toml"), "damaged").unwrap();
    world.shell("sort -o three in");
    for name in ["one", "two", "three"] {
        assert_eq!(fs::read(world.here.join(name)).unwrap(), b"a\nb\n", "{name}");
    }
}

#[test]
fn a_shim_that_is_killed_loses_nothing() {
    let world = World::new(&["writes"]);
    world.script("writes", "echo first > one\necho ready\nread line\necho second > two\necho end");
    let mut command = world.command("writes", &world.here);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    child.kill().unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    // The program goes on to its end.
    assert_eq!(lines.next().unwrap().unwrap(), "end");
    world.arrives();
    assert!(world.place.path("there/one").exists() && world.place.path("there/two").exists());
}

#[test]
fn a_recording_that_is_killed_loses_nothing() {
    for point in ["native-replayed", "native-captured", "native-appended"] {
        let world = World::new(&["sort"]);
        fs::write(world.here.join("in"), "b\na\n").unwrap();
        let status =
            world.command("sort", &world.here).args(["-o", "in", "in"]).env("OPSHIP_FAILPOINT", point).status();
        assert!(status.unwrap().success(), "{point}");
        world.arrives();
        assert_eq!(fs::read(world.here.join("in")).unwrap(), b"a\nb\n", "{point}");
    }
}

#[test]
fn a_watch_beside_shims_ships_what_they_record() {
    let world = World::new(&["sort"]);
    let watch = opship_tests::Watch::start(&world.place, &world.here);
    fs::write(world.here.join("in"), "b\na\n").unwrap();
    for n in 0..3 {
        world.shell(&format!("sort -o out{n} in"));
    }
    until("the outputs are with the server", || {
        let status = world.place.json(&world.here, ["log", "-n", "100"]);
        let entries = status["entries"].as_array().unwrap().clone();
        entries.len() >= 2 && entries.iter().all(|entry| entry["state"] == "ended")
    });
    drop(watch);
    world.arrives();
}

#[test]
fn shims_are_enabled_listed_and_disabled() {
    let world = World::new(&["sort"]);
    let printed = world.place.json(&world.here, ["shims", "list"]);
    assert_eq!((&printed["shims"][0]["name"], &printed["shims"][0]["module"]), (&"sort".into(), &"sort".into()));
    assert_eq!(printed["first_in_path"], false);
    assert!(Path::new(printed["shims"][0]["program"].as_str().unwrap()).is_absolute());
    assert_eq!(world.place.json(&world.here, ["shims", "enable", "--dry-run", "gzip"])["done"], false);
    assert!(!world.shims.join("gzip").exists());
    let said = world.place.ok(&world.here, ["shims", "enable", "gzip", "sort"]);
    assert!(said.contains("export PATH="), "{said}");
    for bad in ["../evil", "opship", "-x", ""] {
        let printed = world.place.run(&world.here, ["shims", "enable", "--", bad]);
        assert_eq!(printed.code, Some(126), "{bad}: {printed}");
    }
    // What is no link of ours is left alone.
    fs::write(world.shims.join("tar"), "mine").unwrap();
    assert_eq!(world.place.run(&world.here, ["shims", "enable", "tar"]).code, Some(126));
    world.place.ok(&world.here, ["shims", "disable", "gzip"]);
    assert!(!world.shims.join("gzip").exists() && world.shims.join("sort").exists());
    assert_eq!(world.place.run(&world.here, ["shims", "disable", "gzip"]).code, Some(126));
}

#[test]
fn shims_in_one_script_keep_their_order() {
    let world = World::new(&["sort"]);
    fs::write(world.here.join("in"), "c\nb\na\n").unwrap();
    world.place.ok(&world.here, ["sync"]);
    world.shell("sort -o 1 in; sort -r -o 2 1; sort -o 3 2; rm 1 2");
    world.arrives();
    assert!(!verdicts(&world.place, &world.here).contains(&"conflicted".to_owned()));
}
