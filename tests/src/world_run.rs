//! A guest in the world, in this process: what it printed, and the tree that it left.

use crate::conformance::TempSpill;
use crate::languages::Scenario;
use crate::target_folder;
use opship_engine::{Compiler, Engine, EngineConfig, LoadedModule, Run};
use opship_record::effect::{After, Before, Change};
use opship_record::node::{Kind, Node};
use opship_record::plan::{PROFILE, Plan, Stdin, Step};
use opship_record::record::Lists;
use opship_record::tree;
use opship_record::{FORMAT_VERSION, Hash, TreePath};
use opship_world::{Budget, FileContent, Fixtures, MemoryContent, MemoryTree, Produced, SourceNode, WorldConfig};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// What can be seen of a run from outside, on any host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The exit code, or why there is none.
    pub exit: Result<u32, String>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// All paths that are there afterwards, each with kind and content.
    pub tree: BTreeMap<String, String>,
}

/// A guest that is ready to run.
pub struct Guest {
    engine: Engine,
    module: LoadedModule,
}

impl Guest {
    /// Compiles a module, or finds it compiled by an earlier test.
    pub fn load(module: &Path) -> Guest {
        let cache = Some(target_folder().join("compiled-for-tests"));
        let engine = Engine::new(EngineConfig { cache, ..EngineConfig::new(Compiler::InProcess) }).unwrap();
        let bytes = std::fs::read(module).unwrap();
        let (module, _) = engine.load(&Hash::of(&bytes), &mut || Ok(bytes.clone())).unwrap();
        Guest { engine, module }
    }

    /// Runs it on a tree, and gives also the lists that its record is made of.
    pub fn run(&self, scenario: &Scenario, tree: &MemoryTree) -> (Seen, Lists) {
        let hash = self.module.hash();
        let stdin = Hash::of(&scenario.stdin);
        let mut step = Step::new(hash, std::iter::once("guest".to_owned()).chain(scenario.arguments.iter().cloned()));
        let variables = scenario.environment.iter().cloned();
        let variables: Vec<_> =
            variables.map(|(name, value)| (name.into_bytes().into(), value.into_bytes().into())).collect();
        step.environment = Some(variables).filter(|variables| !variables.is_empty());
        step.stdin = (!scenario.stdin.is_empty()).then_some(Stdin::Blob { hash: stdin });
        let content: Arc<dyn FileContent> = Arc::new(MemoryContent::new(scenario.stdin.clone()));
        let world = WorldConfig {
            plan: plan(step),
            source: Arc::new(tree.clone()),
            spill: Arc::new(TempSpill),
            budget: Budget::default(),
            stdin_blobs: BTreeMap::from([(stdin, content)]),
            mounts: BTreeMap::new(),
            fixtures: Fixtures::default(),
        };
        let modules = BTreeMap::from([(hash, self.module.clone())]);
        let outcome = self.engine.run(Run::new(world, &modules)).unwrap().outcome;
        let (stdout, stderr) = &outcome.streams[0];
        let seen = Seen {
            exit: Ok(outcome.lists.exits[0]),
            stdout: bytes(stdout),
            stderr: bytes(stderr),
            tree: tree_after(tree, &outcome.lists.changes),
        };
        (seen, outcome.lists)
    }
}

fn plan(step: Step) -> Plan {
    Plan {
        format: FORMAT_VERSION,
        steps: vec![step],
        clock_start: 1_700_000_000_000_000_000,
        seed: [7; 16].into(),
        limits: None,
        profile: PROFILE,
    }
}

fn bytes(stream: &Produced) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.copy_to(&mut bytes).unwrap();
    bytes
}

/// All paths of a tree, each with kind and content.
pub(crate) fn shown(tree: &MemoryTree) -> BTreeMap<String, String> {
    tree_after(tree, &[])
}

/// The same after changes to it.
fn tree_after(before: &MemoryTree, changes: &[Change]) -> BTreeMap<String, String> {
    let mut nodes = Nodes::default();
    let empty = tree::empty();
    let mut made: Vec<Change> = before.nodes().filter_map(|(path, node, content)| made(path, node, content)).collect();
    made.sort_by(|a, b| a.path.cmp(&b.path));
    let root = tree::apply(&mut nodes, &empty, &made).unwrap();
    let root = tree::apply(&mut nodes, &root, changes).unwrap();
    let mut found = BTreeMap::new();
    collect(&nodes, &root, "", &mut found);
    found
}

fn made(path: &TreePath, node: &SourceNode, content: &[u8]) -> Option<Change> {
    let after = match node {
        SourceNode::File { mtime, length, .. } => {
            After::File { length: *length, hash: Hash::of(content), mode: None, mtime: *mtime }
        }
        SourceNode::Directory { .. } => After::Directory { mode: None },
        SourceNode::Symlink { mtime, target } => After::Symlink { target: target.clone(), mtime: *mtime },
    };
    let before = Before::Absent { missing: path.clone(), above: Kind::Directory };
    (!path.is_root()).then(|| Change { path: path.clone(), before, after })
}

fn collect(nodes: &Nodes, directory: &Hash, above: &str, found: &mut BTreeMap<String, String>) {
    for entry in tree::list(nodes, directory).unwrap() {
        let path = format!("{above}{}", entry.name);
        let text = match &entry.node {
            Node::File { length, hash, .. } => format!("file of {length} bytes, {hash}"),
            Node::Directory { .. } => "directory".to_owned(),
            Node::Symlink { target, .. } => format!("link to {:?}", String::from_utf8_lossy(target)),
        };
        collect_below(nodes, &entry, &path, found);
        found.insert(path, text);
    }
}

fn collect_below(nodes: &Nodes, entry: &tree::TreeEntry, path: &str, found: &mut BTreeMap<String, String>) {
    if entry.node.kind() == Kind::Directory {
        collect(nodes, &entry.children, &format!("{path}/"), found);
    }
}

/// Tree nodes in memory.
type Nodes = HashMap<Hash, Vec<u8>>;
