//! Several people on one workspace: invites, roles, tokens, names.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use opship_tap::Tap;
use opship_tests::{Place, Printed, Server, assert_same_tree, until};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Somebody with a home of their own, so that nothing of the operator's is found there.
struct Person<'a> {
    place: &'a Place,
    home: PathBuf,
}

impl Person<'_> {
    fn new<'a>(place: &'a Place, name: &str) -> Person<'a> {
        Person { place, home: place.folder(&format!("people/{name}")) }
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = self.place.command(folder);
        command.env("HOME", &self.home).env("XDG_STATE_HOME", self.home.join("state"));
        command
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> Printed {
        self.command(folder).args(arguments).output().unwrap().into()
    }

    fn ok(&self, folder: &Path, arguments: &[&str]) -> String {
        let printed = self.run(folder, arguments);
        assert_eq!(printed.code, Some(0), "{arguments:?}: {printed}");
        String::from_utf8_lossy(&printed.stdout).into_owned()
    }

    fn json(&self, folder: &Path, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(folder, &[&["--json"], arguments].concat())).unwrap()
    }
}

fn invite(place: &Place, folder: &Path, name: &str, role: &str) -> String {
    place.ok(folder, ["admin", "invite", name, "--role", role]).trim().to_owned()
}

#[test]
fn of_ten_that_join_with_one_line_one_gets_in() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("file"), "text").unwrap();
    place.ok(&here, ["sync"]);
    let line = invite(&place, &here, "eva", "write");
    assert_eq!(line.lines().count(), 1, "{line}");
    let children: Vec<_> = (0..10)
        .map(|n| {
            let person = Person::new(&place, &format!("p{n}"));
            let mut command = person.command(&person.home);
            command.args(["join", &line, "work"]).stdout(Stdio::piped()).stderr(Stdio::piped());
            (person, command.spawn().unwrap())
        })
        .collect();
    let mut won = Vec::new();
    for (person, child) in children {
        let printed: Printed = child.wait_with_output().unwrap().into();
        if printed.code == Some(0) {
            won.push(person);
        } else {
            assert!(String::from_utf8_lossy(&printed.stderr).contains("invite is not valid"), "{printed}");
            assert!(!person.home.join("work").exists(), "nothing is made in vain");
        }
    }
    assert_eq!(won.len(), 1);
    assert_same_tree(&here, &won[0].home.join("work"));
    fs::write(won[0].home.join("work/more"), "from eva").unwrap();
    won[0].ok(&won[0].home.join("work"), &["sync"]);
    place.ok(&here, ["sync"]);
    assert_eq!(fs::read_to_string(here.join("more")).unwrap(), "from eva");
}

#[test]
fn a_reader_reads_and_cannot_write_and_an_outsider_sees_nothing() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let other = place.init(&server, "other", "other");
    fs::write(here.join("file"), "text").unwrap();
    place.ok(&here, ["sync"]);
    let reader = Person::new(&place, "reader");
    reader.ok(&reader.home, &["join", &invite(&place, &here, "reader", "read"), "work"]);
    let work = reader.home.join("work");
    assert_same_tree(&here, &work);
    fs::write(work.join("mine"), "m").unwrap();
    let refused = reader.run(&work, &["sync"]);
    assert_ne!(refused.code, Some(0));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("role 'write'"), "{refused}");
    assert_eq!(fs::read_to_string(work.join("mine")).unwrap(), "m");
    place.ok(&here, ["sync"]);
    assert!(!here.join("mine").exists());

    // Somebody who is in another workspace alone.
    let outsider = Person::new(&place, "outsider");
    outsider.ok(&outsider.home, &["join", &invite(&place, &other, "outsider", "admin"), "work"]);
    for workspace in ["main", "no-such"] {
        let refused = outsider.run(&outsider.home, &["clone", &format!("{}/{workspace}", server.url()), "x"]);
        let text = String::from_utf8_lossy(&refused.stderr).replace(workspace, "NAME");
        assert!(text.contains("workspace 'NAME' does not exist or is not visible"), "{text}");
    }
    let arguments = ["admin", "invite", "me", "--role", "read", "--workspace", "main"];
    let refused = outsider.run(&outsider.home.join("work"), &arguments);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("does not exist or is not visible"), "{refused}");
    // An administrator of a workspace lets others into that one.
    let line = outsider.ok(&outsider.home.join("work"), &["admin", "invite", "friend", "--role", "write"]);
    let friend = Person::new(&place, "friend");
    friend.ok(&friend.home, &["join", line.trim(), "work"]);
    let refused = outsider.run(&outsider.home.join("work"), &["admin", "invite", "admin", "--role", "read"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("exists already"), "{refused}");
}

#[test]
fn a_token_goes_to_its_own_server_alone() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let eva = Person::new(&place, "eva");
    eva.ok(&eva.home, &["join", &invite(&place, &here, "eva", "write"), "work"]);
    let tokens = eva.home.join("state/opship/tokens");
    let folder = tokens.join(server.authority().replace(':', "_"));
    let file = folder.join("main");
    let token = fs::read_to_string(&file).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&tokens), mode(&folder), mode(&file)), (0o700, 0o700, 0o600));
    // The same server under another address is another server.
    let tap = Tap::start_keeping(server.authority().parse().unwrap()).unwrap();
    let elsewhere = format!("http://{}/main", tap.address());
    let refused = eva.run(&eva.home, &["clone", &elsewhere, "x"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no token is at hand"), "{refused}");
    let secret = "0".repeat(40);
    eva.run(&eva.home, &["join", &format!("{elsewhere}#{secret}"), "x"]);
    let seen = String::from_utf8_lossy(&tap.kept()).into_owned();
    assert!(seen.contains(&secret), "the join itself went there");
    assert!(!seen.contains(token.trim()) && !seen.contains("uthorization"), "{seen}");
    // It works for other workspaces that the person may see at that server.
    place.init(&server, "second", "second");
    place.ok(&here, ["admin", "invite", "eva", "--role", "read", "--workspace", "second"]);
    let refused = eva.run(&eva.home, &["clone", &format!("{}/second", server.url()), "y"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not visible"), "{refused}");
}

#[test]
fn names_of_people_and_clients_are_shown() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let eva = Person::new(&place, "eva");
    let line = invite(&place, &here, "eva", "write");
    let joined = eva.json(&eva.home, &["join", &line, "work", "--name", "Eva's laptop"]);
    assert_eq!((joined["name"].as_str(), joined["role"].as_str()), (Some("eva"), Some("write")));
    let work = eva.home.join("work");
    fs::write(work.join("f"), "text").unwrap();
    eva.ok(&work, &["sync"]);
    let expected = (Some("eva"), Some("Eva's laptop"));
    let names = |value: &Value| (value["author_name"].clone(), value["client_name"].clone());
    let why = eva.json(&work, &["why", "f"])["entry"].clone();
    let shown = [eva.json(&work, &["log"])["entries"][0].clone(), eva.json(&work, &["show", "1"]), why];
    for value in &shown {
        let (author, client) = names(value);
        assert_eq!((author.as_str(), client.as_str()), expected, "{value}");
    }
    assert!(eva.ok(&work, &["show", "1"]).contains("by eva on Eva's laptop"));
    let (author, client) = names(&eva.json(&work, &["log", "--versions"])["versions"][0]);
    assert_eq!((author.as_str(), client.as_str()), expected);
    assert!(eva.ok(&work, &["log", "--versions"]).contains("eva on Eva's laptop"));
    let (_, body) = server.request("GET", "/v1/workspaces/main/versions/head", b"");
    let (author, client) = names(&serde_json::from_slice(&body).unwrap());
    assert_eq!((author.as_str(), client.as_str()), expected);
    // Who made what others see, also under a name that an address must escape.
    fs::write(work.join("ä b?"), "text").unwrap();
    eva.ok(&work, &["sync"]);
    place.ok(&here, ["sync"]);
    fs::write(here.join("other"), "text").unwrap();
    place.ok(&here, ["sync"]);
    for path in ["f", "ä b?"] {
        let (author, client) = names(&place.json(&here, ["why", path])["made_by"]);
        assert_eq!((author.as_str(), client.as_str()), expected, "{path}");
    }
    assert!(place.ok(&here, ["why", "f"]).contains("eva on Eva's laptop made it, in version 1"));
    // Told once: a second sync says nothing of names.
    fs::write(work.join("g"), "text").unwrap();
    let first = eva.json(&work, &["sync"]);
    fs::write(work.join("h"), "text").unwrap();
    let second = eva.json(&work, &["sync"]);
    let sent = |report: &Value| report["entries"][0]["sent"].as_u64().unwrap();
    assert!(sent(&first).abs_diff(sent(&second)) < 20, "{first} {second}");
}

#[test]
fn a_folder_with_files_and_a_working_copy_are_joined_as_they_are() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("theirs"), "t").unwrap();
    place.ok(&here, ["sync"]);
    let eva = Person::new(&place, "eva");
    let work = eva.home.join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("mine"), "m").unwrap();
    eva.ok(&eva.home, &["join", &invite(&place, &here, "eva", "write"), "work"]);
    eva.ok(&work, &["sync"]);
    place.ok(&here, ["sync"]);
    assert_same_tree(&here, &work);
    // A new token for the same working copy.
    fs::remove_dir_all(eva.home.join("state")).unwrap();
    assert_ne!(eva.run(&work, &["sync"]).code, Some(0));
    eva.ok(&eva.home, &["join", &invite(&place, &here, "eva", "write"), "work"]);
    eva.ok(&work, &["sync"]);
    // An invite is not spent on a folder that belongs to another workspace.
    let other = place.init(&server, "other", "other");
    let line = invite(&place, &other, "eva", "read");
    assert_ne!(eva.run(&eva.home, &["join", &line, "work"]).code, Some(0));
    eva.ok(&eva.home, &["join", &line, "--dry-run"]);
    eva.ok(&eva.home, &["join", &line]);
    assert!(eva.home.join("other/.opship").is_dir());
}

#[test]
fn an_invite_ends_with_its_time_or_when_it_is_revoked_and_access_with_it() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    let eva = Person::new(&place, "eva");
    let invites = || place.json(&here, ["admin", "invite", "--list"])["invites"].clone();
    eva.ok(&eva.home, &["join", &invite(&place, &here, "eva", "write"), "work"]);
    place.ok(&here, ["admin", "invite", "--revoke", "1", "--dry-run"]);
    eva.ok(&eva.home.join("work"), &["sync"]);
    place.ok(&here, ["admin", "invite", "--revoke", "1"]);
    let refused = eva.run(&eva.home.join("work"), &["sync"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("token is unknown"), "{refused}");
    let short = place.ok(&here, ["admin", "invite", "max", "--role", "read", "--expires", "1s"]);
    until("the invite's end", || invites()[0]["state"] == "expired");
    let refused = eva.run(&eva.home, &["join", short.trim(), "late"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not valid"), "{refused}");
    assert_eq!(invites()[1]["state"], "revoked");
}

#[test]
fn what_is_secret_stands_in_no_log_and_what_is_not_encrypted_is_said() {
    let place = Place::new();
    let logs = [place.path("server.log"), place.path("client.log")];
    let mut server = place.command(&place.path(""));
    server.args(["serve", "--data", "data", "--listen", "0.0.0.0:0", "--insecure"]).env("OPSHIP_LOG", "trace");
    let mut server = server.stderr(fs::File::create(&logs[0]).unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.as_mut().unwrap()), &mut first).unwrap();
    let port = first.trim().rsplit(':').next().unwrap().to_owned();
    let here = place.folder("here");
    let url = format!("http://127.0.0.1:{port}");
    let admin = fs::read_to_string(place.path("data/admin-token")).unwrap().trim().to_owned();
    let owner = |arguments: &[&str]| -> Printed {
        place.command(&here).env("OPSHIP_TOKEN", &admin).args(arguments).output().unwrap().into()
    };
    assert_eq!(owner(&["init", "--server", &url, "--workspace", "main"]).code, Some(0));
    let made = owner(&["admin", "invite", "eva", "--role", "write"]);
    assert!(String::from_utf8_lossy(&made.stderr).contains("not encrypted"), "{made}");
    let line = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let secret = line.rsplit('#').next().unwrap().to_owned();
    let eva = Person::new(&place, "eva");
    let mut join = eva.command(&eva.home);
    join.args(["join", "-", "work"]).env("OPSHIP_LOG", "trace").stdin(Stdio::piped());
    let mut join = join.stderr(fs::File::create(&logs[1]).unwrap()).stdout(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut join.stdin.take().unwrap(), line.as_bytes()).unwrap();
    assert!(join.wait().unwrap().success());
    let token = fs::read_to_string(eva.home.join(format!("state/opship/tokens/127.0.0.1_{port}/main"))).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(fs::read_to_string(&logs[0]).unwrap().contains("an invite was used"));
    for log in logs {
        let text = fs::read_to_string(&log).unwrap();
        for secret in [secret.as_str(), token.trim(), admin.as_str()] {
            assert!(!text.contains(secret), "{} holds a secret", log.display());
        }
    }
}

#[test]
fn a_reader_who_changes_something_gets_what_others_make_all_the_same() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("file"), "text").unwrap();
    place.ok(&here, ["sync"]);
    let reader = Person::new(&place, "reader");
    reader.ok(&reader.home, &["join", &invite(&place, &here, "ron", "read"), "work"]);
    let work = reader.home.join("work");
    fs::write(work.join("file"), "changed by who may only read").unwrap();
    fs::write(work.join("mine"), "mine").unwrap();
    for name in ["more", "and more"] {
        fs::write(here.join(name), "others'").unwrap();
        place.ok(&here, ["sync"]);
        let refused = reader.run(&work, &["sync"]);
        assert_eq!(refused.code, Some(126), "{refused}");
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(words.contains("role 'write'") && words.contains("opship drop"), "{words}");
        assert!(work.join(name).exists(), "{refused}");
    }
    let pending = reader.json(&work, &["status"])["pending"][0]["number"].to_string();
    reader.ok(&work, &["drop", &pending]);
    assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "changed by who may only read");
    reader.ok(&work, &["restore", "file", "--version", "1", "--to", "as it was"]);
    assert_eq!(fs::read_to_string(work.join("as it was/file")).unwrap(), "text");
}

#[test]
fn an_invite_is_not_spent_on_a_folder_that_cannot_be_made() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("file"), "text").unwrap();
    place.ok(&here, ["sync"]);
    let eva = Person::new(&place, "eva");
    let line = invite(&place, &here, "eva", "write");
    std::os::unix::fs::symlink("nowhere", eva.home.join("dangling")).unwrap();
    fs::write(eva.home.join("taken"), "").unwrap();
    for folder in ["dangling", "dangling/work", "taken", "taken/work", "/proc/none/work"] {
        let refused = eva.run(&eva.home, &["join", &line, folder]);
        assert_ne!(refused.code, Some(0), "{folder}: {refused}");
    }
    let homeless =
        eva.command(&eva.home).args(["join", &line, "work"]).env("HOME", "").env("XDG_STATE_HOME", "").output();
    assert!(!homeless.unwrap().status.success());
    assert!(!eva.home.join("work").exists());
    eva.ok(&eva.home, &["join", &line, "deep/er/work"]);
    assert_same_tree(&here, &eva.home.join("deep/er/work"));
}

#[test]
fn a_join_uses_the_token_that_it_gave_whatever_the_environment_says() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("file"), "text").unwrap();
    place.ok(&here, ["sync"]);
    for (name, variable) in [("eva", ""), ("max", "of-another-server")] {
        let person = Person::new(&place, name);
        let line = invite(&place, &here, name, "write");
        let joined = person.command(&person.home).args(["join", &line, "work"]).env("OPSHIP_TOKEN", variable).output();
        let joined = Printed::from(joined.unwrap());
        assert_eq!(joined.code, Some(0), "{joined}");
        let warned = String::from_utf8_lossy(&joined.stderr).contains("OPSHIP_TOKEN is set");
        assert_eq!(warned, !variable.is_empty(), "{joined}");
        let work = person.home.join("work");
        assert_same_tree(&here, &work);
        let mut sync = person.command(&work);
        assert!(sync.arg("sync").env("OPSHIP_TOKEN", "").env("OPSHIP_LINK", "").status().unwrap().success());
    }
}

#[test]
fn a_join_that_broke_off_says_how_it_goes_on() {
    let place = Place::new();
    let server = Server::start(&place);
    let here = place.init(&server, "here", "main");
    fs::write(here.join("large"), opship_tests::noise(1, 3 << 20)).unwrap();
    place.ok(&here, ["sync"]);
    let eva = Person::new(&place, "eva");
    let address = server.authority().parse().unwrap();
    let tap = Tap::start_paced(address, 1 << 20).unwrap();
    let line = invite(&place, &here, "eva", "write").replace(&server.authority(), &tap.address().to_string());
    let told = |arguments: &[&str]| {
        let printed = eva.run(&eva.home, arguments);
        assert_ne!(printed.code, Some(0), "{printed}");
        String::from_utf8_lossy(&printed.stderr).into_owned()
    };
    let mut joining = eva.command(&eva.home);
    let joining = joining.args(["join", &line, "work"]).stderr(Stdio::piped()).spawn().unwrap();
    until("a part of the file", || tap.count().received > 500_000);
    // The server goes away for a while: nothing listens on the port of one that ended.
    tap.move_to(std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    tap.cut();
    let broken = Printed::from(joining.wait_with_output().unwrap());
    let how = "the invite is used, and its token is kept; go on with 'opship sync' in 'work'";
    assert!(broken.code != Some(0) && broken.to_string().contains(how), "{broken}");
    tap.move_to(address);
    let source = format!("http://{}/main", tap.address());
    let cloned = told(&["clone", &source, "work"]);
    assert!(cloned.contains("go on with 'opship sync' there"), "{cloned}");
    let again = told(&["join", &line, "other"]);
    assert!(again.contains("kept here already") && again.contains(&format!("opship clone {source} other")), "{again}");
    assert!(!eva.home.join("other").exists());
    eva.ok(&eva.home.join("work"), &["sync"]);
    eva.ok(&eva.home, &["clone", &source, "other"]);
    assert_same_tree(&here, &eva.home.join("work"));
    assert_same_tree(&here, &eva.home.join("other"));
}
