//! The source addresses and ports of clients, both chosen here.
//!
//! The kernel could choose the port too, but its search for a free one grows with the ports in use: at 15,000
//! clients it took four fifths of the client's CPU time, and the figure for connects was the client's own.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::bind;

/// Ports tried for one client. If two thirds are in use, all attempts fail once in 10^11 times.
const TRIES_MAX: usize = 64;
/// Linux's default range.
const PORTS: (u16, u16) = (32_768, 60_999);

#[derive(Debug, Clone)]
pub(crate) struct Sources {
    addresses: u8,
    first: u16,
    last: u16,
    /// The first port of this run, so that consecutive runs use different ports.
    start: usize,
}

impl Sources {
    /// Uses the given number of addresses in turn: 127.0.0.1 and those after it.
    pub(crate) fn new(addresses: u8) -> Self {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let (first, last) = range.ok().and_then(|text| parse(&text)).unwrap_or(PORTS);
        Self { addresses, first, last, start: fastrand::usize(..usize::from(u16::MAX)) }
    }

    /// Binds `socket` to the address of client `index` and a free port.
    pub(crate) fn bind(&self, socket: &OwnedFd, index: usize) -> io::Result<()> {
        let address = self.address(index);
        let mut port = self.port(index);
        for _ in 1..TRIES_MAX {
            match bind(socket, &SocketAddrV4::new(address, port)) {
                Err(Errno::ADDRINUSE) => port = fastrand::u16(self.first..=self.last),
                outcome => return Ok(outcome?),
            }
        }
        Ok(bind(socket, &SocketAddrV4::new(address, port))?)
    }

    pub(crate) fn address(&self, index: usize) -> Ipv4Addr {
        let offset = u8::try_from(index % usize::from(self.addresses)).expect("less than a u8");
        Ipv4Addr::new(127, 0, 0, 1 + offset)
    }

    /// Returns a port. Clients of one address have different ports until all are in use.
    fn port(&self, index: usize) -> u16 {
        let ports = usize::from(self.last - self.first) + 1;
        let offset = (self.start + index / usize::from(self.addresses)) % ports;
        self.first + u16::try_from(offset).expect("less than the number of ports")
    }
}

fn parse(range: &str) -> Option<(u16, u16)> {
    let mut numbers = range.split_ascii_whitespace().map(str::parse);
    let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::TcpListener;

    use rustix::net::{AddressFamily, SocketType, getsockname, socket};

    use super::*;

    #[test]
    fn clients_have_distinct_addresses_and_ports() {
        let sources = Sources { addresses: 3, first: 100, last: 199, start: 12_345 };
        let all: HashSet<_> =
            (0..300).map(|index| (sources.address(index), sources.port(index))).collect();
        assert_eq!(all.len(), 300);
        assert!(all.iter().all(|(_, port)| (100..=199).contains(port)), "{all:?}");
        assert_eq!(sources.address(5), Ipv4Addr::new(127, 0, 0, 3));
    }

    #[test]
    fn ports_in_use_are_skipped() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = taken.local_addr().expect("bound").port();
        // A narrow range around it, so that the first try meets it.
        let (first, last) = (port.saturating_sub(50), port.saturating_add(50));
        let start = usize::from(port - first);
        let sources = Sources { addresses: 1, first, last, start };
        assert_eq!(sources.port(0), port);
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        sources.bind(&socket, 0).expect("another port");
        let bound = SocketAddrV4::try_from(getsockname(&socket).expect("a name")).expect("IPv4");
        assert!(bound.port() != port && (first..=last).contains(&bound.port()), "{bound}");
    }

    #[test]
    fn port_range_is_read_from_the_system() {
        assert_eq!(parse("32768\t60999\n"), Some((32_768, 60_999)));
        for text in ["", "1", "9 1", "a b"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
