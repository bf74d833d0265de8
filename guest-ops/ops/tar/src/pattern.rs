//! Patterns of names, as the shell has them; a wildcard also stands for slashes.

/// Whether `name` as a whole fits.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on when the last star has to stand for one byte more.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            None if n == name.len() => return true,
            _ => one(&pattern[p..], name.get(n).copied()),
        };
        if let Some(used) = step {
            p += used;
            n += 1;
            continue;
        }
        match star {
            Some((after, from)) if from < name.len() => {
                star = Some((after, from + 1));
                (p, n) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Whether one byte fits the start of a pattern: how long that start is.
fn one(pattern: &[u8], byte: Option<u8>) -> Option<usize> {
    let byte = byte?;
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((fits, used)) => fits.then_some(used + 1),
            // Without an end it is no set.
            None => (byte == b'[').then_some(1),
        },
        [b'\\', escaped, ..] => (byte == *escaped).then_some(2),
        [literal, ..] => (byte == *literal).then_some(1),
        [] => None,
    }
}

/// Whether a set like `a-z]` has the byte, and how long the set is.
fn set(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut found = false;
    loop {
        let low = *pattern.get(at)?;
        if low == b']' && at > first {
            return Some((found != negated, at + 1));
        }
        let high = match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some(b'-'), Some(&high)) if high != b']' => {
                at += 2;
                high
            }
            _ => low,
        };
        found |= (low..=high).contains(&byte);
        at += 1;
    }
}

/// Whether a pattern of `--exclude` fits a name: the name or a directory above it, from its beginning
/// or from any component on.
pub(crate) fn excludes(pattern: &[u8], name: &[u8]) -> bool {
    let is_slash = |at: usize| name.get(at).is_none_or(|&b| b == b'/');
    let starts = (0..name.len()).filter(|&at| at == 0 || name[at - 1] == b'/');
    starts.into_iter().any(|start| {
        (start + 1..=name.len()).filter(|&end| is_slash(end)).any(|end| matches(pattern, &name[start..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fits(pattern: &str, name: &str) -> bool {
        matches(pattern.as_bytes(), name.as_bytes())
    }

    #[test]
    fn wildcards() {
        for (pattern, name) in [
            ("a", "a"),
            ("*", ""),
            ("*", "a/b"),
            ("a*c", "abbc"),
            ("a*b*c", "aXbYbZc"),
            ("?", "x"),
            ("[a-c]x", "bx"),
            ("[!a-c]", "d"),
            ("[]a]", "]"),
            ("[a-]", "-"),
            ("\\*", "*"),
            ("[", "["),
            ("*.o", ".o"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("a", "b"), ("a", "ab"), ("?", ""), ("[a-c]", "d"), ("[!a]", "a"), ("\\*", "x"), ("a*c", "ab")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn exclusion_begins_and_ends_at_components() {
        for (pattern, name) in
            [("b", "a/b/c"), ("b", "b"), ("a/b", "./a/b"), ("*.o", "d/x.o"), ("b/*", "a/b/c"), ("./a", "./a/x")]
        {
            assert!(excludes(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in [("b", "ab"), ("b", "ba/x"), ("b/*", "a/b"), ("/a", "a")] {
            assert!(!excludes(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_fits_itself_and_a_star_for_any_part(name in "[a-c/.]{0,12}", cut in 0usize..12) {
            prop_assert!(fits(&name, &name));
            let cut = cut.min(name.len());
            prop_assert!(fits(&(name[..cut].to_owned() + "*"), &name));
            prop_assert!(fits(&("*".to_owned() + &name[cut..]), &name));
        }

        #[test]
        fn many_stars_end_soon(name in "a{60}", stars in "(a\\*){12,20}b") {
            prop_assert!(!fits(&stars, &name));
        }
    }
}
