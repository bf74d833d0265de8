//! What the API shows as JSON.

use opship_record::answer::{Answer, Difference};
use opship_record::effect::{After, Before, Change};
use opship_record::entry::{Body, BodyKind};
use opship_record::node::Node;
use opship_record::observation::Observation;
use opship_record::plan::{Mount, Plan, Stdin, Step};
use opship_record::tree::TreeEntry;
use opship_record::version::Version;
use opship_storage::{Author, EntryDetail, ModuleInfo, StoredEntry};
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hash_text(hash: &Option<opship_record::Hash>) -> Option<String> {
    hash.as_ref().map(ToString::to_string)
}

/// A version; its time in milliseconds since 1970.
pub(crate) fn version(version: &Version) -> Value {
    json!({
        "number": version.number,
        "id": version.id().to_string(),
        "root": version.root.to_string(),
        "parent": hash_text(&version.parent),
        "author": version.author.map(|a| a.to_string()),
        "sequence": version.sequence,
        "entry": hash_text(&version.entry),
        "time": version.time,
    })
}

/// A version or an entry with the names of whoever made it: the principal's, and what the client is called.
pub(crate) fn authored(mut value: Value, author: Option<&Author>) -> Value {
    value["author_name"] = json!(author.map(|author| &author.principal));
    value["client_name"] = json!(author.and_then(|author| author.client.as_ref()));
    value
}

/// One entry of a directory; mode as a number, mtime in nanoseconds since 1970.
pub(crate) fn tree_entry(entry: &TreeEntry) -> Value {
    let mut value = node(&entry.node);
    value["name"] = json!(entry.name);
    value
}

/// What a tree holds of a path.
pub(crate) fn node(node: &Node) -> Value {
    let kind = node.kind().name();
    match node {
        Node::File { mode, mtime, length, hash } => {
            json!({"kind": kind, "mode": mode, "mtime": mtime, "length": length, "hash": hash.to_string()})
        }
        Node::Directory { mode } => json!({"kind": kind, "mode": mode}),
        Node::Symlink { mtime, target } => json!({"kind": kind, "mtime": mtime, "target": text(target)}),
    }
}

/// A registered module.
pub(crate) fn module(module: &ModuleInfo) -> Value {
    json!({
        "name": module.name,
        "hash": module.hash.to_string(),
        "length": module.length,
        "mounts": module.mounts.iter().map(mount).collect::<Vec<_>>(),
        "argv0": module.argv0,
        "standard": module.standard,
    })
}

fn mount(mount: &Mount) -> Value {
    json!({"path": mount.path.as_str(), "tree": mount.tree.to_string()})
}

/// An entry in a listing.
pub(crate) fn entry(entry: &StoredEntry) -> Value {
    json!({
        "id": entry.id,
        "client": entry.client.to_string(),
        "sequence": entry.sequence,
        "body": entry.body.to_string(),
        "kind": kind(entry.kind),
        "verdict": entry.verdict.name(),
        "reason": entry.reason.map(|r| r.name()),
        "next_step": entry.reason.map(|r| r.next_step()),
        "detail": entry.detail,
        "version": entry.version,
        "made_version": entry.made_version,
        "replay_micros": entry.replay_micros,
        "received_bytes": entry.received_bytes,
        "sent_bytes": entry.sent_bytes,
        "time": entry.time,
        "resolved": entry.resolved,
        "record": entry.record.as_ref().map(|record| record.id().to_string()),
        "report": entry.report.iter().map(difference).collect::<Vec<_>>(),
    })
}

/// An entry that has not ended: its last answer.
pub(crate) fn answer(answer: &Answer) -> Value {
    json!({
        "sequence": answer.sequence,
        "status": format!("{:?}", answer.status).to_lowercase(),
        "reason": answer.reason.map(|r| r.name()),
        "detail": answer.detail,
        "waits": answer.waits,
        "needs": answer.needs.as_ref().map(Vec::len),
        "replay_micros": answer.replay_micros,
        "report": answer.report.iter().flatten().map(difference).collect::<Vec<_>>(),
    })
}

/// An entry with all that is kept of it.
pub(crate) fn detail(detail: &EntryDetail) -> Value {
    let lists = &detail.lists;
    let streams = lists.streams.iter().map(|s| {
        json!({
            "stdout_length": s.stdout_length, "stdout": s.stdout.to_string(),
            "stderr_length": s.stderr_length, "stderr": s.stderr.to_string(),
        })
    });
    let mut value = entry(&detail.entry);
    value["plan"] = match &detail.body {
        Body::Operation(record) => plan(&record.plan),
        Body::Value(_) => Value::Null,
    };
    value["observations"] = lists.observations.iter().map(observation).collect();
    value["changes"] = lists.changes.iter().map(change).collect();
    value["streams"] = streams.collect();
    value["exits"] = json!(lists.exits);
    value["pinned"] = detail.pinned.iter().map(|hash| json!(hash.to_string())).collect();
    value
}

fn kind(kind: BodyKind) -> &'static str {
    match kind {
        BodyKind::Operation => "operation",
        BodyKind::Value => "value",
    }
}

fn difference(d: &Difference) -> Value {
    json!({
        "aspect": d.aspect.name(),
        "path": d.path.as_ref().map(|p| p.as_str()),
        "step": d.step,
        "recorded": hash_text(&d.recorded),
        "replayed": hash_text(&d.replayed),
        "recorded_length": d.recorded_length,
        "replayed_length": d.replayed_length,
        "offset": d.offset,
    })
}

fn plan(plan: &Plan) -> Value {
    json!({
        "steps": plan.steps.iter().map(step).collect::<Vec<_>>(),
        "clock_start": plan.clock_start,
        "memory_pages": plan.run_limits().memory_pages,
        "profile": plan.profile,
    })
}

fn step(step: &Step) -> Value {
    let stdin = step.stdin.as_ref().map(|stdin| match stdin {
        Stdin::Blob { hash } => json!({"blob": hash.to_string()}),
        Stdin::Path { path } => json!({"path": path.as_str()}),
        Stdin::Step { step } => json!({"step": step}),
    });
    let environment = step.environment.iter().flatten().map(|(k, v)| json!([text(k), text(v)]));
    json!({
        "module": step.module.to_string(),
        "arguments": step.arguments.iter().map(|a| text(a)).collect::<Vec<_>>(),
        "environment": environment.collect::<Vec<_>>(),
        "directory": step.current_directory().as_str(),
        "stdin": stdin,
        "stdout": step.stdout.as_ref().map(|p| p.as_str()),
        "mounts": step.mounts.iter().flatten().map(mount).collect::<Vec<_>>(),
    })
}

fn observation(observation: &Observation) -> Value {
    let mut value = match observation {
        Observation::Content { hash, .. } => json!({"saw": "content", "hash": hash.to_string()}),
        Observation::Metadata { kind, mode, mtime, size, .. } => {
            json!({"saw": "metadata", "kind": kind.name(), "mode": mode, "mtime": mtime, "size": size})
        }
        Observation::Absent { missing, .. } => json!({"saw": "absent", "missing": missing.as_str()}),
        Observation::Listing { digest, .. } => json!({"saw": "listing", "digest": digest.to_string()}),
        Observation::LinkTarget { target, .. } => json!({"saw": "link-target", "target": text(target)}),
        Observation::Exists { kind, .. } => json!({"saw": "exists", "kind": kind.name()}),
    };
    value["path"] = json!(observation.path().as_str());
    value
}

fn change(change: &Change) -> Value {
    let before = match &change.before {
        Before::Absent { .. } => json!({"kind": "absent"}),
        Before::File { hash } => json!({"kind": "file", "hash": hash.to_string()}),
        Before::Directory => json!({"kind": "directory"}),
        Before::Symlink { target } => json!({"kind": "symbolic link", "target": text(target)}),
        Before::Kind { kind } => json!({"kind": kind.name()}),
    };
    let after = match &change.after {
        After::Removed => json!({"kind": "removed"}),
        After::File { length, hash, mode, mtime } => {
            json!({"kind": "file", "length": length, "hash": hash.to_string(), "mode": mode, "mtime": mtime})
        }
        After::Directory { mode } => json!({"kind": "directory", "mode": mode}),
        After::Symlink { target, mtime } => json!({"kind": "symbolic link", "target": text(target), "mtime": mtime}),
        After::Moved { from, mode } => json!({"kind": "moved", "from": from.as_str(), "mode": mode}),
        After::Metadata { kind, mode, mtime } => {
            json!({"kind": "metadata", "of": kind.name(), "mode": mode, "mtime": mtime})
        }
    };
    json!({"path": change.path.as_str(), "before": before, "after": after})
}
