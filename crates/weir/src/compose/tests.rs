//! The order of the start: what needs no store does not wait for it.

mod routes;

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_net::{BindOptions, ListenAddress, Listener};
use weir_supervisor::inherited::Inherited;

use super::Weir;
use crate::parent::{ADMIN, FRONT, core_socket_name};
use weir_config::part::Part;
use weir_config::{Settings, Source};

/// Longer than anything takes on a busy machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

const SETTINGS: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\n[[realtime.apps]]\nid = \"1\"\n\
                        key = \"demo-key\"\nsecret = { env = \"SECRET\" }\n";

pub(super) fn settings(folder: &Path) -> Settings {
    settings_of(folder, SETTINGS)
}

fn settings_of(folder: &Path, text: &str) -> Settings {
    let source = Source::of(&folder.join("weir.toml"), text, None);
    let environment =
        |name: &str| (name == "SECRET").then(|| "a secret of enough characters".to_owned());
    let settings = weir_config::parse(&source, &environment).expect("sound settings").settings;
    // As the parent does.
    std::fs::create_dir_all(&settings.data_dir).expect("a folder");
    settings
}

pub(super) fn tcp_socket() -> (SocketAddr, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    (listener.local_addr().expect("an address"), listener.into())
}

fn admin_socket(settings: &Settings) -> OwnedFd {
    let address = ListenAddress::Unix(settings.admin_socket());
    Listener::bind(&address, BindOptions::default()).expect("a socket").into()
}

/// Returns sockets as handed over by a parent.
pub(super) fn inherit(sockets: Vec<(String, OwnedFd)>) -> Inherited {
    let numbers: Vec<String> =
        sockets.into_iter().map(|(name, socket)| format!("{name}={}", unique(&socket))).collect();
    Inherited::take_over(&numbers.join(",")).expect("sockets")
}

/// A second descriptor of `socket`, with a number that nothing else in this process ever has: each can
/// be taken over only once.
fn unique(socket: &OwnedFd) -> RawFd {
    static NEXT: AtomicI32 = AtomicI32::new(1_000);
    let least = NEXT.fetch_add(1, Ordering::Relaxed);
    let copy = rustix::io::fcntl_dupfd_cloexec(socket, least).expect("a descriptor");
    assert_eq!(copy.as_raw_fd(), least, "these tests have not so many files open");
    copy.into_raw_fd()
}

/// Runs a test with a single blocking thread: opening the store waits until it is free.
pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, test).await.expect("no end") });
    runtime.shutdown_background();
}

/// The first line that the server sends, after `request`.
async fn first_line(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        line.push(stream.read_u8().await.expect("a line"));
    }
    String::from_utf8(line).expect("text")
}

#[test]
fn realtime_responds_before_the_store_is_open() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let ((jobs, jobs_socket), (front, front_socket)) = (tcp_socket(), tcp_socket());
        let inherited = inherit(vec![
            (Part::Jobs.name().to_owned(), jobs_socket),
            (core_socket_name(FRONT, 0), front_socket),
            (ADMIN.to_owned(), admin_socket(&settings)),
        ]);
        let (mut weir, mut unopened) =
            Weir::prepare(&settings, &[], inherited).await.expect("sound");
        weir.serve(&settings, &mut unopened, || {}).await.expect("started");
        // A store that takes long: its thread is not to be had.
        let (open, may_open) = mpsc::channel::<()>();
        let occupied = tokio::task::spawn_blocking(move || may_open.recv());
        let mut opening = Box::pin(weir.open(&settings, unopened));
        let answer = tokio::select! {
            biased;
            opened = &mut opening => panic!("nobody could open it: {opened:?}"),
            answer = first_line(front, "GET /apps/1/channels HTTP/1.1\r\nHost: weir\r\n\r\n") => answer,
        };
        assert_eq!(answer, "HTTP/1.1 401 Unauthorized\r\n");
        assert!(!settings.jobs.settings.directory.exists(), "the store was opened before");
        open.send(()).expect("it waits");
        occupied.await.expect("a thread").expect("a word");
        opening.await.expect("opened");
        assert!(first_line(jobs, "").await.starts_with("+HI "));
        weir.stop(Duration::ZERO).await.expect("stopped");
    });
}
