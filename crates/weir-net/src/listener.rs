//! Listening sockets, bound here with errors that name a remedy, or inherited from a parent
//! process.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::Mode;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::occupant;
use crate::unix_path::{self, ShortPath};
use weir_base::listen_address::ListenAddress;

/// A bound, listening, close-on-exec, non-blocking socket.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The options for binding.
#[derive(Clone, Copy, Debug)]
pub struct BindOptions {
    /// How many connections may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u16,
    /// Access mode of a unix socket's file.
    pub unix_mode: u32,
}

impl Default for BindOptions {
    fn default() -> Self {
        // 4096 is the kernel's default cap. Clients wait in the backlog while a service restarts.
        Self { backlog: 4096, unix_mode: 0o600 }
    }
}

/// Why an address could not be bound or taken over.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another socket listens there.
    #[error("{address} is in use{by}; stop that process or choose another address")]
    InUse { address: String, by: String },
    /// A port below `net.ipv4.ip_unprivileged_port_start` without the permission for it.
    #[error("no permission to listen on {0}; ports below 1024 need root or CAP_NET_BIND_SERVICE")]
    Permission(String),
    /// The address belongs to no interface of this machine.
    #[error("{0} is not an address of this machine; 0.0.0.0 or [::] means all of them")]
    NotHere(String),
    /// Any other error.
    #[error("cannot listen on {address}: {source}")]
    Other { address: String, source: io::Error },
    /// An inherited descriptor is not a listening stream socket.
    #[error("inherited descriptor {name} is not a listening stream socket")]
    NotListening { name: String },
}

impl Listener {
    /// Binds `address` and listens. See [`ListenError`] for the errors.
    pub fn bind(address: &ListenAddress, options: BindOptions) -> Result<Self, ListenError> {
        let bound = match address {
            ListenAddress::Tcp(address) => bind_tcp(*address, options).map(Self::Tcp),
            ListenAddress::Unix(path) => bind_unix(path, options).map(Self::Unix),
        };
        bound.map_err(|error| explain(address, error))
    }

    /// Binds `count` sockets to `address`, one for each core. The kernel spreads connections over
    /// them (`SO_REUSEPORT`), except for a unix socket, whose descriptor is duplicated. With port 0
    /// all get the port that the first one got. Fails with [`ListenError::InUse`] if any other
    /// socket listens there, even with `SO_REUSEPORT`.
    pub fn bind_group(
        address: &ListenAddress,
        count: usize,
        options: BindOptions,
    ) -> Result<Vec<Self>, ListenError> {
        let first = Self::bind(address, options)?;
        let explain = |error| explain(address, error);
        match &first {
            Self::Tcp(listener) => {
                let others = bind_group_members(listener, count, options).map_err(explain)?;
                Ok(std::iter::once(first).chain(others.into_iter().map(Self::Tcp)).collect())
            }
            Self::Unix(listener) => {
                let others: io::Result<Vec<_>> = (1..count).map(|_| listener.try_clone()).collect();
                let others = others.map_err(explain)?;
                Ok(std::iter::once(first).chain(others.into_iter().map(Self::Unix)).collect())
            }
        }
    }

    /// Adopts an inherited socket; `name` identifies it in errors.
    pub fn adopt(name: &str, descriptor: OwnedFd) -> Result<Self, ListenError> {
        let not_listening = || ListenError::NotListening { name: name.to_owned() };
        if !sockopt::socket_acceptconn(&descriptor).map_err(|_| not_listening())? {
            return Err(not_listening());
        }
        let socket = Socket::from(descriptor);
        let other = |source| ListenError::Other { address: name.to_owned(), source };
        socket.set_nonblocking(true).map_err(other)?;
        socket.set_cloexec(true).map_err(other)?;
        match socket.domain().map_err(other)? {
            Domain::UNIX => Ok(Self::Unix(OwnedFd::from(socket).into())),
            Domain::IPV4 | Domain::IPV6 => Ok(Self::Tcp(OwnedFd::from(socket).into())),
            _ => Err(not_listening()),
        }
    }

    /// Returns the address, with the port that the kernel chose.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(ListenAddress::Tcp),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().unwrap_or(Path::new(""));
                Ok(ListenAddress::Unix(path.to_owned()))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> Self {
        match listener {
            Listener::Tcp(listener) => listener.into(),
            Listener::Unix(listener) => listener.into(),
        }
    }
}

fn bind_tcp(address: SocketAddr, options: BindOptions) -> io::Result<TcpListener> {
    listen_tcp(tcp_socket(address)?, address, options)
}

/// Binds the other sockets of a group.
///
/// The first one was bound without `SO_REUSEPORT`, which proves that no other socket listens there.
/// Setting the option afterwards admits sockets of the same user, and the kernel forms the group
/// when the second one is bound.
fn bind_group_members(
    first: &TcpListener,
    count: usize,
    options: BindOptions,
) -> io::Result<Vec<TcpListener>> {
    let address = first.local_addr()?;
    let bind_next = |_| {
        SockRef::from(first).set_reuse_port(true)?;
        let socket = tcp_socket(address)?;
        socket.set_reuse_port(true)?;
        listen_tcp(socket, address, options)
    };
    (1..count).map(bind_next).collect()
}

fn tcp_socket(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    // Without it, connections in TIME_WAIT would prevent a restart.
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn listen_tcp(
    socket: Socket,
    address: SocketAddr,
    options: BindOptions,
) -> io::Result<TcpListener> {
    socket.bind(&SockAddr::from(address))?;
    socket.listen(i32::from(options.backlog))?;
    Ok(OwnedFd::from(socket).into())
}

fn bind_unix(path: &Path, options: BindOptions) -> io::Result<UnixListener> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    // The file inherits the mode of the socket at bind, so it is never accessible to others, as it
    // would be until a later chmod.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(options.unix_mode))?;
    socket.bind(&SockAddr::unix(ShortPath::for_path(path)?.as_path())?)?;
    socket.listen(i32::from(options.backlog))?;
    Ok(OwnedFd::from(socket).into())
}

/// Removes the socket file if no process listens there.
fn remove_stale(path: &Path) -> io::Result<()> {
    match unix_path::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        // The file does not exist, or bind will report the error.
        Err(_) => Ok(()),
    }
}

fn explain(address: &ListenAddress, source: io::Error) -> ListenError {
    let text = address.to_string();
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            let by =
                occupant::find(address).map(|process| format!(" by {process}")).unwrap_or_default();
            ListenError::InUse { address: text, by }
        }
        io::ErrorKind::PermissionDenied if matches!(address, ListenAddress::Tcp(_)) => {
            ListenError::Permission(text)
        }
        io::ErrorKind::AddrNotAvailable => ListenError::NotHere(text),
        _ => ListenError::Other { address: text, source },
    }
}
