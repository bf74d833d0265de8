//! What came and a person should know of: names that not every system can hold, harmless here and told before they do harm
//! elsewhere; hints for native runs that say what none may say.

use crate::native::{WORKSPACE_FILE, Workspace};
use crate::{ClientError, WorkingCopy};
use opship_record::TreePath;
use std::collections::{BTreeMap, BTreeSet};

/// Names that Windows takes for devices, whatever extension they have (Win32, "Naming Files, Paths, and Namespaces").
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Paths that a sync brought, by their folders.
#[derive(Debug, Default)]
pub(crate) struct Arrived(BTreeMap<TreePath, BTreeSet<TreePath>>);

impl Arrived {
    /// Notes a path that came, or went.
    pub(crate) fn note(&mut self, path: &TreePath, is_there: bool) {
        let folder = self.0.entry(path.parent().unwrap_or_default()).or_default();
        if is_there {
            folder.insert(path.clone());
        } else {
            folder.remove(path);
        }
    }

    /// Those of which a person should know, with the reason, in the order of their paths.
    pub(crate) fn remarkable(&self, copy: &WorkingCopy) -> Result<Vec<(String, String)>, ClientError> {
        let mut found = Vec::new();
        for (folder, paths) in self.0.iter().filter(|(_, paths)| !paths.is_empty()) {
            let mut alike: BTreeMap<String, Vec<TreePath>> = BTreeMap::new();
            for path in copy.children(folder)? {
                alike.entry(path.folded_name().unwrap_or_default()).or_default().push(path);
            }
            for path in paths {
                if path.as_str() == WORKSPACE_FILE
                    && let Err(error) = Workspace::read(&copy.shared.path)
                {
                    found.push((path.to_string(), format!("nothing of it counts, and nothing of it is run: {error}")));
                }
                let folded = path.folded_name().unwrap_or_default();
                if is_device(&folded) {
                    found.push((path.to_string(), "Windows takes the name for a device's".to_owned()));
                }
                let other = alike.get(&folded).and_then(|paths| paths.iter().find(|other| *other != path));
                if let Some(other) = other.and_then(TreePath::name) {
                    found.push((path.to_string(), format!("'{other}' differs from it in case or Unicode form alone")));
                }
            }
        }
        Ok(found)
    }
}

fn is_device(folded: &str) -> bool {
    let stem = folded.split('.').next().unwrap_or_default().trim_end();
    let numbered =
        |prefix: &str| stem.strip_prefix(prefix).is_some_and(|rest| matches!(rest.as_bytes(), [b'1'..=b'9']));
    DEVICES.contains(&stem) || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_are_known_with_any_extension() {
        for name in ["con", "aux.txt", "nul.tar.gz", "com1", "lpt9.c", "prn "] {
            assert!(is_device(name), "{name}");
        }
        for name in ["console", "com", "com0", "com10", "my.aux", "lpt"] {
            assert!(!is_device(name), "{name}");
        }
    }
}
