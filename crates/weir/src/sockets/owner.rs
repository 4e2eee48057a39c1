//! Finds the process that has accepted a loopback connection: by the inode of its socket, which the
//! kernel reports (sock_diag(7)), among the descriptors of processes (proc(5)). Reading
//! `/proc/net/tcp` would take half a second on a machine with many connections.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Not accepted yet.
    NotAccepted,
    /// The given worker, or a descendant of it.
    Worker,
    Other,
    /// It was closed meanwhile.
    Closed,
}

/// Returns which process has accepted the connection of `client` at `server`.
pub(super) fn find_owner(client: SocketAddr, server: SocketAddr, pid: i32) -> io::Result<Owner> {
    Ok(match inode(server, client)? {
        None => Owner::Closed,
        Some(0) => Owner::NotAccepted,
        Some(inode) => {
            let socket = format!("socket:[{inode}]");
            let is_worker = process_tree(pid).into_iter().any(|pid| has_descriptor(pid, &socket));
            if is_worker { Owner::Worker } else { Owner::Other }
        }
    })
}

// linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const TCP: u8 = 6;
const HEAD_BYTES: usize = 16;
const STATE_AT: usize = HEAD_BYTES + 1;
/// After the header: the state, both ends, and four words.
const INODE_AT: usize = HEAD_BYTES + 4 + 48 + 16;
/// States of a connection that the server has not closed: established, two before that, and closed
/// by the client.
const OPEN: [u8; 4] = [1, 3, 12, 8];

/// Returns the inode of the open socket with these two ends; 0 until it is accepted.
fn inode(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let kernel =
        rustix::net::socket_with(family, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
    rustix::net::send(&kernel, &encode_request(local, remote), SendFlags::empty())?;
    let mut response = [0; 4096];
    let (bytes, _) = rustix::net::recv(&kernel, &mut response, RecvFlags::empty())?;
    let response = &response[..bytes];
    let read_u32 = |at: usize| response[at..].first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let kind = response.get(4..).and_then(<[u8]>::first_chunk).map(|it| u16::from_ne_bytes(*it));
    if kind == Some(ERROR) {
        let error = read_u32(HEAD_BYTES).unwrap_or_default().cast_signed();
        let error = io::Error::from_raw_os_error(error.saturating_neg());
        return if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
    }
    let is_open = response.get(STATE_AT).is_some_and(|state| OPEN.contains(state));
    Ok(read_u32(INODE_AT.min(bytes)).filter(|_| is_open))
}

/// Encodes `struct nlmsghdr` and `struct inet_diag_req_v2` for exactly this connection.
fn encode_request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let [family, _] = family.as_raw().to_le_bytes();
    let mut body = vec![family, TCP, 0, 0];
    // In every state.
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    body.extend(address_bytes(local.ip()));
    body.extend(address_bytes(remote.ip()));
    // On any interface, with any cookie.
    body.extend(0_u32.to_ne_bytes());
    body.extend([0xff; 8]);
    let bytes = u32::try_from(HEAD_BYTES + body.len()).unwrap_or(u32::MAX);
    let mut request = bytes.to_ne_bytes().to_vec();
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    request
}

fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
    }
}

/// Returns a process and all its descendants.
fn process_tree(pid: i32) -> Vec<i32> {
    let mut family = vec![pid];
    let mut visited = 0;
    while let Some(&parent) = family.get(visited) {
        visited += 1;
        family.extend(children(parent));
    }
    family
}

/// Returns the children of a process; none if it has ended.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| pids(&text)).collect()
}

fn pids(text: &str) -> Vec<i32> {
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn has_descriptor(pid: i32, target: &str) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
        .any(|link| link.as_os_str() == target)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    fn check(host: &str) {
        let listener = TcpListener::bind((host, 0)).expect("bound");
        let server = listener.local_addr().expect("told");
        let client = TcpStream::connect(server).expect("connected");
        let from = client.local_addr().expect("told");
        let ourselves = std::process::id().cast_signed();
        let owner = |pid| find_owner(from, server, pid).expect("the kernel tells");
        assert_eq!(owner(ourselves), Owner::NotAccepted);
        let (accepted, _) = listener.accept().expect("accepted");
        assert_eq!(owner(ourselves), Owner::Worker);
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        assert_eq!(owner(other.id().cast_signed()), Owner::Other);
        other.kill().and_then(|()| other.wait()).expect("ended");
        drop(accepted);
        assert_eq!(owner(ourselves), Owner::Closed);
    }

    #[test]
    fn owner_is_the_process_that_accepted() {
        check("127.0.0.1");
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            check("::1");
        }
    }
}
