//! Inputs that are the same in each run of the benchmark: texts of a made vocabulary, and what is written with it.

use crate::value::content::Numbers;
use std::fmt::Write;

/// Words of the vocabulary.
const WORDS: usize = 4_000;

/// A writer with a vocabulary; what it writes depends on its seed.
pub(super) struct Writer {
    vocabulary: Vec<String>,
    numbers: Numbers,
}

/// Files by their names.
pub(super) type Files = Vec<(String, Vec<u8>)>;

impl Writer {
    /// The vocabulary is always the same.
    pub(super) fn new(seed: u64) -> Writer {
        let mut numbers = Numbers(7);
        let vocabulary = (0..WORDS).map(|_| word(&mut numbers)).collect();
        Writer { vocabulary, numbers: Numbers(seed) }
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.numbers.below(end)
    }

    /// A word; a few are said often and most seldom, as in languages.
    pub(super) fn word(&mut self) -> String {
        let chance = self.numbers.below(1 << 20) as f64 / f64::from(1 << 20);
        self.vocabulary[((WORDS as f64).powf(chance) - 1.0) as usize % WORDS].clone()
    }

    /// A sentence without a line's end.
    pub(super) fn sentence(&mut self) -> String {
        let count = 4 + self.below(9);
        let words: Vec<String> = (0..count).map(|_| self.word()).collect();
        let mut text = words.join(" ");
        text.replace_range(..1, &text[..1].to_uppercase());
        text + "."
    }

    /// Lines made by a function until there are `length` bytes.
    pub(super) fn lines(&mut self, length: usize, mut line: impl FnMut(&mut Writer) -> String) -> Vec<u8> {
        let mut text = String::new();
        while text.len() < length {
            text += &line(self);
            text.push('\n');
        }
        text.into_bytes()
    }

    /// Plain text, a sentence a line.
    pub(super) fn text(&mut self, length: usize) -> Vec<u8> {
        self.lines(length, Writer::sentence)
    }

    /// A manuscript for `roff`.
    pub(super) fn manuscript(&mut self, length: usize) -> Vec<u8> {
        let mut text = format!(".TI {}\n", self.sentence()).into_bytes();
        while text.len() < length {
            text.extend(format!(".SH {} {}\n", self.word(), self.word()).into_bytes());
            let paragraphs = 2 + self.below(4);
            for _ in 0..paragraphs {
                text.extend(b".PP\n");
                text.extend(self.text(600));
            }
        }
        text
    }

    /// Source for `toycc`: functions named after a prefix that call those before them.
    pub(super) fn program(&mut self, prefix: &str, length: usize) -> Vec<u8> {
        let mut number = 0;
        self.lines(length, |writer| {
            let mut function = format!("fn {prefix}{number}(first, second) {{\n    let result = 1;\n");
            let statements = 3 + writer.below(6);
            for _ in 0..statements {
                let (factor, limit) = (writer.below(1_000), writer.below(90));
                let callee = format!("{prefix}{}", writer.below(number + 1));
                let _ = match writer.below(3) {
                    0 => writeln!(function, "    result = result + {callee}(first, {factor}) * second;"),
                    1 => writeln!(function, "    while result > {limit} {{ result = result - first * {factor}; }}"),
                    _ => writeln!(function, "    if first < {limit} {{ return second + {factor}; }}"),
                };
            }
            number += 1;
            function + "    return result;\n}\n"
        })
    }

    /// An object for `tld` of so many words of code, as `toycc` makes them.
    pub(super) fn object(&mut self, prefix: &str, words: usize) -> Vec<u8> {
        const CODES: [u32; 8] = [0x01, 0x02, 0x03, 0x20, 0x21, 0x22, 0x24, 0x11];
        let mut text = String::new();
        for word in 0..words {
            if word % 24 == 0 {
                let _ = writeln!(text, "D {prefix}{} {:x}", word / 24, word * 4);
            }
            if word % 24 == 13 {
                let _ = writeln!(text, "R {:x} {prefix}{}", word * 4, self.below(word / 24 + 1));
            }
            let code = CODES[self.below(CODES.len())];
            let operand = if code < 0x10 { self.below(200) as u32 } else { 0 };
            let _ = writeln!(text, "T {:08x}", code << 24 | operand);
        }
        text.into_bytes()
    }

    /// A grammar for `llgen` of so many names with rules.
    pub(super) fn grammar(&mut self, names: usize) -> Vec<u8> {
        let mut text = String::new();
        for name in 0..names {
            let terminal = name * 2;
            let (a, b, c) = (self.below(names), self.below(names), self.below(names));
            let _ = writeln!(text, "n{name} : t{terminal} n{a} n{b}");
            let _ = writeln!(text, "n{name} : t{} n{c} t{}", terminal + 1, self.below(names * 2));
            if self.below(3) == 0 {
                let _ = writeln!(text, "n{name} :");
            }
        }
        text.into_bytes()
    }

    /// A log for `weblog`.
    pub(super) fn log(&mut self, length: usize) -> Vec<u8> {
        let (visitors, mut second) = (length / 400 + 3, 0);
        self.lines(length, |writer| {
            second += writer.below(40);
            let status = [200, 200, 200, 200, 304, 404][writer.below(6)];
            let (visitor, bytes) = (writer.below(visitors) * 7_919 % 1_000_003, 400 + writer.below(90_000));
            let page = format!("/{}/{}", writer.word(), writer.word());
            format!("{second} 10.{}.{}.{} {page} {status} {bytes}", visitor >> 16, visitor >> 8 & 255, visitor & 255)
        })
    }

    /// Changes for `edit` of a text: about every eighth line.
    pub(super) fn edits(&mut self, lines: usize) -> Vec<u8> {
        let mut script = String::new();
        let mut line = 1 + self.below(12);
        while line <= lines {
            let sentence = self.sentence();
            let _ = match self.below(3) {
                0 => writeln!(script, "{line}d"),
                1 => writeln!(script, "{line}c {sentence}"),
                _ => writeln!(script, "{line}a {sentence}"),
            };
            line += 1 + self.below(15);
        }
        script.into_bytes()
    }

    /// A picture (PPM) of smooth areas, edges and a little noise.
    pub(super) fn picture(&mut self, width: usize, height: usize) -> Vec<u8> {
        let mut bytes = format!("P6\n{width} {height}\n255\n").into_bytes();
        let (cx, cy, radius) = (self.below(width), self.below(height), width / 3 + 1);
        for y in 0..height {
            for x in 0..width {
                let is_inside = x.abs_diff(cx).pow(2) + y.abs_diff(cy).pow(2) < radius.pow(2);
                let noise = self.below(12);
                let base = [x * 160 / width, y * 160 / height, if is_inside { 200 } else { 60 }];
                bytes.extend(base.map(|sample| u8::try_from(sample + noise).unwrap_or(u8::MAX)));
            }
        }
        bytes
    }

    /// A drawing (SVG) of so many shapes, of width and height.
    pub(super) fn drawing(&mut self, shapes: usize, side: usize) -> Vec<u8> {
        let mut text = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{side}\" height=\"{side}\">\n");
        for _ in 0..shapes {
            let (x, y, size) = (self.below(side), self.below(side), 4 + self.below(side / 6));
            let colour = self.below(1 << 24);
            let _ = match self.below(3) {
                0 => writeln!(
                    text,
                    "<circle cx=\"{x}\" cy=\"{y}\" r=\"{size}\" fill=\"#{colour:06x}\" opacity=\"0.6\"/>"
                ),
                1 => writeln!(text, "<path d=\"M{x} {y}q{size} 9 7 {size}z\" stroke=\"#{colour:06x}\" fill=\"none\"/>"),
                _ => writeln!(text, "<rect x=\"{x}\" y=\"{y}\" width=\"{size}\" height=\"9\" fill=\"#{colour:06x}\"/>"),
            };
        }
        (text + "</svg>\n").into_bytes()
    }

    /// A table with a head (CSV).
    pub(super) fn table(&mut self, length: usize) -> Vec<u8> {
        let rows = self.lines(length, |writer| {
            let (pieces, price) = (writer.below(500), writer.below(90_000));
            format!("{},{},{pieces},{}.{:02}", writer.word(), writer.word(), price / 100, price % 100)
        });
        [b"region,article,pieces,price\n".as_slice(), &rows].concat()
    }
}

/// A word of one to four syllables.
fn word(numbers: &mut Numbers) -> String {
    const SYLLABLES: [&str; 24] = [
        "an", "ber", "co", "del", "en", "fi", "gor", "hal", "in", "jo", "ker", "lum", "ma", "no", "or", "pel", "qui",
        "ra", "sen", "ti", "ul", "ver", "wi", "zo",
    ];
    let count = 1 + numbers.below(4);
    (0..count).map(|_| SYLLABLES[numbers.below(SYLLABLES.len())]).collect()
}
