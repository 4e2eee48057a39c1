//! A proxy before a Redis that delays commands, or passes one on and breaks the connection before its
//! reply.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use weir_sidekiq::{RedisAddress, RedisEndpoint};

/// The next command with this text loses its reply.
type CutText = Arc<Mutex<Option<&'static str>>>;

pub(crate) struct CuttingProxy {
    folder: TempDir,
    cut: CutText,
}

impl CuttingProxy {
    /// Starts a proxy before the server at `socket`. Its threads end with the test's process.
    pub(crate) fn start(socket: &Path) -> Self {
        Self::start_far(socket, Duration::ZERO)
    }

    /// Starts one that passes commands on after `delay`.
    pub(crate) fn start_far(socket: &Path, delay: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let proxy = Self { folder, cut: Arc::default() };
        let listener = UnixListener::bind(proxy.socket()).unwrap();
        let (socket, cut) = (socket.to_owned(), Arc::clone(&proxy.cut));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = UnixStream::connect(&socket).unwrap();
                let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let cut = Arc::clone(&cut);
                thread::spawn(move || pass_commands(client, forth, &cut, delay));
                thread::spawn(move || pass_replies(server, back));
            }
        });
        proxy
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("proxy.sock")
    }

    /// The endpoint of `redis` through this proxy.
    pub(crate) fn endpoint(&self, redis: &RedisEndpoint) -> RedisEndpoint {
        RedisEndpoint { address: RedisAddress::Unix(self.socket()), ..redis.clone() }
    }

    pub(crate) fn cut_after(&self, text: &'static str) {
        *self.cut.lock().unwrap() = Some(text);
    }
}

fn pass_commands(mut client: UnixStream, mut server: UnixStream, cut: &CutText, delay: Duration) {
    let mut buffer = [0; 64 << 10];
    while let Ok(bytes @ 1..) = client.read(&mut buffer) {
        let has = |text: &mut &str| String::from_utf8_lossy(&buffer[..bytes]).contains(*text);
        if cut.lock().unwrap().take_if(has).is_some() {
            // No reply reaches the client, but the server gets the command.
            let _ = client.shutdown(std::net::Shutdown::Both);
            let _ = server.write_all(&buffer[..bytes]);
            return;
        }
        thread::sleep(delay);
        if server.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
}

fn pass_replies(mut server: UnixStream, mut client: UnixStream) {
    // Ends with an error once the client's side is closed.
    let _ = std::io::copy(&mut server, &mut client);
    for end in [server, client] {
        let _ = end.shutdown(std::net::Shutdown::Both);
    }
}
