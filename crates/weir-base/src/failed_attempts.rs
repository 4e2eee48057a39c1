//! Counts wrong passwords and keys by client, to slow guessing.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::clock::Timestamp;

/// Failed attempts are forgotten after this long.
const WINDOW: Duration = Duration::from_secs(60);
/// Limit of counted clients; beyond it, the client with the oldest window is dropped.
const CLIENTS_MAX: usize = 10_000;

/// Failed attempts of the last minute, by client: an IPv4 address or the /64 of an IPv6 address.
#[derive(Debug, Default)]
pub struct FailedAttempts {
    by_client: HashMap<IpAddr, AttemptCount>,
}

#[derive(Clone, Copy, Debug)]
struct AttemptCount {
    count: u32,
    since: Timestamp,
}

impl AttemptCount {
    fn has_ended(&self, now: Timestamp) -> bool {
        now.since(self.since) >= WINDOW
    }
}

impl FailedAttempts {
    /// Returns the failed attempts of this client in the current window.
    #[must_use]
    pub fn count(&self, address: IpAddr, now: Timestamp) -> u32 {
        let tally = self.by_client.get(&client(address));
        tally.filter(|tally| !tally.has_ended(now)).map_or(0, |tally| tally.count)
    }

    /// Counts a failed attempt.
    pub fn add(&mut self, address: IpAddr, now: Timestamp) {
        let client = client(address);
        if self.by_client.len() >= CLIENTS_MAX && !self.by_client.contains_key(&client) {
            self.make_room(now);
        }
        let tally = self.by_client.entry(client).or_insert(AttemptCount { count: 0, since: now });
        if tally.has_ended(now) {
            *tally = AttemptCount { count: 0, since: now };
        }
        tally.count = tally.count.saturating_add(1);
    }

    fn make_room(&mut self, now: Timestamp) {
        self.by_client.retain(|_, tally| !tally.has_ended(now));
        if self.by_client.len() >= CLIENTS_MAX {
            let oldest = self.by_client.iter().min_by_key(|(_, tally)| tally.since);
            if let Some(client) = oldest.map(|(client, _)| *client) {
                self.by_client.remove(&client);
            }
        }
    }
}

/// Returns the address to count by: a host with one IPv6 address controls all 2^64 of its /64.
fn client(address: IpAddr) -> IpAddr {
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
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn attempts_are_counted_by_network_within_the_window() {
        let mut failed = FailedAttempts::default();
        let four = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let start = Timestamp::from_millis(1);
        failed.add(four, start);
        failed.add(four, start);
        assert_eq!(failed.count(four, start), 2);
        assert_eq!(failed.count(four, start + WINDOW), 0);
        failed.add("2001:db8::1".parse().unwrap(), start);
        assert_eq!(failed.count("2001:db8::2".parse().unwrap(), start), 1);
        assert_eq!(failed.count("2001:db8:0:1::2".parse().unwrap(), start), 0);
    }

    #[test]
    fn memory_for_clients_is_bounded() {
        let mut failed = FailedAttempts::default();
        for number in 0..10_100_u32 {
            let start = Timestamp::from_micros(u64::from(number));
            failed.add(IpAddr::V4(Ipv4Addr::from_bits(number)), start);
        }
        assert_eq!(failed.by_client.len(), CLIENTS_MAX);
    }
}
