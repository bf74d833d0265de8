//! Bearer tokens as text.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Random bytes of a token: 160 bits, what RFC 6749 §10.10 asks for. A token goes with every request, so it is no longer.
pub const RANDOM_BYTES: usize = 20;
const LEAST: usize = (RANDOM_BYTES * 8).div_ceil(6);
/// Tokens of earlier builds have 256 bits in hexadecimal digits.
const MOST: usize = 64;

/// The token that these random bytes make: base64url without padding (RFC 4648 §5).
pub fn from_random(bytes: &[u8; RANDOM_BYTES]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Can this be a token: 27 to 64 of `A-Z`, `a-z`, `0-9`, `-`, `_`?
pub fn is_token(text: &str) -> bool {
    (LEAST..=MOST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_its_bits_are_in_a_token() {
        assert_eq!(from_random(&[0; RANDOM_BYTES]), "A".repeat(27));
        let mut seen = std::collections::BTreeSet::new();
        for bit in 0..RANDOM_BYTES * 8 {
            let mut bytes = [0; RANDOM_BYTES];
            bytes[bit / 8] |= 1 << (bit % 8);
            let token = from_random(&bytes);
            assert!(is_token(&token) && seen.insert(token));
        }
    }

    #[test]
    fn what_is_short_long_or_not_of_its_alphabet_is_no_token() {
        for good in ["a".repeat(27), "0123456789abcdef".repeat(4), format!("{}-_", "Z".repeat(25))] {
            assert!(is_token(&good), "{good}");
        }
        for bad in
            ["", &"a".repeat(26), &"a".repeat(65), &format!("{} ", "a".repeat(30)), &"ä".repeat(20), &"+".repeat(27)]
        {
            assert!(!is_token(bad), "{bad}");
        }
    }
}
