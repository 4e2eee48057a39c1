//! How fast connections are taken, and by which core.

use std::collections::HashMap;
use std::net::TcpStream;
use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};
use weir_net::metrics::HttpServerLimit;
use weir_net::server::{CoreListener, HttpServerLimits, StartError};
use weir_net::{BindOptions, Listener};

use super::echo::{Client, Setup, wait_until};

const UPGRADE: &str = "GET /raw HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n";
const GET: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_burst_of_connections_waits_for_the_accept_rate() {
    let clock = Clock::manual(Timestamp::from_millis(1));
    let limits = HttpServerLimits {
        accepts_per_second: 100,
        accepts_burst: 2,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, clock: clock.clone(), ..Setup::default() }.start();
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(GET);
    }
    wait_until("the bucket is empty", || {
        server.metrics.limit_hits(HttpServerLimit::AcceptsPerSecond) > 0
    });
    assert_eq!(server.metrics.connections_accepted(), 2);
    for taken in 3..=4 {
        clock.advance(Duration::from_millis(10));
        wait_until("the next is taken", || server.metrics.connections_accepted() == taken);
    }
    for client in &mut clients {
        assert_eq!(client.read_response().0, "HTTP/1.1 200 OK");
    }
}

#[test]
fn an_idle_listener_takes_no_accept_tokens() {
    let clock = Clock::manual(Timestamp::from_millis(1));
    let limits =
        HttpServerLimits { accepts_per_second: 1, accepts_burst: 1, ..HttpServerLimits::default() };
    let server = Setup { limits, clock, cores: 2, ..Setup::default() }.start();
    // The only token is for the first connection, whichever core's.
    assert_eq!(server.connect().send(GET).read_response().0, "HTTP/1.1 200 OK");
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::AcceptsPerSecond), 0);
}

#[test]
fn the_kernel_spreads_connections_over_the_cores() {
    let server = Setup { cores: 4, ..Setup::default() }.start();
    let mut by_core: HashMap<String, usize> = HashMap::new();
    for _ in 0..400 {
        *by_core.entry(server.connect().send(GET).read_response().1).or_default() += 1;
    }
    // The hash of addresses and ports gives each core a quarter, give or take.
    assert_eq!(by_core.len(), 4, "{by_core:?}");
    assert!(by_core.values().all(|count| *count > 40), "{by_core:?}");
}

#[test]
fn connected_clients_are_served_while_others_wait() {
    let listener =
        Listener::bind(&"127.0.0.1:0".parse().expect("an address"), BindOptions::default());
    let listener = listener.expect("bound");
    let address = listener.address().expect("an address").to_string();
    let mut crowd: Vec<_> =
        (0..200).map(|_| Client(TcpStream::connect(&address).expect("connects"))).collect();
    for client in &mut crowd {
        client.send("GET /accepted HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    let extra_listeners = vec![CoreListener { sockets: vec![listener], tls: None }];
    let _server = Setup { extra_listeners, ..Setup::default() }.start();
    // The first is answered when a few of them have been taken, not all.
    let accepted: usize = crowd[0].read_response().1.parse().expect("a number");
    assert!(accepted <= 32, "{accepted} of 200");
    assert!(crowd.iter_mut().skip(1).all(|client| client.read_response().0 == "HTTP/1.1 200 OK"));
}

#[test]
fn sockets_do_not_delay_small_writes() {
    let extra_listeners =
        Listener::bind(&"127.0.0.1:0".parse().expect("an address"), BindOptions::default());
    let extra_listeners = extra_listeners.expect("bound");
    let address = extra_listeners.address().expect("an address");
    let extra_listeners = vec![CoreListener { sockets: vec![extra_listeners], tls: None }];
    let server = Setup { extra_listeners, ..Setup::default() }.start();
    server.connect().send(UPGRADE).greeting();
    Client(TcpStream::connect(address.to_string()).expect("connects")).send(UPGRADE).greeting();
    assert_eq!(
        server.requests(),
        [
            "upgrade Some(127.0.0.1) tls=false 0 nodelay=Some(true)",
            "upgrade Some(127.0.0.1) tls=false 1 nodelay=Some(true)",
        ]
    );
}

#[test]
fn a_start_error_names_its_reason() {
    let error = Setup { cores: 0, ..Setup::default() }.try_start().err().expect("refused");
    assert_eq!(error.to_string(), "cannot serve with 0 cores; at least 1 is needed");
    let no_sockets = CoreListener { sockets: Vec::new(), tls: None };
    let setup = Setup { extra_listeners: vec![no_sockets], ..Setup::default() };
    let error = setup.try_start().err().expect("refused");
    assert!(matches!(error, StartError::Sockets { listener: 1, sockets: 0, cores: 1 }), "{error}");
}
