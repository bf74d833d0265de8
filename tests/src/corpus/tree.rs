//! The trees that the cases run on: described in JSON, with bulk content made from a seed.

use opship_world::MemoryTree;
use serde::Deserialize;

/// One path of a described tree.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    path: String,
    /// Octal permission bits.
    mode: Option<String>,
    /// Nanoseconds since 1970.
    #[serde(default)]
    mtime: i64,
    text: Option<String>,
    lines: Option<Lines>,
    bytes: Option<Bytes>,
    /// Of a symbolic link.
    target: Option<String>,
    #[serde(default)]
    directory: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    seed: u64,
    count: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bytes {
    seed: u64,
    length: usize,
}

/// The tree that a description stands for.
pub(super) fn tree(description: &str) -> MemoryTree {
    let items: Vec<Item> = serde_json::from_str(description).unwrap();
    items.into_iter().fold(MemoryTree::new(), |tree, item| {
        if let Some(target) = &item.target {
            return tree.symlink(&item.path, target);
        }
        if item.directory {
            return tree.directory(&item.path);
        }
        let mode = item.mode.as_deref().map_or(0o644, |mode| u16::from_str_radix(mode, 8).unwrap());
        tree.file_with(&item.path, item.content(), mode, item.mtime)
    })
}

impl Item {
    fn content(&self) -> Vec<u8> {
        match (&self.text, &self.lines, &self.bytes) {
            (Some(text), None, None) => text.clone().into_bytes(),
            (None, Some(lines), None) => lines.make(),
            (None, None, Some(bytes)) => bytes.make(),
            _ => panic!("'{}' needs one of text, lines and bytes", self.path),
        }
    }
}

impl Lines {
    /// Lines of a word, a number and a time, with tabs between.
    fn make(&self) -> Vec<u8> {
        const SYLLABLES: [&str; 16] =
            ["ba", "ko", "ri", "te", "su", "Mo", "la", "né", "pi", "xu", "da", "Zo", "ge", "hi", "fa", "wu"];
        let mut numbers = Numbers(self.seed);
        let mut made = String::new();
        for _ in 0..self.count {
            let (word, number) = (numbers.next(), numbers.next());
            for syllable in 0..=word % 3 {
                made += SYLLABLES[usize::try_from(word >> (8 + 4 * syllable)).unwrap_or(usize::MAX) % SYLLABLES.len()];
            }
            let signed = number.cast_signed() >> 44;
            made += &format!("\t{signed}\t{:02}:{:02}.{}\n", number % 24, (number >> 8) % 60, (number >> 16) % 1000);
        }
        made.into_bytes()
    }
}

impl Bytes {
    fn make(&self) -> Vec<u8> {
        let mut numbers = Numbers(self.seed);
        std::iter::repeat_with(|| numbers.next().to_le_bytes()).flatten().take(self.length).collect()
    }
}

/// splitmix64 (Steele, Lea and Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
