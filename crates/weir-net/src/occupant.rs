//! Finds the process that listens on a TCP port, for error messages; reads `/proc`, best effort.

use std::fs;
use std::path::Path;

use weir_base::listen_address::ListenAddress;

/// Returns `pid 123 (name)` of a process that listens on the port of `address`, if this user may
/// see it.
#[must_use]
pub fn find(address: &ListenAddress) -> Option<String> {
    let ListenAddress::Tcp(address) = address else {
        return None;
    };
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .find_map(|table| listening_inode(&table, address.port()).map(str::to_owned))?;
    let socket = format!("socket:[{inode}]");
    let pid = pids().find(|pid| has_socket(*pid, &socket))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("pid {pid} ({})", name.trim()))
}

/// Returns the inode column of the row in state `0A` (listening) whose local port is `port`.
fn listening_inode(table: &str, port: u16) -> Option<&str> {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).find_map(|row| {
        let mut fields = row.split_whitespace();
        let local = fields.nth(1)?;
        let state = fields.nth(1)?;
        (local.ends_with(&suffix) && state == "0A").then(|| fields.nth(5)).flatten()
    })
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn has_socket(pid: u32, socket: &str) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .any(|target| target == Path::new(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1CFB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 52401 1
   1: 0100007F:1CFC 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 52402 1
";

    #[test]
    fn the_row_of_a_listening_port_gives_its_inode() {
        assert_eq!(listening_inode(TABLE, 0x1CFB), Some("52401"));
        assert_eq!(listening_inode(TABLE, 0x1CFC), None, "connected, not listening");
        assert_eq!(listening_inode(TABLE, 1), None);
    }

    #[test]
    fn a_listener_of_this_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = ListenAddress::Tcp(listener.local_addr().expect("its address"));
        let pid = std::process::id();
        assert!(find(&address).expect("found").starts_with(&format!("pid {pid} (")));
    }
}
