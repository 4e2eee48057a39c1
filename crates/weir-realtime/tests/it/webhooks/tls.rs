//! Endpoints with `https`.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;
use weir_realtime::webhooks::Trust;

use super::*;

/// A certificate authority's file and a server with a certificate from it, for `name`.
fn authority(name: &str) -> (tempfile::TempDir, TlsAcceptor) {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let ca = parameters.self_signed(&ca_key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), ca.pem()).unwrap();

    let issuer = rcgen::Issuer::from_params(&parameters, &ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (folder, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn a_private_certificate_authority_is_trusted_if_configured() {
    let (folder, acceptor) = authority("localhost");
    let mut receiver = Receiver::start_with(Some(acceptor)).await;
    let url = format!("https://localhost:{}/hooks", receiver.address.port());
    let trust = Trust::with_ca(&folder.path().join("ca.pem"), "realtime.webhooks.ca").unwrap();
    let bench = Bench::start(&[&url], |settings| settings.trust = trust);
    for channel in ["1", "2"] {
        bench.publish(&miss(channel));
        let request = receiver.next().await;
        assert_eq!(
            (request.target.as_str(), request.channels()),
            ("/hooks", vec![channel.to_owned()])
        );
        assert_eq!(request.headers["x-pusher-signature"], hmac_sha256(b"secret", &request.body));
    }
    assert_eq!(receiver.connections(), 1);
    assert_eq!(bench.end().await.get("events_sent_total"), 2);
}

#[tokio::test]
async fn an_untrusted_certificate_is_rejected() {
    for (name, is_known) in [("localhost", false), ("example.org", true)] {
        let (folder, acceptor) = authority(name);
        let receiver = Receiver::start_with(Some(acceptor)).await;
        let url = format!("https://localhost:{}/", receiver.address.port());
        let trust = match is_known {
            true => Trust::with_ca(&folder.path().join("ca.pem"), "realtime.webhooks.ca").unwrap(),
            false => Trust::public(),
        };
        let bench = Bench::start(&[&url], |settings| settings.trust = trust);
        bench.publish(&miss("1"));
        let metrics = bench.end().await;
        assert!(metrics.get(r#"attempts_failed_total{reason="tls"}"#) >= 1, "{name}");
        assert_eq!(metrics.get("events_sent_total"), 0, "{name}");
    }
}

#[tokio::test]
async fn an_incomplete_tls_handshake_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let bench = Bench::start(&[&url], |settings| settings.connect_timeout = 20 * MS);
    bench.publish(&miss("1"));
    let metrics = bench.end().await;
    assert!(metrics.get(r#"attempts_failed_total{reason="timeout"}"#) >= 1);
    assert_eq!(metrics.get(r#"events_dropped_total{reason="shutdown"}"#), 1);
}
