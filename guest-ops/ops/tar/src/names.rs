//! Names of members: how they are shown, what is left out of them for safety.

/// A name as GNU tar lists it: what is not printing is escaped, so that each name is one line.
pub(crate) fn quoted(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                '\x07' => text.push_str("\\a"),
                '\x08' => text.push_str("\\b"),
                '\x0b' => text.push_str("\\v"),
                '\x0c' => text.push_str("\\f"),
                '\x7f' => text.push_str("\\177"),
                c if c.is_control() => {
                    c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| text.push_str(&format!("\\{b:03o}")));
                }
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|b| text.push_str(&format!("\\{b:03o}")));
    }
    text
}

/// The same in a message.
pub(crate) fn shown(name: &[u8]) -> String {
    quoted(name)
}

/// What a name is stored as: without what would lead outside a directory, and that.
pub(crate) fn stored(name: &[u8]) -> (&[u8], &[u8]) {
    let mut start = 0;
    for (at, part) in parts(name) {
        if part == b".." {
            start = at + 2;
        }
    }
    start += leading_slashes(&name[start..]);
    let (prefix, rest) = name.split_at(start);
    // The root, and all that is only `..`, is a directory that is there already.
    (prefix, if rest.is_empty() { b"." } else { rest })
}

pub(crate) fn leading_slashes(name: &[u8]) -> usize {
    name.iter().take_while(|&&b| b == b'/').count()
}

/// The components between slashes, with their places; empty ones too.
fn parts(name: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    name.split(|&b| b == b'/').map(move |part| {
        let place = at;
        at += part.len() + 1;
        (place, part)
    })
}

/// A name to be extracted has a component `..`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeadsUp;

/// The components that lead from the target directory to a member; none: the directory itself.
pub(crate) fn components(name: &[u8]) -> Result<Vec<&[u8]>, LeadsUp> {
    if parts(name).any(|(_, part)| part == b"..") {
        return Err(LeadsUp);
    }
    Ok(parts(name).map(|(_, part)| part).filter(|part| !part.is_empty() && *part != b".").collect())
}

/// The name without its first `count` components; `None` if it has no more.
pub(crate) fn without_components(name: &[u8], count: usize) -> Option<&[u8]> {
    let mut rest = name;
    for _ in 0..count {
        rest = &rest[leading_slashes(rest)..];
        let end = rest.iter().position(|&b| b == b'/')?;
        rest = &rest[end..];
        rest = &rest[leading_slashes(rest)..];
    }
    (!rest.is_empty()).then_some(rest)
}

/// The name without slashes at its end, of which one alone is kept.
pub(crate) fn trimmed(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|&b| b != b'/').map_or(name.len().min(1), |last| last + 1);
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_outside_is_not_stored() {
        for (name, prefix, rest) in [
            ("a/b", "", "a/b"),
            ("./a", "", "./a"),
            ("/a/b", "/", "a/b"),
            ("//a", "//", "a"),
            ("../a", "../", "a"),
            ("a/../b", "a/../", "b"),
            ("..", "..", "."),
            ("/", "/", "."),
            ("a..b/..c", "", "a..b/..c"),
        ] {
            assert_eq!(stored(name.as_bytes()), (prefix.as_bytes(), rest.as_bytes()), "{name}");
        }
    }

    #[test]
    fn components_never_lead_up() {
        assert_eq!(components(b"/a//./b/"), Ok(vec![&b"a"[..], b"b"]));
        assert_eq!(components(b"./"), Ok(vec![]));
        for name in ["..", "a/..", "../a", "a/../b", "/.."] {
            assert_eq!(components(name.as_bytes()), Err(LeadsUp), "{name}");
        }
        assert!(components(b"a/...").is_ok());
    }

    #[test]
    fn leading_components_are_cut_off() {
        assert_eq!(without_components(b"a/b/c", 1), Some(&b"b/c"[..]));
        assert_eq!(without_components(b"./b//c", 2), Some(&b"c"[..]));
        assert_eq!(without_components(b"a/", 1), None);
        assert_eq!(without_components(b"a", 1), None);
        assert_eq!(without_components(b"a/b", 0), Some(&b"a/b"[..]));
    }

    #[test]
    fn each_name_is_one_line() {
        assert_eq!(quoted("a\\b\nä\x01".as_bytes()), "a\\\\b\\nä\\001");
        assert_eq!(quoted(b"\xff\t\x7f"), "\\377\\t\\177");
    }
}
