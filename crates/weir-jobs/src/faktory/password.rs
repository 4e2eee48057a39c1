//! Passwords: the challenge, its proof, and what guessing costs.
//!
//! The client hashes `iterations` times, and so must the server: about a millisecond, off the
//! thread that serves. An address with many wrong passwords waits before each further check, and
//! few may wait at once, so that guessing costs the server a bounded share of one core.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use weir_base::clock::Timestamp;
use weir_base::secret::Secret;

/// What the original draws from.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4_000..=8_095;
/// Wrong passwords are forgotten after this long.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered; beyond it the oldest window goes.
const ADDRESSES_MAX: usize = 10_000;

/// What a client must hash its password with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) iterations: u32,
    /// Hexadecimal.
    pub(crate) salt: String,
}

impl Challenge {
    /// A new one for each connection, so that a proof that was overheard is worth nothing.
    pub(crate) fn draw() -> Self {
        let salt = format!("{:016x}", fastrand::u64(..));
        Self { iterations: fastrand::u32(ITERATIONS), salt }
    }

    /// Whether `proof` (hexadecimal) is this challenge's for `password`. Takes the same time for
    /// any proof. Protocol versions below 2 hash once.
    pub(crate) fn proves(&self, password: &Secret, version: u64, proof: &str) -> bool {
        let iterations = if version < 2 { 1 } else { self.iterations };
        let expected = hash(password.expose(), &self.salt, iterations);
        expected.as_bytes().ct_eq(proof.as_bytes()).into()
    }
}

/// The first round hashes the text, each later one the raw 32 bytes.
fn hash(password: &str, salt: &str, iterations: u32) -> String {
    let mut digest = Sha256::new().chain_update(password).chain_update(salt).finalize();
    for _ in 1..iterations {
        digest = Sha256::digest(digest);
    }
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Wrong passwords by address.
#[derive(Debug, Default)]
pub(crate) struct WrongPasswords {
    by_address: HashMap<IpAddr, Tally>,
}

#[derive(Clone, Copy, Debug)]
struct Tally {
    count: u32,
    since: Timestamp,
}

impl Tally {
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.since) >= WINDOW
    }
}

impl WrongPasswords {
    /// Wrong passwords from this address in the window that runs.
    pub(crate) fn count(&self, address: IpAddr, now: Timestamp) -> u32 {
        let tally = self.by_address.get(&network(address));
        tally.filter(|tally| !tally.is_over(now)).map_or(0, |tally| tally.count)
    }

    /// One more.
    pub(crate) fn add(&mut self, address: IpAddr, now: Timestamp) {
        let address = network(address);
        if self.by_address.len() >= ADDRESSES_MAX && !self.by_address.contains_key(&address) {
            self.make_room(now);
        }
        let tally = self.by_address.entry(address).or_insert(Tally { count: 0, since: now });
        if tally.is_over(now) {
            *tally = Tally { count: 0, since: now };
        }
        tally.count = tally.count.saturating_add(1);
    }

    fn make_room(&mut self, now: Timestamp) {
        self.by_address.retain(|_, tally| !tally.is_over(now));
        if self.by_address.len() >= ADDRESSES_MAX {
            let oldest = self.by_address.iter().min_by_key(|(_, tally)| tally.since);
            if let Some(address) = oldest.map(|(address, _)| *address) {
                self.by_address.remove(&address);
            }
        }
    }
}

/// Who has one IPv6 address has 2^64 of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn challenge(iterations: u32) -> Challenge {
        Challenge { iterations, salt: "55104dc76695721d".into() }
    }

    /// The vector of the protocol's public description: password "foobar", 1,545 rounds.
    #[test]
    fn the_proof_is_the_protocols() {
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
    fn challenges_differ_and_stay_in_the_protocols_range() {
        let drawn: Vec<Challenge> = (0..100).map(|_| Challenge::draw()).collect();
        assert!(drawn.iter().all(|c| ITERATIONS.contains(&c.iterations) && c.salt.len() == 16));
        assert!(drawn.windows(2).all(|pair| pair[0].salt != pair[1].salt));
    }

    #[test]
    fn wrong_passwords_are_counted_by_network_and_forgotten_after_the_window() {
        let mut wrong = WrongPasswords::default();
        let four = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let start = Timestamp::from_millis(1);
        wrong.add(four, start);
        wrong.add(four, start);
        assert_eq!(wrong.count(four, start), 2);
        assert_eq!(wrong.count(four, start + WINDOW), 0);
        wrong.add("2001:db8::1".parse().unwrap(), start);
        assert_eq!(wrong.count("2001:db8::2".parse().unwrap(), start), 1);
        assert_eq!(wrong.count("2001:db8:1::2".parse().unwrap(), start), 0);
    }

    #[test]
    fn the_memory_for_addresses_is_bounded() {
        let mut wrong = WrongPasswords::default();
        for number in 0..10_100_u32 {
            let start = Timestamp::from_micros(u64::from(number));
            wrong.add(IpAddr::V4(Ipv4Addr::from_bits(number)), start);
        }
        assert_eq!(wrong.by_address.len(), ADDRESSES_MAX);
    }
}
