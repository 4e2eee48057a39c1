//! Finds the processes that hold TCP connections, from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::memory;

/// Address and port of one end of a connection.
pub(crate) type SocketEnd = (IpAddr, u16);

/// Returns the processes that hold one of the `wanted` local ends; with `port`, only of connections
/// to that port. Processes that may not be inspected are left out.
pub(crate) fn owners(
    proc: &Path,
    wanted: &BTreeSet<SocketEnd>,
    port: Option<u16>,
) -> BTreeMap<SocketEnd, u32> {
    let mut inodes = BTreeMap::new();
    if !wanted.is_empty() {
        for table in ["net/tcp", "net/tcp6"] {
            let text = fs::read_to_string(proc.join(table)).unwrap_or_default();
            inodes.extend(text.lines().filter_map(|line| connection(line, wanted, port)));
        }
    }
    let mut owners = BTreeMap::new();
    if !inodes.is_empty() {
        for pid in memory::processes(proc) {
            let held = sockets_of(proc, pid).filter_map(|inode| inodes.get(&inode));
            owners.extend(held.map(|end| (*end, pid)));
        }
    }
    owners
}

/// Returns the remote ends of connections to a local `port`.
pub(crate) fn clients_of(proc: &Path, port: u16) -> BTreeSet<SocketEnd> {
    let tables = ["net/tcp", "net/tcp6"].map(|table| fs::read_to_string(proc.join(table)));
    let lines = tables.iter().flatten().flat_map(|text| text.lines());
    let far = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (near, far) = (end(words.next()?)?, end(words.next()?)?);
        (near.1 == port && far.1 != 0).then_some(far)
    };
    lines.filter_map(far).collect()
}

/// Reports whether a process has a connection to one of the `ports`, as far as it may be inspected.
pub(crate) fn is_connected(proc: &Path, pid: u32, ports: &BTreeSet<u16>) -> bool {
    // The table of its own network namespace.
    let folder = proc.join(pid.to_string());
    let tables = ["net/tcp", "net/tcp6"].map(|table| fs::read_to_string(folder.join(table)));
    let lines = tables.iter().flatten().flat_map(|text| text.lines());
    let inode = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let far = end(words.next()?)?;
        ports.contains(&far.1).then(|| words.nth(6)?.parse::<u64>().ok())?
    };
    let inodes: BTreeSet<u64> = lines.filter_map(inode).collect();
    sockets_of(proc, pid).any(|inode| inodes.contains(&inode))
}

/// Returns the inode and the local end of a line, if it is wanted: "  0: 0100007F:A3D2
/// 0100007F:1538 01 ... inode ..".
fn connection(
    line: &str,
    wanted: &BTreeSet<SocketEnd>,
    port: Option<u16>,
) -> Option<(u64, SocketEnd)> {
    let mut words = line.split_whitespace().skip(1);
    let (near, far) = (end(words.next()?)?, end(words.next()?)?);
    let inode: u64 = words.nth(6)?.parse().ok()?;
    let is_it = wanted.contains(&near) && port.is_none_or(|port| far.1 == port);
    is_it.then_some((inode, near))
}

/// Parses "0100007F:1538". The words of the address are in native byte order; the port is a number.
fn end(text: &str) -> Option<SocketEnd> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok();
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at * 8)?.to_ne_bytes());
            }
            // Dual-stack sockets show IPv4 addresses as mapped IPv6 addresses.
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some((address, port))
}

fn sockets_of(proc: &Path, pid: u32) -> impl Iterator<Item = u64> {
    let entries = fs::read_dir(proc.join(pid.to_string()).join("fd"));
    entries.into_iter().flatten().filter_map(Result::ok).filter_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let near = stream.local_addr().unwrap();
        let wanted = BTreeSet::from([(near.ip(), near.port())]);
        let proc = Path::new("/proc");
        let found = owners(proc, &wanted, Some(port));
        assert_eq!(found.get(&(near.ip(), near.port())), Some(&std::process::id()));
        assert!(owners(proc, &wanted, Some(port ^ 1)).is_empty(), "a connection to elsewhere");
        assert!(owners(proc, &BTreeSet::new(), None).is_empty());
        let is_connected = |port| is_connected(proc, std::process::id(), &BTreeSet::from([port]));
        assert_eq!((is_connected(port), is_connected(port ^ 1)), (true, false));
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        if cfg!(target_endian = "big") {
            return;
        }
        let v4 = end("0100007F:1538").unwrap();
        assert_eq!(v4, ("127.0.0.1".parse().unwrap(), 5432));
        let v6 = end("00000000000000000000000001000000:1538").unwrap();
        assert_eq!(v6, ("::1".parse().unwrap(), 5432));
        let mapped = end("0000000000000000FFFF00000100007F:1538").unwrap();
        assert_eq!(mapped, v4);
        assert_eq!((end("xyz"), end("0100007F")), (None, None));
    }
}
