//! What is fuzzed: each function takes any bytes and panics if the world breaks its promise. Shared with `fuzz/`.

use super::calls::{self, Choices, IMPORTS, Import};
use super::model::{Given, Model, Op};
use super::trees::{check_outcome, differing};
use super::*;
use opship_record::effect::Before;
use opship_record::plan::{Mount, Stdin};
use opship_record::record::Lists;
use opship_world::Fault;

/// Any calls with any arguments on any memory: never a panic, nothing written but what the call says, and a second world
/// that is asked the same gives the same.
pub fn world_calls(data: &[u8]) {
    let mut choices = Choices(data);
    let source = source();
    let steps = steps(choices.byte());
    let size = [0x1800, 0x1100, 0x1_0000, 0x1800, 4096, 700, 64, 8, 1, 0][choices.below(10)];
    let mut pair = Pair::new(&source, &steps, size);
    for (index, step) in steps.iter().enumerate() {
        if pair.begin(index).is_err() || pair.run(&mut choices, step).is_err() {
            return;
        }
    }
    pair.finish(&source);
}

/// Any sequence of well-formed calls does what the model does. The first byte says how many of them make the source.
pub fn world_tree(data: &[u8]) {
    let Some((first, calls)) = data.split_first() else { return };
    let ops: Vec<Op> = calls.chunks_exact(Op::BYTES).map(|bytes| Op::from_bytes(bytes.try_into().unwrap())).collect();
    let (before, run) = ops.split_at(usize::from(*first).min(ops.len()));
    follow_model(before, run);
}

/// Makes a tree by `before`, runs `run` on it in a world beside the model, and compares what each call gives and what is
/// there in the end: as the model has it, and as the recorded changes make it from the tree before.
pub fn follow_model(before: &[Op], run: &[Op]) {
    let mut model = Model::new();
    for op in before {
        let _ = op.on_model(&mut model);
    }
    let (source, mut model) = model.again();
    let mut guest = Guest::new(source.clone());
    for (index, op) in run.iter().enumerate() {
        let expected = op.on_model(&mut model);
        let given = op.on_guest(&mut guest);
        assert!(given == expected, "{op:?} gives {given:?} not {expected:?} after {:#?}", &run[..index]);
    }
    let outcome = guest.finish();
    check_outcome(&source, &outcome);
    let differing = differing(&source, &outcome.lists.changes, &model.tree());
    assert!(differing.is_empty(), "{differing:#?} after {run:#?} with {:#?}", outcome.lists.changes);
    let streams = &outcome.lists.streams[0];
    assert_eq!([streams.stdout, streams.stderr], model.streams.map(|stream| Hash::of(&stream)));

    let mut again = Guest::new(source);
    for op in run {
        let _ = op.on_guest(&mut again);
    }
    assert_eq!(again.finish().lists, outcome.lists, "a second run gives the same lists");
}

/// Whatever happens to the tree meanwhile, a run that sees the same and meets the same states before goes the same way. The
/// first two bytes say how many calls make the source and how many change it.
pub fn world_observed(data: &[u8]) {
    let [first, second, calls @ ..] = data else { return };
    let ops: Vec<Op> = calls.chunks_exact(Op::BYTES).map(|bytes| Op::from_bytes(bytes.try_into().unwrap())).collect();
    let (before, rest) = ops.split_at(usize::from(*first).min(ops.len()));
    let (meanwhile, run) = rest.split_at(usize::from(second % 4).min(rest.len()));
    check_disturbance(before, meanwhile, run);
}

/// Makes a tree by `before` and others from it by `meanwhile`, or by every small change if that is empty; runs `run` on them,
/// and checks that whatever is different for the guest is different in what is recorded of the tree before.
pub fn check_disturbance(before: &[Op], meanwhile: &[Op], run: &[Op]) {
    let mut model = Model::new();
    for op in before {
        let _ = op.on_model(&mut model);
    }
    let (source, model) = model.again();
    let seen = go(source, run);
    let changes = if meanwhile.is_empty() { Op::small_changes() } else { vec![meanwhile.to_vec()] };
    for change in changes {
        let mut changed = model.clone();
        for op in &change {
            let _ = op.on_model(&mut changed);
        }
        if changed.tree() == model.tree() {
            continue;
        }
        let now = go(changed.again().0, run);
        if seen.1.observations == now.1.observations && befores(&seen.1) == befores(&now.1) {
            assert_eq!(seen, now, "{run:#?} is not disturbed by {change:#?}");
        }
    }
}

fn go(source: MemoryTree, run: &[Op]) -> (Vec<Given>, Lists) {
    let mut guest = Guest::new(source);
    let given = run.iter().map(|op| op.on_guest(&mut guest)).collect();
    (given, guest.finish().lists)
}

fn befores(lists: &Lists) -> Vec<(TreePath, Before)> {
    lists.changes.iter().map(|change| (change.path.clone(), change.before.clone())).collect()
}

fn source() -> MemoryTree {
    MemoryTree::new()
        .file("a", "text")
        .file_with("d/f", "some more text", 0o600, 7)
        .file("d/e/g", [b'g'; 40_000])
        .file_with("x", "", 0o755, -5)
        .directory("e")
        .symlink("l", "d/f")
        .symlink("u", "..")
        .symlink("d/up", "../a")
        .symlink("r", "r")
        .symlink("q", "none/x")
        .symlink("abs", "/etc")
}

fn steps(choice: u8) -> Vec<Step> {
    let mount = Mount { path: path("mnt"), tree: Hash::of(b"mount") };
    let second = Step { stdin: Some(Stdin::Path { path: path("o") }), ..step() };
    match choice % 4 {
        0 => vec![step()],
        1 => vec![Step { directory: Some(path("d")), mounts: Some(vec![mount]), ..step() }],
        2 => vec![Step { stdin: Some(Stdin::Path { path: path("a") }), stdout: Some(path("o")), ..step() }, second],
        _ => vec![step(), Step { stdin: Some(Stdin::Step { step: 0 }), mounts: Some(vec![mount]), ..step() }],
    }
}

/// The run ended early, with a fault that both worlds gave.
struct Ended;

/// Two worlds that are asked the same.
struct Pair {
    worlds: [World; 2],
    memories: [Vec<u8>; 2],
}

impl Pair {
    fn new(source: &MemoryTree, steps: &[Step], size: usize) -> Pair {
        let world = |_| {
            let mut config = config(source.clone(), steps.to_vec());
            config.budget = Budget { produced_bytes: 3 << 20, inodes: 300, ..Budget::default() };
            let mount: Arc<dyn TreeSource> = Arc::new(MemoryTree::new().file("res/x", "resource"));
            config.mounts.insert(Hash::of(b"mount"), mount);
            World::new(config).unwrap()
        };
        Pair { worlds: [0, 1].map(world), memories: [calls::memory(size), calls::memory(size)] }
    }

    fn begin(&mut self, step: usize) -> Result<(), Ended> {
        match both(&mut self.worlds, |world| world.begin_step(step)) {
            Ok(()) => Ok(()),
            // What a step before did to the files that this one names.
            Err(Fault::Refused { .. } | Fault::Limit { .. }) => Err(Ended),
            Err(fault) => panic!("{fault}"),
        }
    }

    /// Makes calls until there are no more or the step exits.
    fn run(&mut self, choices: &mut Choices<'_>, step: &Step) -> Result<(), Ended> {
        let strings = [strings(step.arguments.iter().map(|one| one.to_vec())), environment(step)];
        let mut exit = 0;
        while !choices.is_empty() {
            let index = choices.below(64);
            let Some(import) = IMPORTS.get(index) else {
                let mut again = Choices(choices.0);
                calls::poke(&mut self.memories[1], &mut again);
                calls::poke(&mut self.memories[0], choices);
                continue;
            };
            let arguments = calls::arguments(import, self.memories[0].len(), choices);
            match self.call(import, &arguments, [&strings[0], &strings[1]]) {
                Ok(()) | Err(Trap::Errno(_)) => {}
                Err(Trap::Exit(code)) => {
                    assert_eq!(import.name, "proc_exit");
                    exit = code;
                    break;
                }
                Err(Trap::Fault(Fault::Limit { .. })) => return Err(Ended),
                Err(Trap::Fault(fault)) => panic!("{fault}"),
            }
        }
        both(&mut self.worlds, |world| world.end_step(exit)).unwrap();
        Ok(())
    }

    fn call(&mut self, import: &Import, arguments: &[u64], strings: [&[Vec<u8>]; 2]) -> Result<(), Trap> {
        let mut before = self.memories[0].clone();
        let ranges = calls::may_write(import, arguments, &before, strings);
        let [first, second] = &mut self.worlds;
        let one = (import.method)(first, &mut self.memories[0], arguments);
        let two = (import.method)(second, &mut self.memories[1], arguments);
        assert_eq!(ending(&one), ending(&two), "{}", import.name);
        assert!(self.memories[0] == self.memories[1], "{} does not always write the same", import.name);
        for range in ranges {
            let range = range.start.min(before.len())..range.end.min(before.len());
            before[range.clone()].copy_from_slice(&self.memories[0][range]);
        }
        assert!(before == self.memories[0], "{}{arguments:?} writes where it should not", import.name);
        one
    }

    fn finish(self, source: &MemoryTree) {
        let [one, two] = self.worlds.map(World::finish);
        match (one, two) {
            (Ok(one), Ok(two)) => {
                assert_eq!(one.lists, two.lists);
                assert_eq!(one.files.keys().collect::<Vec<_>>(), two.files.keys().collect::<Vec<_>>());
                check_outcome(source, &one);
            }
            (Err(Fault::Limit { .. }), Err(Fault::Limit { .. })) => {}
            (one, two) => panic!("{one:?} {two:?}"),
        }
    }
}

/// How a call ended, as a number.
fn ending(result: &Result<(), Trap>) -> u32 {
    match result {
        Ok(()) => 0,
        Err(Trap::Errno(errno)) => u32::from(errno.raw()),
        Err(Trap::Exit(code)) => *code | 1 << 31,
        Err(Trap::Fault(_)) => 1 << 30,
    }
}

fn both<T>(worlds: &mut [World; 2], act: impl Fn(&mut World) -> Result<T, Fault>) -> Result<T, Fault> {
    let [one, two] = worlds.each_mut().map(act);
    assert_eq!(one.as_ref().err().map(Fault::to_string), two.as_ref().err().map(Fault::to_string));
    one
}

fn strings(all: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Vec<Vec<u8>> {
    all.into_iter().map(|one| [one.into(), vec![0]].concat()).collect()
}

fn environment(step: &Step) -> Vec<Vec<u8>> {
    let directory = step.directory.as_ref().map(|directory| format!("PWD=/{directory}"));
    strings(["LANG=C.UTF-8".to_owned(), "TZ=UTC".to_owned()].into_iter().chain(directory))
}
