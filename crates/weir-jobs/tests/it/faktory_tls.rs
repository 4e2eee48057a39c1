//! Faktory over TLS.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_base::clock::Clock;
use weir_jobs::settings::{JobServerSettings, StoreKind};
use weir_net::metrics::TlsMetrics;
use weir_net::tls::AlpnProtocols;
use weir_net::{Tls, TlsFiles, TlsSettings};

use crate::faktory_server::{Client, PATIENCE, Server};

const HELLO: &str = "< +HI {\"v\":2}\n> HELLO {\"v\":2}\n< +OK";
const JOB: &str = r#"{"jid":"12345678","jobtype":"T","args":[]}"#;

/// A server with a certificate of its own, and clients that trust it.
struct OverTls {
    server: Server,
    config: Arc<ClientConfig>,
}

impl OverTls {
    fn start(change: impl FnOnce(&mut JobServerSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = TlsFiles {
            cert: folder.path().join("cert.pem"),
            key: folder.path().join("key.pem"),
            hosts: Vec::new(),
        };
        std::fs::write(&files.cert, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        let tls =
            Tls::load(TlsSettings::one(files), AlpnProtocols::Nothing, TlsMetrics::detached());
        let server = Server::start_with(
            StoreKind::Memory,
            Some(Arc::new(tls.unwrap())),
            Clock::system(),
            change,
        );
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { server, config: Arc::new(config) }
    }

    fn dial(&self) -> Client<StreamOwned<ClientConnection, TcpStream>> {
        let name = "localhost".try_into().unwrap();
        let session = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        let socket = TcpStream::connect(self.server.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client::over(StreamOwned::new(session, socket))
    }
}

#[test]
fn tls_is_spoken_on_the_same_listener() {
    let tls = OverTls::start(|_| {});
    let mut client = tls.dial();
    client.talk(HELLO);
    client.talk(&format!("> PUSH {JOB}\n< +OK\n> FETCH default\n< $*12345678*"));
}

/// Without `close_notify` rustls reports an unexpected end, OpenSSL and Ruby an error.
#[test]
fn every_end_that_is_meant_is_told() {
    let tls = OverTls::start(|settings| {
        settings.limits.heartbeat_timeout = Duration::from_millis(500);
    });
    let mut ended = tls.dial();
    ended.talk(HELLO);
    ended.talk("> END\n< closed");
    let mut refused = tls.dial();
    refused.talk("< +HI {\"v\":2}\n> HELLO {1\n< -ERR *\n< closed");
    let mut mute = tls.dial();
    mute.talk("< +HI {\"v\":2}\n> GET / HTTP/1.1\n< closed");
    let mut silent = tls.dial();
    silent.talk("< +HI {\"v\":2}\n< closed");
    let mut reaped = tls.dial();
    reaped.talk("< +HI {\"v\":2}\n> HELLO {\"v\":2,\"wid\":\"w1\"}\n< +OK\n< closed");
    let mut idle = tls.dial();
    idle.talk(HELLO);
    tls.server.stop_gracefully();
    idle.talk("< closed");
}
