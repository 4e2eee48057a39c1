//! A core's connections to workers: one for each request that runs, and some idle ones.
//!
//! A connection stays on its core, and is driven by a task of its own that ends with it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;

use super::body::RequestBody;
use crate::address::Address;
use crate::app::Worker;

/// A connection to a worker.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<RequestBody>,
    /// It has carried a request before.
    pub(super) is_reused: bool,
}

/// The idle connections of one core; clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Rc<RefCell<HashMap<u64, Idle>>>);

#[derive(Debug)]
struct Idle {
    worker: Weak<Worker>,
    connections: Vec<Connection>,
}

impl Pool {
    /// An idle connection to `worker`: the one that was used last, so the others can end.
    pub(super) fn idle(&self, worker: &Worker) -> Option<Connection> {
        let mut pool = self.0.borrow_mut();
        let idle = pool.get_mut(&worker.serial)?;
        while let Some(connection) = idle.connections.pop() {
            if !connection.sender.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose answer has ended, if fewer than `idle_max` are.
    pub(super) fn keep(&self, worker: &Arc<Worker>, mut connection: Connection, idle_max: usize) {
        if connection.sender.is_closed() || idle_max == 0 {
            return;
        }
        connection.is_reused = true;
        let mut pool = self.0.borrow_mut();
        let idle = pool
            .entry(worker.serial)
            .or_insert_with(|| Idle { worker: Arc::downgrade(worker), connections: Vec::new() });
        if idle.connections.len() < idle_max {
            idle.connections.push(connection);
        }
    }

    /// Lets go of connections that their worker has closed, and of workers that are no more.
    pub(super) fn forget_closed(&self) {
        self.0.borrow_mut().retain(|_, idle| {
            idle.connections.retain(|connection| !connection.sender.is_closed());
            idle.worker.strong_count() > 0 && !idle.connections.is_empty()
        });
    }
}

/// A new connection.
pub(super) async fn connect(address: &Address) -> io::Result<Connection> {
    let sender = match Socket::connect(address).await? {
        Socket::Unix(stream) => {
            let (sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(error)?;
            drive(connection);
            sender
        }
        Socket::Tcp(stream) => {
            let (sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(error)?;
            drive(connection);
            sender
        }
    };
    Ok(Connection { sender, is_reused: false })
}

/// A connection for one request, which is to become something else.
pub(super) async fn connect_for_upgrade(address: &Address) -> io::Result<SendRequest<RequestBody>> {
    match Socket::connect(address).await? {
        Socket::Unix(stream) => {
            let (sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(error)?;
            drive(connection.with_upgrades());
            Ok(sender)
        }
        Socket::Tcp(stream) => {
            let (sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(error)?;
            drive(connection.with_upgrades());
            Ok(sender)
        }
    }
}

/// It ends when its sender is dropped or the worker hangs up; its errors reach the sender.
fn drive(connection: impl Future<Output = hyper::Result<()>> + 'static) {
    drop(spawn_local(async move { drop(connection.await) }));
}

fn error(error: hyper::Error) -> io::Error {
    io::Error::other(error)
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }
}
