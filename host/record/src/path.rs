//! Paths inside a tree, validated once for the whole project.

use crate::PathError;
use crate::limits::{MAX_COMPONENT, MAX_PATH};
use std::fmt;
use unicode_normalization::UnicodeNormalization;

/// A path inside a tree: UTF-8, `/`-separated, relative to the root, never normalised. The empty path is the root.
///
/// A value of this type holds no empty component, no `.` or `..`, no NUL and no component that is `.opship` in any
/// case or normalisation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TreePath(String);

impl TreePath {
    /// The root.
    pub const fn root() -> TreePath {
        TreePath(String::new())
    }

    /// Validates a path.
    ///
    /// # Errors
    /// [`PathError`] names what is wrong with it.
    pub fn new(path: impl Into<String>) -> Result<TreePath, PathError> {
        let path = path.into();
        check(&path)?;
        Ok(TreePath(path))
    }

    /// Validates bytes of a host's file name or path.
    ///
    /// # Errors
    /// As [`TreePath::new`], and [`PathError::NotUtf8`].
    pub fn from_bytes(path: &[u8]) -> Result<TreePath, PathError> {
        match std::str::from_utf8(path) {
            Ok(path) => TreePath::new(path),
            Err(_) => Err(PathError::NotUtf8(shown(&String::from_utf8_lossy(path)))),
        }
    }

    /// The path of a child of this directory.
    ///
    /// # Errors
    /// [`PathError`] if `name` is not one valid component or the path becomes too long.
    pub fn join(&self, name: &str) -> Result<TreePath, PathError> {
        if name.contains('/') {
            return Err(PathError::Component(shown(name)));
        }
        check_component(name, name)?;
        let path = if self.is_root() { name.to_owned() } else { format!("{}/{name}", self.0) };
        check_length(&path)?;
        Ok(TreePath(path))
    }

    /// Is it the root?
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path as text; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory that holds this path, `None` for the root.
    pub fn parent(&self) -> Option<TreePath> {
        if self.is_root() {
            return None;
        }
        Some(TreePath(self.0.rsplit_once('/').map(|(parent, _)| parent.to_owned()).unwrap_or_default()))
    }

    /// The last component, `None` for the root.
    pub fn name(&self) -> Option<&str> {
        if self.is_root() { None } else { self.0.rsplit('/').next() }
    }

    /// The components from the root down.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|c| !c.is_empty())
    }

    /// Is it `ancestor` itself or below it?
    pub fn starts_with(&self, ancestor: &TreePath) -> bool {
        self.text_below(ancestor).is_some()
    }

    /// What remains below `ancestor`; `None` if the path is not in it.
    pub fn strip_prefix(&self, ancestor: &TreePath) -> Option<TreePath> {
        self.text_below(ancestor).map(|rest| TreePath(rest.to_owned()))
    }

    fn text_below(&self, ancestor: &TreePath) -> Option<&str> {
        if ancestor.is_root() {
            return Some(&self.0);
        }
        match self.0.strip_prefix(&ancestor.0)? {
            "" => Some(""),
            rest => rest.strip_prefix('/'),
        }
    }

    /// The last component as a file system sees it that ignores case and Unicode form; two that it takes for one are equal.
    pub fn folded_name(&self) -> Option<String> {
        self.name().map(folded)
    }

    /// The path or what stands above it, one component below `ancestor`; `None` if the path is not below that.
    pub(crate) fn ancestor_below(&self, ancestor: &TreePath) -> Option<TreePath> {
        let rest = self.text_below(ancestor).filter(|rest| !rest.is_empty())?;
        let name = rest.split('/').next()?;
        Some(TreePath(self.0[..self.0.len() - rest.len() + name.len()].to_owned()))
    }

    /// This directory's path with `below` under it.
    ///
    /// # Errors
    /// [`PathError::TooLong`] if the whole is too long.
    pub fn append(&self, below: &TreePath) -> Result<TreePath, PathError> {
        self.append_text(&below.0)
    }

    /// As [`TreePath::append`], for a text that was cut from a valid path.
    pub(crate) fn append_text(&self, below: &str) -> Result<TreePath, PathError> {
        let path = match (self.is_root(), below.is_empty()) {
            (true, _) => below.to_owned(),
            (_, true) => self.0.clone(),
            _ => format!("{}/{below}", self.0),
        };
        check_length(&path)?;
        Ok(TreePath(path))
    }
}

fn check(path: &str) -> Result<(), PathError> {
    if path.is_empty() {
        return Ok(());
    }
    if path.starts_with('/') {
        return Err(PathError::Absolute(shown(path)));
    }
    check_length(path)?;
    path.split('/').try_for_each(|component| check_component(component, path))
}

fn check_length(path: &str) -> Result<(), PathError> {
    if path.len() > MAX_PATH {
        return Err(PathError::TooLong { path: shown(path), what: "path", limit: MAX_PATH });
    }
    Ok(())
}

fn check_component(component: &str, path: &str) -> Result<(), PathError> {
    if matches!(component, "" | "." | "..") {
        return Err(PathError::Component(shown(path)));
    }
    if component.len() > MAX_COMPONENT {
        return Err(PathError::TooLong { path: shown(path), what: "component", limit: MAX_COMPONENT });
    }
    if component.contains('\0') {
        return Err(PathError::Nul(shown(path)));
    }
    if is_reserved(component) {
        return Err(PathError::Reserved(shown(path)));
    }
    Ok(())
}

/// Would some file system take this name for `.opship`? Compatibility decomposition and case folding cover
/// case-insensitive and normalising ones; HFS+ ignores some invisible code points besides.
fn is_reserved(component: &str) -> bool {
    if component.is_ascii() {
        return component.eq_ignore_ascii_case(".opship");
    }
    folded(component) == ".opship"
}

/// A name as a file system sees it that ignores case and Unicode form: two names that it takes for one are equal.
fn folded(component: &str) -> String {
    if component.is_ascii() {
        return component.to_ascii_lowercase();
    }
    let visible = component.chars().filter(|c| !is_ignored_by_hfs(*c));
    visible.nfkd().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfkc().collect()
}

fn is_ignored_by_hfs(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Cut short for an error message.
fn shown(path: &str) -> String {
    path.chars().take(200).flat_map(|c| c.escape_debug()).collect()
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { &self.0 })
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::str::FromStr for TreePath {
    type Err = PathError;

    fn from_str(path: &str) -> Result<TreePath, PathError> {
        TreePath::new(path)
    }
}

impl<C> minicbor::Encode<C> for TreePath {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.str(&self.0)?.ok()
    }
}

impl<'b, C> minicbor::Decode<'b, C> for TreePath {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        TreePath::new(d.str()?).map_err(minicbor::decode::Error::message)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    #[test]
    fn refuses_what_could_leave_the_tree_or_reach_opships_own_folder() {
        let refused = [
            "/a",
            "a//b",
            "a/",
            ".",
            "..",
            "a/../b",
            "a/./b",
            "a\0b",
            ".opship",
            "x/.OpShip/y",
            "./a",
            ".op\u{200c}ship",
            ".opſhip",
            "．ｏｐｓｈｉｐ",
            "a/.OPSHIP",
            "\u{feff}.opship",
        ];
        for text in refused {
            assert!(TreePath::new(text).is_err(), "{text:?}");
        }
        assert!(matches!(TreePath::from_bytes(b"a\xff"), Err(PathError::NotUtf8(_))));
        assert!(TreePath::new("x".repeat(256)).is_err());
        assert!(TreePath::new(["x".repeat(250).as_str(); 17].join("/")).is_err());
    }

    #[test]
    fn accepts_every_other_name_and_keeps_its_bytes() {
        for text in ["a", "a b/c", ".opshipignore", "opship", "é/e\u{301}", "…", "..a", "a\\b", "\u{202e}x"] {
            assert_eq!(path(text).as_str(), text);
        }
    }

    #[test]
    fn names_that_some_file_system_takes_for_one_fold_alike() {
        for (a, b) in [("Makefile", "makefile"), ("d/é", "other/E\u{301}"), ("straße", "STRASSE")] {
            assert_eq!(path(a).folded_name(), path(b).folded_name(), "{a}");
        }
        assert_ne!(path("a").folded_name(), path("b").folded_name());
    }

    #[test]
    fn parts_fit_together() {
        assert_eq!(path("a/b").parent(), Some(path("a")));
        assert_eq!(path("a").parent(), Some(TreePath::root()));
        assert_eq!(TreePath::root().parent(), None);
        assert_eq!(path("a/b").name(), Some("b"));
        assert_eq!(path("a/b").strip_prefix(&path("a")), Some(path("b")));
        assert_eq!(path("ab").strip_prefix(&path("a")), None);
        assert_eq!(path("a").append(&path("b/c")).unwrap(), path("a/b/c"));
        assert!(path("a").join("b/c").is_err());
        assert!(path("a").join("..").is_err());
    }
}
