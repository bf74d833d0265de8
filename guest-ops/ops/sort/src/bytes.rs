//! Classes of bytes in the C locale.

/// What separates fields and may stand before a number. A newline counts: it can stand in a line
/// that ends with NUL.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n')
}

pub(crate) fn is_printing(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// What dictionary order looks at.
pub(crate) fn is_dictionary(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || is_blank(byte)
}

/// The bytes after leading blanks.
pub(crate) fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&b| !is_blank(b)).unwrap_or(bytes.len());
    &bytes[start..]
}
