//! Names of compressed files and of what they contain.

use opship_ops_common::os_str;
use std::path::{Path, PathBuf};

/// Suffixes that are taken for those of a compressed file besides the chosen one, and what takes
/// their place when it is decompressed.
const KNOWN: &[(&[u8], &[u8])] = &[
    (b".gz", b""),
    (b".z", b""),
    (b".taz", b".tar"),
    (b".tgz", b".tar"),
    (b"-gz", b""),
    (b"-z", b""),
    (b"_z", b""),
    (b".Z", b""),
];

/// Suffixes that are tried in turn where a file to be decompressed was named without.
const TRIED: &[&[u8]] = &[b".gz", b".z", b"-z", b".Z"];

/// A path cut into what stays, its suffix of a compressed file, and what takes the suffix's place.
pub(crate) struct Cut<'a> {
    stem: &'a [u8],
    pub(crate) suffix: &'a [u8],
    replacement: &'static [u8],
}

impl Cut<'_> {
    pub(crate) fn decompressed(&self) -> PathBuf {
        PathBuf::from(os_str(&[self.stem, self.replacement].concat()))
    }
}

/// Cuts the suffix off; `None` if there is none, or nothing of the name beside it.
pub(crate) fn cut<'a>(path: &'a Path, chosen: &[u8]) -> Option<Cut<'a>> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let fits = |suffix: &[u8], replacement| {
        let stem = bytes.strip_suffix(suffix)?;
        let whole_name = stem.last().is_none_or(|&b| b == b'/');
        (!whole_name).then(|| Cut { stem, suffix: &bytes[stem.len()..], replacement })
    };
    let known = || KNOWN.iter().find_map(|&(suffix, replacement)| fits(suffix, replacement));
    // The chosen suffix goes first, but `.tgz` chosen is still a `.tar` inside.
    fits(chosen, b"").filter(|_| !KNOWN.iter().any(|(s, _)| *s == chosen)).or_else(known)
}

pub(crate) fn with_suffix(path: &Path, suffix: &[u8]) -> PathBuf {
    PathBuf::from(os_str(&[path.as_os_str().as_encoded_bytes(), suffix].concat()))
}

/// The paths that a compressed file named `path` may have, the first that exists to be taken.
pub(crate) fn candidates(path: &Path, chosen: &[u8]) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if cut(path, chosen).is_none() {
        all.push(with_suffix(path, chosen));
        all.extend(TRIED.iter().filter(|s| **s != chosen).map(|s| with_suffix(path, s)));
    }
    all
}

/// The last component of a name saved in a header. What is no name of a file in one directory is
/// refused: a header must not decide where a file goes.
pub(crate) fn saved_name(bytes: &[u8]) -> Option<&Path> {
    let name = bytes.rsplit(|&b| b == b'/').next()?;
    let unusable = name.is_empty() || name == b"." || name == b".." || name.contains(&0);
    (!unusable).then(|| Path::new(os_str(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decompressed(path: &str, chosen: &str) -> Option<String> {
        cut(Path::new(path), chosen.as_bytes()).map(|c| c.decompressed().to_string_lossy().into_owned())
    }

    #[test]
    fn suffixes_are_cut_off() {
        for (path, expected) in [
            ("a.gz", Some("a")),
            ("d/a.tgz", Some("d/a.tar")),
            ("a.taz", Some("a.tar")),
            ("a-gz", Some("a")),
            ("a.foo", Some("a")),
            ("a", None),
            (".gz", None),
            ("d/.gz", None),
            ("a.gzip", None),
        ] {
            assert_eq!(decompressed(path, ".foo").as_deref(), expected, "{path}");
        }
        assert_eq!(decompressed("a.tgz", ".tgz").as_deref(), Some("a.tar"));
    }

    #[test]
    fn a_saved_name_stays_in_its_directory() {
        let name = |bytes: &'static [u8]| saved_name(bytes).map(|p| p.to_string_lossy().into_owned());
        assert_eq!(name(b"/etc/passwd").as_deref(), Some("passwd"));
        assert_eq!(name(b"a b").as_deref(), Some("a b"));
        for bytes in [&b""[..], b"..", b"x/..", b"x/.", b"x/"] {
            assert_eq!(name(bytes), None);
        }
    }
}
