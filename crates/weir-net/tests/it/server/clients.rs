//! What one client may have at once. Clients on this machine have no limit, so each of these is one
//! for whom a trusted proxy speaks.

use weir_net::client::{ClientLimits, TrustedProxies, TrustedProxy};
use weir_net::metrics::HttpServerLimit;
use weir_net::server::HttpServerLimits;

use super::echo::{Client, Server, Setup, wait_until};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable";
const FINE: &str = "HTTP/1.1 200 OK";

/// A server behind a proxy on this machine.
pub(super) fn behind_proxy(clients: ClientLimits) -> Setup {
    let proxy: TrustedProxy = "127.0.0.1".parse().expect("an address");
    let limits = HttpServerLimits { clients, ..HttpServerLimits::default() };
    Setup { limits, trusted_proxies: TrustedProxies::from(vec![proxy]), ..Setup::default() }
}

fn one_request() -> ClientLimits {
    ClientLimits { requests_max: 1, ..ClientLimits::default() }
}

fn request_as(server: &Server, path: &str, client: &str) -> Client {
    let mut connection = server.connect();
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\n\r\n"));
    connection
}

#[test]
fn concurrent_requests_per_client_are_limited() {
    let server = behind_proxy(one_request()).start();
    let mut slow = request_as(&server, "/slow", "192.0.2.7");
    server.wait_until_requested("GET /slow");
    let (status, text) = request_as(&server, "/hello", "192.0.2.7").read_response();
    assert_eq!(status, BUSY);
    assert!(text.contains("front.clients.requests_max"), "{text}");
    // A /64 is one client, and another one than this.
    let mut held = request_as(&server, "/slow", "2001:db8::1");
    wait_until("both are there", || server.requests().len() == 2);
    assert_eq!(request_as(&server, "/hello", "2001:db8::2").read_response().0, BUSY);
    for other in ["192.0.2.8", "2001:db8:0:1::1", "127.0.0.1"] {
        assert_eq!(request_as(&server, "/hello", other).read_response().0, FINE, "{other}");
    }
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::ClientRequests), 2);
    server.released.cancel();
    assert_eq!((slow.read_response().0.as_str(), held.read_response().0.as_str()), (FINE, FINE));
    // An answer that has ended counts no more, on whichever connection.
    slow.send("GET /hello HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n");
    assert_eq!(slow.read_response().0, FINE);
    assert_eq!(request_as(&server, "/hello", "192.0.2.7").read_response().0, FINE);
}

#[test]
fn a_client_that_leaves_early_frees_its_request() {
    let server = behind_proxy(one_request()).start();
    let slow = request_as(&server, "/slow", "192.0.2.7");
    server.wait_until_requested("GET /slow");
    drop(slow);
    wait_until("there is room", || {
        request_as(&server, "/hello", "192.0.2.7").read_response().0 == FINE
    });
}

#[test]
fn an_upgrade_counts_until_its_socket_is_closed() {
    let server = behind_proxy(one_request()).start();
    let upgrade = "GET /raw HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\
        X-Forwarded-For: 192.0.2.7\r\n\r\n";
    // As a first request, and as a later one.
    for first in ["", "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut raw = server.connect();
        if !first.is_empty() {
            assert_eq!(raw.send(first).read_response().0, FINE);
        }
        raw.send(upgrade).greeting();
        let mut other = server.connect();
        let (status, text) = other.send(upgrade).read_response();
        assert_eq!(status, BUSY, "{text}");
        drop(raw);
        wait_until("there is room", || {
            request_as(&server, "/hello", "192.0.2.7").read_response().0 == FINE
        });
    }
}

#[test]
fn a_reload_changes_the_client_limits() {
    let server = behind_proxy(one_request()).start();
    let _slow = request_as(&server, "/slow", "192.0.2.7");
    server.wait_until_requested("GET /slow");
    assert_eq!(request_as(&server, "/hello", "192.0.2.7").read_response().0, BUSY);
    server.limits.store(HttpServerLimits::default().into());
    assert_eq!(request_as(&server, "/hello", "192.0.2.7").read_response().0, FINE);
}
