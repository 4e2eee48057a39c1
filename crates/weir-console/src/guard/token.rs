//! Generates and compares secrets.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Returns 256 random bits from the system as 64 hexadecimal digits.
///
/// # Panics
/// If the system has no random numbers: no session would be safe.
pub(crate) fn random() -> String {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Compares two secrets in a time that does not depend on the position of a difference or on the
/// lengths.
pub(crate) fn constant_time_eq(one: &str, other: &str) -> bool {
    Sha256::digest(one).as_slice().ct_eq(Sha256::digest(other).as_slice()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tokens_differ_and_compare_equal_to_themselves() {
        let (one, other) = (random(), random());
        assert_eq!(one.len(), 64);
        assert!(constant_time_eq(&one, &one.clone()));
        assert!(!constant_time_eq(&one, &other));
        assert!(!constant_time_eq(&one, &one[..63]));
        assert!(!constant_time_eq("", "x"));
    }
}
