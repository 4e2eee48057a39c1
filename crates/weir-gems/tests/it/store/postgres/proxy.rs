//! A proxy between a store and Postgres that simulates network failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the proxy does with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    Pass,
    /// Connections stay open, but nothing is forwarded.
    Swallow,
    /// Connections are closed, and new ones are closed at once.
    Refuse,
    /// The next COMMIT is forwarded, and its connection is closed without the reply.
    LoseAnswer,
    /// The next COMMIT is forwarded, and its reply is dropped.
    SwallowAnswer,
    /// The connection is closed instead of forwarding the next COMMIT.
    LoseCommit,
    /// The next COMMIT is forwarded; all connections are then closed without the reply.
    LoseAnswerAndRefuse,
}

const MODES: [Mode; 7] = [
    Mode::Pass,
    Mode::Swallow,
    Mode::Refuse,
    Mode::LoseAnswer,
    Mode::SwallowAnswer,
    Mode::LoseCommit,
    Mode::LoseAnswerAndRefuse,
];

/// A proxy with its own port, until it is dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    mode: Arc<AtomicU8>,
    changed: watch::Sender<()>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(Mode::Pass as u8));
        let (changed, changes) = watch::channel(());
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&mode);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(relay(client, target, Arc::clone(&shared), changes.clone()));
            }
        });
        Self { port, mode, changed, _tasks: tasks }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
        self.changed.send(()).unwrap();
    }
}

fn load(mode: &AtomicU8) -> Mode {
    MODES[usize::from(mode.load(Ordering::SeqCst))]
}

async fn relay(
    mut client: TcpStream,
    target: u16,
    mode: Arc<AtomicU8>,
    mut changes: watch::Receiver<()>,
) {
    let mut server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
    let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
    let mut answers_are_lost = false;
    while load(&mode) != Mode::Refuse {
        let is_swallowed = load(&mode) == Mode::Swallow;
        tokio::select! {
            _ = changes.changed() => {}
            read = client.read(&mut up), if !is_swallowed => {
                let Ok(length @ 1..) = read else { return };
                let is_commit = up[..length].windows(6).any(|word| word == b"COMMIT");
                let now = load(&mode);
                if is_commit && now != Mode::Pass {
                    let next = match now {
                        Mode::LoseAnswerAndRefuse => Mode::Refuse,
                        _ => Mode::Pass,
                    };
                    mode.store(next as u8, Ordering::SeqCst);
                    match now {
                        Mode::LoseCommit => return,
                        Mode::LoseAnswer | Mode::LoseAnswerAndRefuse => {
                            server.write_all(&up[..length]).await.unwrap();
                            // The commit is done once the reply was received.
                            drop(server.read(&mut down).await);
                            return;
                        }
                        _ => answers_are_lost = true,
                    }
                }
                if server.write_all(&up[..length]).await.is_err() { return }
            }
            read = server.read(&mut down), if !is_swallowed => {
                let Ok(length @ 1..) = read else { return };
                if !answers_are_lost && client.write_all(&down[..length]).await.is_err() { return }
            }
        }
    }
}
