//! Secrets that the console makes and compares.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// 256 bits from the system, as 64 hexadecimal digits.
///
/// # Panics
/// When the system has no random numbers: then no session is safe.
pub(crate) fn random() -> String {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether two secrets are the same, in a time that tells nothing of where or in what length they
/// differ.
pub(crate) fn same(one: &str, other: &str) -> bool {
    Sha256::digest(one).as_slice().ct_eq(Sha256::digest(other).as_slice()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_compare() {
        let (one, other) = (random(), random());
        assert_eq!(one.len(), 64);
        assert!(same(&one, &one.clone()));
        assert!(!same(&one, &other));
        assert!(!same(&one, &one[..63]));
        assert!(!same("", "x"));
    }
}
