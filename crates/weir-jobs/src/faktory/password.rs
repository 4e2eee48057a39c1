//! Password checks: the challenge, its proof, and the cost of guessing.
//!
//! The client hashes `iterations` times, and so must the server. That takes about a millisecond, on
//! another thread than the serving one. An address with many wrong passwords
//! ([`weir_base::failed_attempts`]) waits before each further check, and only a few may wait at
//! once, so that guessing costs the server a bounded part of one core.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use weir_base::secret::Secret;

/// The range from which Faktory draws.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4_000..=8_095;

/// The parameters with which a client must hash its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) iterations: u32,
    /// Hexadecimal.
    pub(crate) salt: String,
}

impl Challenge {
    /// Draws a new challenge. Each connection gets its own, so that an intercepted proof can't be
    /// reused.
    pub(crate) fn draw() -> Self {
        let salt = format!("{:016x}", fastrand::u64(..));
        Self { iterations: fastrand::u32(ITERATIONS), salt }
    }

    /// Returns whether `proof` (hexadecimal) matches this challenge and `password`, in constant
    /// time. Protocol versions below 2 hash once.
    pub(crate) fn proves(&self, password: &Secret, version: u64, proof: &str) -> bool {
        let iterations = if version < 2 { 1 } else { self.iterations };
        let expected = hash(password.expose(), &self.salt, iterations);
        expected.as_bytes().ct_eq(proof.as_bytes()).into()
    }
}

/// Hashes the text in the first round, and the raw 32 bytes in each later one.
fn hash(password: &str, salt: &str, iterations: u32) -> String {
    let mut digest = Sha256::new().chain_update(password).chain_update(salt).finalize();
    for _ in 1..iterations {
        digest = Sha256::digest(digest);
    }
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(iterations: u32) -> Challenge {
        Challenge { iterations, salt: "55104dc76695721d".into() }
    }

    /// Checks the vector of the protocol's public description: password "foobar", 1,545 rounds.
    #[test]
    fn proof_follows_the_protocol() {
        let challenge = challenge(1_545);
        let proof = "6d877f8e5544b1f2598768f817413ab8a357afffa924dedae99eb91472d4ec30";
        assert!(challenge.proves(&Secret::new("foobar"), 2, proof));
        assert!(!challenge.proves(&Secret::new("foobaz"), 2, proof));
        assert!(!challenge.proves(&Secret::new("foobar"), 1, proof));
        assert!(!challenge.proves(&Secret::new("foobar"), 2, ""));
    }

    #[test]
    fn version_1_hashes_once() {
        let once = hash("foobar", "55104dc76695721d", 1);
        assert!(challenge(4_000).proves(&Secret::new("foobar"), 1, &once));
        assert_eq!(once.len(), 64);
    }

    #[test]
    fn challenges_differ_within_the_protocols_range() {
        let drawn: Vec<Challenge> = (0..100).map(|_| Challenge::draw()).collect();
        assert!(drawn.iter().all(|c| ITERATIONS.contains(&c.iterations) && c.salt.len() == 16));
        assert!(drawn.windows(2).all(|pair| pair[0].salt != pair[1].salt));
    }
}
