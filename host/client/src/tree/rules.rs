//! One file of ignore rules, bounded: it may come from another, and each pattern takes kilobytes and time to compile.

use crate::db::index;
use crate::fs::Root;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use opship_record::TreePath;
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::io::Read;

/// The name of a file of rules; it counts for its folder and all below.
pub(super) const FILE: &str = ".opshipignore";
/// What is behind so many bytes of a file does not count.
const MAX_BYTES: u64 = 64 << 10;
/// Nor what is behind so many patterns.
const MAX_PATTERNS: usize = 1000;
/// Most patterns of all files that are in the index, in the order of their paths; a file that goes beyond does not count.
const MAX_TOTAL: usize = 16_384;
/// A longer line is no pattern: no path is as long.
const MAX_LINE: usize = 4096;
/// Most lines of one file that are told to be no patterns.
const MAX_TOLD: usize = 3;

/// Something in a file of ignore rules that does not count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleTrouble {
    /// The file.
    pub path: TreePath,
    /// What does not count and why, and so what to do.
    pub detail: String,
}

/// The lines of a file that may be patterns.
struct Lines {
    /// Their numbers, from 1, and text.
    lines: Vec<(usize, String)>,
    /// Is there more than what counts?
    more: bool,
}

/// The file's rules, and what of it does not count; `None` where there is none.
pub(super) fn read(root: &Root, path: &TreePath) -> Option<(Gitignore, Vec<RuleTrouble>)> {
    let Lines { lines, more } = lines(root, path)?;
    let mut builder = GitignoreBuilder::new("");
    let (mut troubles, mut wrong) = (Vec::new(), 0);
    let mut tell = |detail: String| troubles.push(RuleTrouble { path: path.clone(), detail });
    for (number, line) in &lines {
        let added = match line.len() > MAX_LINE {
            true => Err("it is too long".to_owned()),
            false => builder.add_line(None, line).map(drop).map_err(|error| error.to_string()),
        };
        // A line that is no pattern counts as none, as in git.
        if let Err(error) = added {
            wrong += 1;
            if wrong <= MAX_TOLD {
                tell(format!("line {number} is no pattern ({error}); correct it"));
            }
        }
    }
    if wrong > MAX_TOLD {
        tell(format!("{} more lines are no patterns", wrong - MAX_TOLD));
    }
    if more {
        tell(format!("only its first {MAX_PATTERNS} patterns, of its first 64 KiB, count; use fewer and wider ones"));
    }
    let rules = builder.build().unwrap_or_else(|error| {
        tell(format!("its patterns are too much together ({error}), so none counts; use fewer and simpler ones"));
        Gitignore::empty()
    });
    Some((rules, troubles))
}

/// The files of rules in the index that go beyond what all may have together.
pub(super) fn beyond(root: &Root, db: &Connection) -> rusqlite::Result<BTreeSet<TreePath>> {
    let files = index::rule_files(db)?;
    if files.len() <= MAX_TOTAL / MAX_PATTERNS {
        return Ok(BTreeSet::new());
    }
    let mut total = 0;
    let mut fits = |path: &TreePath| {
        total += lines(root, path).map_or(1, |lines| lines.lines.len().max(1));
        total <= MAX_TOTAL
    };
    let within = files.iter().take_while(|path| fits(path)).count();
    Ok(files.into_iter().skip(within).collect())
}

/// What to say of one of those.
pub(super) fn told_beyond(path: &TreePath) -> RuleTrouble {
    let detail = format!("it does not count: with the files before it there are over {MAX_TOTAL} patterns; use fewer");
    RuleTrouble { path: path.clone(), detail }
}

fn lines(root: &Root, path: &TreePath) -> Option<Lines> {
    let file = root.open_file(path.as_str()).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    let cut = metadata.len() > MAX_BYTES;
    if cut {
        // Half a pattern is another one.
        text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    }
    let text = String::from_utf8_lossy(&text);
    let is_pattern = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
    let mut all = text.lines().enumerate().filter(|(_, line)| is_pattern(line));
    let lines = all.by_ref().take(MAX_PATTERNS).map(|(at, line)| (at + 1, line.to_owned())).collect();
    let more = cut || all.next().is_some();
    Some(Lines { lines, more })
}
