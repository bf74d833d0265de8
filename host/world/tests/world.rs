//! Steps, streams, current directory, mounts, scratch, time and chance.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use opship_record::Hash;
use opship_record::effect::{After, Before};
use opship_record::node::Kind;
use opship_record::observation::Observation;
use opship_record::plan::{Mount, Stdin, Step};
use opship_world::{Errno, Fault, MemoryTree, ProducedBody, TreeSource, World, WorldConfig};
use std::sync::Arc;

fn strings(guest: &mut Guest, environment: bool) -> Vec<String> {
    let Guest { world, memory } = guest;
    if environment {
        world.environ_sizes_get(memory, 0, 4).unwrap();
        world.environ_get(memory, 0x100, 0x1000).unwrap();
    } else {
        world.args_sizes_get(memory, 0, 4).unwrap();
        world.args_get(memory, 0x100, 0x1000).unwrap();
    }
    let (count, size) = (guest.u32_at(0), guest.u32_at(4) as usize);
    let all = guest.memory[0x1000..0x1000 + size].split_inclusive(|b| *b == 0);
    let all: Vec<String> = all.map(|s| String::from_utf8(s[..s.len() - 1].to_vec()).unwrap()).collect();
    assert_eq!(all.len(), count as usize);
    all
}

fn now(guest: &mut Guest, clock: u32) -> u64 {
    guest.world.clock_time_get(&mut guest.memory, clock, 0, 0).unwrap();
    guest.u64_at(0)
}

fn with(directory: Option<&str>, change: impl FnOnce(&mut Step)) -> Step {
    let mut step = Step { directory: directory.map(path), ..step() };
    change(&mut step);
    step
}

#[test]
fn arguments_and_environment_are_the_plans() {
    let step = with(None, |s| {
        s.environment =
            Some(vec![(b"A".to_vec().into(), b"1=2".to_vec().into()), (b"TZ".to_vec().into(), b"X".to_vec().into())]);
    });
    let mut guest = Guest::begin(config(MemoryTree::new(), vec![step]));
    assert_eq!(strings(&mut guest, false), ["prog", "x"]);
    assert_eq!(strings(&mut guest, true), ["LANG=C.UTF-8", "TZ=X", "A=1=2"]);
}

#[test]
fn time_passes_with_calls_and_sleeps_only() {
    let mut guest = Guest::empty();
    assert_eq!(now(&mut guest, 0), START + 1000);
    assert_eq!(now(&mut guest, 0), START + 2000);
    let mut subscription = vec![0; 48];
    subscription[16] = 1;
    subscription[24..32].copy_from_slice(&5_000_000_000u64.to_le_bytes());
    guest.put(0x400, &subscription);
    guest.world.poll_oneoff(&mut guest.memory, 0x400, 0x800, 1, 0x900).unwrap();
    assert_eq!(guest.u32_at(0x900), 1);
    assert_eq!(now(&mut guest, 0), START + 5_000_003_000);
    guest.write_file("f", b"x").unwrap();
    let outcome = guest.finish();
    assert_eq!(outcome.lists.changes[0].after.mtime(), Some(START as i64 + 5_000_003_000));
}

#[test]
fn a_ready_file_is_reported_and_no_time_passes() {
    let mut guest = Guest::empty();
    let mut subscriptions = vec![0; 144];
    subscriptions[24..32].copy_from_slice(&1_000u64.to_le_bytes());
    subscriptions[48] = 7;
    (subscriptions[56], subscriptions[64]) = (2, 1);
    (subscriptions[104], subscriptions[112]) = (1, 200);
    guest.put(0x400, &subscriptions);
    guest.world.poll_oneoff(&mut guest.memory, 0x400, 0x800, 3, 0x900).unwrap();
    assert_eq!(guest.u32_at(0x900), 2);
    assert_eq!((guest.u64_at(0x800), guest.memory[0x808], guest.memory[0x80a]), (7, 0, 2));
    assert_eq!(u16::from(guest.memory[0x828]), Errno::Badf.raw());
    assert_eq!(now(&mut guest, 2), 1000);
}

#[test]
fn streams_and_exit_codes_are_in_the_lists() {
    let mut guest = Guest::empty();
    guest.write(1, b"out").unwrap();
    guest.write(2, b"err!").unwrap();
    assert_eq!(guest.seek(1, 0, 1), Err(Errno::Spipe));
    assert_eq!(guest.read(0, 10).unwrap(), b"");
    assert_eq!(guest.read(1, 10), Err(Errno::Badf));
    guest.world.end_step(3).unwrap();
    let outcome = guest.world.finish().unwrap();
    assert_eq!(outcome.lists.exits, [3]);
    let streams = &outcome.lists.streams[0];
    assert_eq!((streams.stdout_length, streams.stdout), (3, Hash::of(b"out")));
    assert_eq!((streams.stderr_length, streams.stderr), (4, Hash::of(b"err!")));
}

#[test]
fn steps_hand_on_streams_and_files() {
    let first = with(None, |s| s.stdout = Some(path("o")));
    let second = with(None, |s| s.stdin = Some(Stdin::Path { path: path("o") }));
    let third = with(None, |s| s.stdin = Some(Stdin::Step { step: 1 }));
    let mut guest = Guest::begin(config(MemoryTree::new().file("o", "old"), vec![first, second, third]));
    guest.write(1, b"to a file").unwrap();
    guest.world.end_step(0).unwrap();
    guest.world.begin_step(1).unwrap();
    assert_eq!(guest.read(0, 100).unwrap(), b"to a file");
    guest.write(1, b"stream").unwrap();
    guest.world.end_step(0).unwrap();
    guest.world.begin_step(2).unwrap();
    assert_eq!(guest.read(0, 3).unwrap(), b"str");
    assert_eq!(guest.read(0, 100).unwrap(), b"eam");
    guest.world.end_step(0).unwrap();
    let outcome = guest.world.finish().unwrap();
    assert_eq!(outcome.files[&path("o")].hash, Hash::of(b"to a file"));
    assert_eq!(outcome.lists.streams[0].stdout_length, 0);
    assert_eq!(outcome.lists.observations, [Observation::Exists { path: path("o"), kind: Kind::File }]);
}

#[test]
fn standard_input_from_a_path_observes_its_content() {
    let step = with(None, |s| s.stdin = Some(Stdin::Path { path: path("i") }));
    let mut guest = Guest::begin(config(MemoryTree::new().file("i", "in"), vec![step.clone()]));
    guest.write_file("i", b"changed meanwhile").unwrap();
    assert_eq!(guest.read(0, 100).unwrap(), b"in", "as it was at the start");
    assert_eq!(guest.observations(), [Observation::Content { path: path("i"), hash: Hash::of(b"in") }]);

    let mut world = World::new(config(MemoryTree::new(), vec![step])).unwrap();
    assert!(matches!(world.begin_step(0), Err(Fault::Refused { .. })));
}

#[test]
fn the_current_directory_is_the_last_preopen_and_leads_up_to_the_root() {
    let tree = MemoryTree::new().file("d/f", "x").file("g", "y");
    let mut guest = Guest::begin(config(tree, vec![with(Some("d"), |_| {})]));
    let name = |guest: &mut Guest, fd| {
        guest.world.fd_prestat_get(&mut guest.memory, fd, 0).ok()?;
        let length = guest.u32_at(4);
        guest.world.fd_prestat_dir_name(&mut guest.memory, fd, 8, length).unwrap();
        Some(String::from_utf8(guest.memory[8..8 + length as usize].to_vec()).unwrap())
    };
    let names: Vec<_> = (3..6).map(|fd| name(&mut guest, fd)).collect();
    assert_eq!(names, [Some("/".to_owned()), Some(".".to_owned()), None]);
    assert!(guest.open_at(4, "f", 0, READ, 0, 1).is_ok());
    assert!(guest.open_at(4, "../g", 0, READ, 0, 1).is_ok());
    assert_eq!(guest.open_at(4, "../../g", 0, READ, 0, 1), Err(Errno::Perm));
    assert!(strings(&mut guest, true).contains(&"PWD=/d".to_owned()));
}

fn mounted(tree: MemoryTree, at: &str) -> Result<Guest, Fault> {
    let hash = Hash::of(b"mount");
    let step = with(None, |s| s.mounts = Some(vec![Mount { path: path(at), tree: hash }]));
    let mount: Arc<dyn TreeSource> = Arc::new(MemoryTree::new().file("res/x", "resource"));
    let mut config: WorldConfig = config(tree, vec![step]);
    config.mounts.insert(hash, mount);
    let mut world = World::new(config)?;
    world.begin_step(0)?;
    Ok(Guest { world, memory: vec![0; 4 << 20] })
}

#[test]
fn a_mount_is_there_to_read_and_not_listed() {
    let mut guest = mounted(MemoryTree::new().file("usr/own", ""), "usr/share").unwrap();
    assert_eq!(guest.read_file("usr/share/res/x").unwrap(), b"resource");
    assert_eq!(guest.list("usr/share").unwrap(), ["res"]);
    assert_eq!(guest.list("usr").unwrap(), ["own"]);
    assert_eq!(guest.write_file("usr/share/new", b""), Err(Errno::Rofs));
    assert_eq!(guest.write_file("usr/share/res/x", b""), Err(Errno::Rofs));
    assert_eq!(guest.unlink("usr/share/res/x"), Err(Errno::Rofs));
    assert_eq!(guest.rmdir("usr/share"), Err(Errno::Busy));
    assert_eq!(guest.rename("usr/share/res/x", "x"), Err(Errno::Rofs));
    assert_eq!(guest.link("usr/share/res/x", "x"), Err(Errno::Xdev));
    let outcome = guest.finish();
    assert!(outcome.lists.changes.is_empty());
    let absent = Observation::Absent { path: path("usr/share"), missing: path("usr/share"), above: Kind::Directory };
    assert!(outcome.lists.observations.contains(&absent));
    assert!(outcome.lists.observations.iter().all(|o| !o.path().starts_with(&path("usr/share/res"))));
}

#[test]
fn a_mount_makes_what_leads_to_it_and_is_refused_over_what_exists() {
    let mut guest = mounted(MemoryTree::new(), "deep/er/m").unwrap();
    assert_eq!(guest.read_file("deep/er/m/res/x").unwrap(), b"resource");
    assert!(guest.list(".").unwrap().is_empty());
    assert_eq!(guest.mkdir("deep"), Err(Errno::Exist));
    assert!(matches!(mounted(MemoryTree::new().file("m/x", ""), "m"), Err(Fault::Refused { .. })));
    assert!(matches!(mounted(MemoryTree::new().file("m", ""), "m/n"), Err(Fault::Refused { .. })));
}

#[test]
fn scratch_is_there_if_the_tree_has_no_tmp_and_leaves_nothing() {
    let mut guest = Guest::empty();
    guest.write_file("tmp/a", b"scratch").unwrap();
    assert_eq!(guest.read_file("tmp/a").unwrap(), b"scratch");
    assert!(guest.list(".").unwrap().is_empty());
    assert_eq!(guest.rename("tmp/a", "a"), Err(Errno::Xdev));
    assert_eq!(guest.rmdir("tmp"), Err(Errno::Busy));
    let outcome = guest.finish();
    assert!(outcome.lists.changes.is_empty() && outcome.files.is_empty());
    let absent = Observation::Absent { path: path("tmp"), missing: path("tmp"), above: Kind::Directory };
    assert!(outcome.lists.observations.contains(&absent));

    let mut guest = Guest::new(MemoryTree::new().directory("tmp"));
    guest.write_file("tmp/a", b"kept").unwrap();
    assert_eq!(guest.changes().len(), 1);
}

#[test]
fn large_and_sparse_files_go_to_disk_and_hash_right() {
    let mut guest = Guest::empty();
    let large: Vec<u8> = (0..3_000_000u32).map(|i| i.to_le_bytes()[1]).collect();
    guest.write_file("large", &large).unwrap();
    let fd = guest.open("sparse", CREAT, READ | WRITE).unwrap();
    guest.pwrite(fd, b"end", 64 << 20).unwrap();
    assert_eq!(guest.pread(fd, 5, (64 << 20) - 2).unwrap(), b"\0\0end");
    guest.seek(fd, 100, 0).unwrap();
    guest.write(fd, b"middle").unwrap();
    assert_eq!(guest.read(fd, 2).unwrap(), b"\0\0");
    assert_eq!(guest.read_file("large").unwrap(), large);
    let outcome = guest.finish();
    assert_eq!(outcome.files[&path("large")].hash, Hash::of(&large));
    let sparse = &outcome.files[&path("sparse")];
    assert!(matches!(sparse.body, ProducedBody::Spilled(_)));
    let mut expected = vec![0; (64 << 20) + 3];
    expected[100..106].copy_from_slice(b"middle");
    expected[64 << 20..].copy_from_slice(b"end");
    assert_eq!(sparse.hash, Hash::of(&expected));
}

#[test]
fn an_open_file_outlives_its_name() {
    let mut guest = Guest::new(MemoryTree::new().file("f", "text"));
    let fd = guest.open("f", 0, READ | WRITE).unwrap();
    guest.unlink("f").unwrap();
    assert_eq!(guest.read(fd, 10).unwrap(), b"text");
    guest.write(fd, b"more").unwrap();
    assert_eq!(guest.fstat(fd).unwrap().links, 0);
    guest.close(fd).unwrap();
    let changes = guest.changes();
    assert_eq!(changes.len(), 1);
    assert_eq!((&changes[0].before, &changes[0].after), (&Before::File { hash: Hash::of(b"text") }, &After::Removed));
}

#[test]
fn cookies_survive_what_happens_while_a_directory_is_read() {
    let tree = (0..50).fold(MemoryTree::new(), |tree, i| tree.file(&format!("d/{i:02}"), ""));
    let mut guest = Guest::new(tree);
    let fd = guest.open("d", DIRECTORY, READ).unwrap();
    guest.world.fd_readdir(&mut guest.memory, fd, 0x1000, 24 * 4 + 9, 0, 0).unwrap();
    for i in 0..25 {
        guest.unlink(&format!("d/{i:02}")).unwrap();
    }
    guest.world.fd_readdir(&mut guest.memory, fd, 0x1000, 4096, 30, 0).unwrap();
    assert_eq!(&guest.memory[0x1018..0x101a], b"28");
    let names = guest.entries(fd, 64).unwrap();
    assert_eq!(names.len(), 25, "from its start a listing is taken anew");
    let first = guest.stat("d/25", 0).unwrap();
    assert_eq!(names[0], ("25".to_owned(), first.ino));
}

#[test]
fn a_directory_of_many_names_is_listed_whole() {
    let mut guest = Guest::empty();
    guest.mkdir("d").unwrap();
    for i in 0..20_000 {
        let fd = guest.open(&format!("d/{i:05}"), CREAT, WRITE).unwrap();
        guest.close(fd).unwrap();
    }
    let names = guest.list("d").unwrap();
    assert_eq!((names.len(), names.is_sorted()), (20_000, true));
    assert_eq!(guest.changes().len(), 20_001);
}

#[test]
fn renumbering_closes_the_target_and_leaks_nothing() {
    let mut guest = Guest::new(MemoryTree::new().file("f", "x").file("g", "y"));
    let (f, g) = (guest.open("f", 0, READ).unwrap(), guest.open("g", 0, READ).unwrap());
    guest.world.fd_renumber(&mut guest.memory, f, g).unwrap();
    assert_eq!(guest.read(g, 1).unwrap(), b"x");
    assert_eq!(guest.read(f, 1), Err(Errno::Badf));
    guest.world.fd_renumber(&mut guest.memory, g, g).unwrap();
    assert!(guest.world.fd_renumber(&mut guest.memory, g, 900).is_err());
    assert_eq!(guest.open("f", 0, READ), Ok(f));
}

#[test]
fn an_exclusive_create_and_two_names_of_one_file() {
    let mut guest = Guest::new(MemoryTree::new().file("f", "x"));
    assert_eq!(guest.open("f", CREAT | EXCL, WRITE), Err(Errno::Exist));
    guest.link("f", "g").unwrap();
    assert_eq!(guest.stat("g", 0).unwrap().links, 2);
    assert_eq!(guest.stat("g", 0).unwrap().ino, guest.stat("f", 0).unwrap().ino);
    guest.write_file("g", b"both").unwrap();
    assert_eq!(guest.read_file("f").unwrap(), b"both");
    let outcome = guest.finish();
    assert_eq!(outcome.files.len(), 2);
}
