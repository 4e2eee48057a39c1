//! The same over TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use weir_net::metrics::{ConnectionRefusal, HttpServerLimit};
use weir_net::server::{HttpServerLimits, StartError};
use weir_net::tls::AlpnProtocols;
use weir_net::{Successor, Tls};

use super::echo::{Client, Server, Setup, wait_until};
use crate::tls;

const GET: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
const UPGRADE: &str = "GET /raw HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n";

/// A certificate, and who trusts it.
pub(super) fn identity() -> (Arc<Tls>, Arc<ClientConfig>) {
    let folder = tempfile::tempdir().expect("a folder");
    let identity = tls::identity();
    let files = tls::write(folder.path(), &identity.cert_pem, &identity.key_pem);
    (
        Arc::new(tls::load(files, AlpnProtocols::Http).expect("loaded")),
        tls::client_config(identity.cert_der),
    )
}

fn serve(limits: HttpServerLimits) -> (Server, Arc<ClientConfig>) {
    let (tls, config) = identity();
    (Setup { limits, tls: Some(tls), ..Setup::default() }.start(), config)
}

type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

fn secure(tcp: Client, config: &Arc<ClientConfig>) -> TlsClient {
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::clone(config), name).expect("a session");
    Client(StreamOwned::new(session, tcp.0))
}

#[test]
fn requests_and_upgrades_work_over_tls() {
    let (server, config) = serve(HttpServerLimits::default());
    let mut first = secure(server.connect(), &config);
    first.send(format!("{UPGRADE}early"));
    assert_eq!(first.greeting(), "GET /raw 1.1 [host,connection,upgrade] rest=early\n");
    first.send("late\n");
    assert_eq!(first.read_until("\n"), "late\n");
    let mut later = secure(server.connect(), &config);
    assert_eq!(later.send(GET).read_response().1, "GET /hello core=0");
    later.send(format!("{UPGRADE}early"));
    assert_eq!(later.greeting(), "GET /raw 1.1 [host,connection,upgrade] rest=early\n");
    assert!(server.requests()[0].starts_with("upgrade Some(127.0.0.1) tls=true"));
}

#[test]
fn a_plain_client_on_a_tls_port_is_cut_and_counted() {
    let (server, _) = serve(HttpServerLimits::default());
    let mut plain = server.connect();
    plain.send(GET);
    let _ = plain.0.read_to_end(&mut Vec::new());
    let failed = || server.metrics.connections_refused(ConnectionRefusal::TlsFailed) == 1;
    wait_until("it is counted", failed);
    wait_until("it is closed", || server.metrics.connections_open() == 0);
}

#[test]
fn a_handshake_has_a_time_limit() {
    let tls_handshake_timeout = Duration::from_millis(30);
    let (server, _) =
        serve(HttpServerLimits { tls_handshake_timeout, ..HttpServerLimits::default() });
    let mut silent = server.connect();
    assert_eq!(silent.read_to_end(), "", "closed");
    let late = || server.metrics.connections_refused(ConnectionRefusal::TlsLate);
    wait_until("it is counted", || late() == 1);
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::TlsHandshakeTimeout), 1);
}

#[test]
fn concurrent_handshakes_are_limited() {
    let (server, config) =
        serve(HttpServerLimits { tls_handshakes_max: 1, ..HttpServerLimits::default() });
    // Who says nothing takes no turn.
    let _silent = server.connect();
    let mut half = server.connect();
    half.send(b"\x16\x03\x01\x02\x00");
    wait_until("it is in", || server.metrics.connections_accepted() == 2);
    let mut waiting = secure(server.connect(), &config);
    let waiting = thread::spawn(move || waiting.send(GET).read_response());
    wait_until("one waits", || server.metrics.limit_hits(HttpServerLimit::TlsHandshakesMax) == 1);
    drop(half);
    assert_eq!(waiting.join().expect("served").1, "GET /hello core=0");
}

#[test]
fn the_handshake_limit_follows_a_reload() {
    let (server, config) =
        serve(HttpServerLimits { tls_handshakes_max: 0, ..HttpServerLimits::default() });
    let mut client = secure(server.connect(), &config);
    let client = thread::spawn(move || client.send(GET).read_response());
    wait_until("it waits", || server.metrics.limit_hits(HttpServerLimit::TlsHandshakesMax) == 1);
    server.limits.store(Arc::new(HttpServerLimits::default()));
    // The next handshake finds the new setting, and lets the one before it go on.
    assert_eq!(secure(server.connect(), &config).send(GET).read_response().0, "HTTP/1.1 200 OK");
    assert_eq!(client.join().expect("served").0, "HTTP/1.1 200 OK");
    server
        .limits
        .store(Arc::new(HttpServerLimits { tls_handshakes_max: 1, ..HttpServerLimits::default() }));
    assert_eq!(secure(server.connect(), &config).send(GET).read_response().0, "HTTP/1.1 200 OK");
    let mut half = server.connect();
    half.0.write_all(b"\x16\x03\x01\x02\x00").expect("sent");
    let mut waiting = secure(server.connect(), &config);
    let waiting = thread::spawn(move || waiting.send(GET).read_response());
    wait_until("one waits", || server.metrics.limit_hits(HttpServerLimit::TlsHandshakesMax) == 2);
    drop(half);
    assert_eq!(waiting.join().expect("served").0, "HTTP/1.1 200 OK");
}

#[test]
fn a_tls_connection_over_the_limit_is_closed_without_a_handshake() {
    let (server, _) = serve(HttpServerLimits { connections_max: 0, ..HttpServerLimits::default() });
    assert_eq!(server.connect().read_to_end(), "");
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::ConnectionsMax), 1);
}

#[test]
fn tls_on_a_unix_socket_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weir.sock");
    let address = weir_net::ListenAddress::Unix(path);
    let setup = Setup { address, tls: Some(identity().0), ..Setup::default() };
    let error = setup.try_start().err().expect("refused");
    assert!(matches!(error, StartError::TlsOnUnix { listener: 0 }), "{error}");
}

#[test]
fn a_request_is_forwarded_to_the_process_on_the_same_address() {
    let (secure, _) = serve(HttpServerLimits::default());
    let plain = Setup::default().start();
    let to_both = Successor::new(Some(plain.tcp_address()), Some(secure.tcp_address()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let local = tokio::task::LocalSet::new();
    for (server, is_tls) in [(&plain, false), (&secure, true)] {
        let notified = async {
            // As HTTP/2 has it.
            let request = Request::post("https://shop.example/length?a=b");
            let request = request.body(Full::new(Bytes::from_static(b"hello"))).expect("sound");
            let response = to_both.forward(request, is_tls).await.expect("a response");
            response.into_body().collect().await.expect("a body").to_bytes()
        };
        let body = local.block_on(runtime.as_ref().expect("a runtime"), notified);
        assert_eq!(body, "5 bytes");
        assert_eq!(server.requests(), ["POST /length"]);
    }
}
