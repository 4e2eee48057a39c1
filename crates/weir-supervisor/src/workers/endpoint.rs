//! The listening endpoint of one generation of a worker.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use super::blueprint::{PORT, SOCKET, descriptor_values};
use super::run_folder::GroupFolder;
use super::spec::{BoundBy, SocketKind};
use super::template::Values;
use crate::control::WorkerAddress;
use crate::selection::busy::{PER_SLOT, Records, record};

/// Ports to try before a start fails: each of them was just assigned to another worker.
const PORT_TRIES_MAX: usize = 32;
/// The name of a socket that the parent bound for one worker, in `LISTEN_FDNAMES`.
const OWN_SOCKET_NAME: &str = "socket";

/// The endpoint of one generation. Dropping it removes its socket file.
#[derive(Debug)]
pub(crate) struct WorkerEndpoint {
    pub(crate) address: Option<WorkerAddress>,
    listener: Option<OwnedFd>,
}

impl WorkerEndpoint {
    /// Binds or chooses an endpoint. `is_taken` tells whether another worker has an address.
    pub(crate) fn prepare(
        sockets: &SocketKind,
        folder: &GroupFolder,
        (slot, generation): (usize, u64),
        is_taken: impl Fn(&WorkerAddress) -> bool,
    ) -> io::Result<Self> {
        let mut listener = None;
        let address = match sockets {
            SocketKind::None | SocketKind::Inherited(_) => None,
            SocketKind::UnixSocket(bound_by) => {
                let path = folder.socket(generation);
                if *bound_by == BoundBy::Parent {
                    listener = Some(UnixListener::bind(&path)?.into());
                }
                Some(WorkerAddress::Unix(path))
            }
            SocketKind::Port => {
                Some(WorkerAddress::Port(free_port(|port| is_taken(&WorkerAddress::Port(port)))?))
            }
            SocketKind::Group(group) => {
                let mut records = (0..PER_SLOT).map(|index| record(slot, index));
                let free = records.find(|&record| !is_taken(&WorkerAddress::Shared { record }));
                let record = free.ok_or(io::ErrorKind::AddrInUse)?;
                group.records().reset(record);
                Some(WorkerAddress::Shared { record })
            }
        };
        Ok(Self { address, listener })
    }

    /// Restores the endpoint of an earlier program. The worker's record is unchanged.
    pub(crate) fn resume(address: Option<WorkerAddress>, listener: Option<OwnedFd>) -> Self {
        Self { address, listener }
    }

    pub(crate) fn listener(&self) -> Option<&OwnedFd> {
        self.listener.as_ref()
    }

    /// Returns the named descriptors that the worker in `slot` inherits to listen on.
    pub(crate) fn descriptors<'a>(
        &'a self,
        sockets: &'a SocketKind,
        slot: usize,
    ) -> Vec<(&'a str, BorrowedFd<'a>)> {
        match (sockets, &self.listener) {
            (SocketKind::Group(group), _) => group.slice(slot),
            (SocketKind::Inherited(sockets), _) => sockets
                .iter()
                .map(|socket| (socket.name.as_str(), socket.descriptor.as_fd()))
                .collect(),
            (_, Some(listener)) => vec![(OWN_SOCKET_NAME, listener.as_fd())],
            (_, None) => Vec::new(),
        }
    }

    /// Returns the values of the placeholders.
    pub(crate) fn values(&self, descriptors: usize) -> Values {
        let mut values = descriptor_values(descriptors);
        match &self.address {
            Some(WorkerAddress::Unix(path)) => {
                values.insert(SOCKET.to_owned(), vec![path.to_string_lossy().into_owned()]);
            }
            Some(WorkerAddress::Port(port)) => {
                values.insert(PORT.to_owned(), vec![port.to_string()]);
            }
            Some(WorkerAddress::Shared { .. }) | None => {}
        }
        values
    }

    /// Returns the shared memory in which the worker reports its load, and the index of its record.
    pub(crate) fn record<'a>(&self, sockets: &'a SocketKind) -> Option<(&'a Records, usize)> {
        match (sockets, &self.address) {
            (SocketKind::Group(group), Some(WorkerAddress::Shared { record })) => {
                Some((group.records(), *record))
            }
            _ => None,
        }
    }

    fn path(&self) -> Option<&PathBuf> {
        match &self.address {
            Some(WorkerAddress::Unix(path)) => Some(path),
            _ => None,
        }
    }
}

impl Drop for WorkerEndpoint {
    fn drop(&mut self) {
        // The worker may not have bound it yet, or may have removed it.
        let _ = self.path().map(std::fs::remove_file);
    }
}

fn free_port(is_taken: impl Fn(u16) -> bool) -> io::Result<u16> {
    // All tried ports stay bound until one is chosen, so that no port is tried twice.
    let mut bound = Vec::new();
    for _ in 0..PORT_TRIES_MAX {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        if !is_taken(port) {
            return Ok(port);
        }
        bound.push(listener);
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port was found"))
}
