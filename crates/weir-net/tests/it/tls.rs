use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_net::metrics::{ReloadOutcome, TlsMetrics};
use weir_net::tls::{AlpnProtocols, Certificate, Tls, TlsError, TlsFiles, TlsSettings};

pub(crate) struct Identity {
    pub(crate) cert_pem: String,
    pub(crate) cert_der: CertificateDer<'static>,
    pub(crate) key_pem: String,
}

pub(crate) fn identity() -> Identity {
    identity_of(&["localhost"])
}

fn identity_of(names: &[&str]) -> Identity {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("made");
    Identity {
        cert_pem: made.cert.pem(),
        cert_der: made.cert.der().clone(),
        key_pem: made.signing_key.serialize_pem(),
    }
}

pub(crate) fn write(folder: &Path, cert: &str, key: &str) -> TlsFiles {
    let (cert_file, key_file) = (folder.join("cert.pem"), folder.join("key.pem"));
    let files = TlsFiles { cert: cert_file, key: key_file, hosts: Vec::new() };
    std::fs::write(&files.cert, cert).expect("written");
    std::fs::write(&files.key, key).expect("written");
    files
}

pub(crate) fn client_config(trusted: CertificateDer<'static>) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// One certificate, for everybody.
pub(crate) fn load(files: TlsFiles, agreed: AlpnProtocols) -> Result<Tls, TlsError> {
    Tls::load(TlsSettings::one(files), agreed, TlsMetrics::detached())
}

/// A handshake over memory; what the server reads of `hello`.
async fn handshake(tls: &Tls, trusted: CertificateDer<'static>) -> std::io::Result<Vec<u8>> {
    handshake_with("localhost", tls, trusted).await
}

async fn handshake_with(
    name: &'static str,
    tls: &Tls,
    trusted: CertificateDer<'static>,
) -> std::io::Result<Vec<u8>> {
    let (client, server) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from(name).expect("a name");
    let connector = tokio_rustls::TlsConnector::from(client_config(trusted));
    let (client, server) =
        tokio::join!(connector.connect(name, client), tls.acceptor().accept(server));
    let (mut client, mut server) = (client?, server?);
    client.write_all(b"hello").await?;
    client.shutdown().await?;
    let mut read = Vec::new();
    server.read_to_end(&mut read).await?;
    Ok(read)
}

#[tokio::test]
async fn certificates_are_served_and_replaced_by_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (identity(), identity());
    let tls = load(write(folder.path(), &first.cert_pem, &first.key_pem), AlpnProtocols::Nothing)
        .expect("loaded");
    assert_eq!(handshake(&tls, first.cert_der.clone()).await.expect("served"), b"hello");

    write(folder.path(), &second.cert_pem, &second.key_pem);
    tls.reload().expect("reloaded");
    assert_eq!(handshake(&tls, second.cert_der.clone()).await.expect("served"), b"hello");
    assert!(handshake(&tls, first.cert_der).await.is_err(), "the old certificate is gone");

    write(folder.path(), &second.cert_pem, "no key");
    tls.reload().expect_err("refused");
    assert_eq!(handshake(&tls, second.cert_der).await.expect("the old one stays"), b"hello");
}

#[test]
fn each_tls_error_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (identity(), identity());
    let refused = |cert: &str, key: &str| {
        load(write(folder.path(), cert, key), AlpnProtocols::Nothing).expect_err("refused")
    };
    let nothing = refused("", &one.key_pem);
    assert!(
        nothing
            .to_string()
            .ends_with("cert.pem holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)"),
        "{nothing}"
    );
    let swapped = refused(&one.cert_pem, &one.cert_pem);
    assert!(swapped.to_string().contains("key.pem holds no private key"), "{swapped}");
    let mismatch = refused(&one.cert_pem, &other.key_pem);
    assert!(matches!(mismatch, TlsError::Mismatch { .. }), "{mismatch}");
    let cut = refused(&one.cert_pem[..one.cert_pem.len() / 2], &one.key_pem);
    assert!(cut.to_string().contains("cert.pem"), "{cut}");

    let (cert, key) = (folder.path().join("absent.pem"), folder.path().join("key.pem"));
    let missing = TlsFiles { cert, key, hosts: Vec::new() };
    let error = load(missing, AlpnProtocols::Nothing).expect_err("refused").to_string();
    assert!(
        error.starts_with("cannot read certificate ") && error.contains("absent.pem"),
        "{error}"
    );
}

/// Files of their own for each of several identities.
fn write_all(folder: &Path, identities: &[&Identity]) -> Vec<TlsFiles> {
    let write_one = |(index, identity): (usize, &&Identity)| {
        let folder = folder.join(index.to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        write(&folder, &identity.cert_pem, &identity.key_pem)
    };
    identities.iter().enumerate().map(write_one).collect()
}

#[tokio::test]
async fn the_certificate_is_chosen_by_server_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = identity_of(&["localhost", "first.example"]);
    let second = identity_of(&["second.example", "*.second.example"]);
    let third = identity_of(&["third.example", "told.example"]);
    let mut certificates = write_all(folder.path(), &[&first, &second, &third]);
    certificates[2].hosts = vec!["Told.example".to_owned()];
    let settings = TlsSettings { certificates, reload_interval: TlsSettings::RELOAD_INTERVAL };
    let tls = Tls::load(settings, AlpnProtocols::Nothing, TlsMetrics::detached()).expect("loaded");
    for (name, identity) in [
        ("first.example", &first),
        ("second.example", &second),
        ("www.second.example", &second),
        ("told.example", &third),
        ("localhost", &first),
    ] {
        let read = handshake_with(name, &tls, identity.cert_der.clone()).await;
        assert_eq!(read.unwrap_or_else(|error| panic!("{name}: {error}")), b"hello");
    }
    // It is not for this name, though it has it: the first is shown instead, and refused.
    handshake_with("third.example", &tls, third.cert_der).await.expect_err("refused");
}

/// Waits until the listener shows this certificate.
async fn until_shown(tls: &Tls, identity: &Identity) {
    let shown = async {
        while handshake(tls, identity.cert_der.clone()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), shown).await.expect("in time");
}

#[tokio::test]
async fn changed_files_are_reloaded_and_a_broken_pair_is_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second, other) = (identity(), identity(), identity_of(&["other.example"]));
    let certificates = write_all(folder.path(), &[&first, &other]);
    let files = certificates[0].clone();
    let metrics = TlsMetrics::detached();
    let reload_interval = std::time::Duration::from_millis(1);
    let settings = TlsSettings { certificates, reload_interval };
    let tls =
        Arc::new(Tls::load(settings, AlpnProtocols::Nothing, metrics.clone()).expect("loaded"));
    let mut watching = tokio::task::JoinSet::new();
    watching.spawn(Arc::clone(&tls).watch("front.tls"));

    // A key of another certificate, as between two writes.
    std::fs::write(&files.key, &second.key_pem).expect("written");
    let failed = async {
        while metrics.reloads(ReloadOutcome::Failed) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), failed).await.expect("in time");
    assert_eq!(handshake(&tls, first.cert_der.clone()).await.expect("it stays"), b"hello");
    assert_eq!(handshake_with("other.example", &tls, other.cert_der).await.expect("so"), b"hello");
    std::fs::write(&files.cert, &second.cert_pem).expect("written");
    until_shown(&tls, &second).await;

    // By a rename, as ACME clients do.
    let fresh = folder.path().join("fresh.pem");
    for (text, file) in [(&first.key_pem, &files.key), (&first.cert_pem, &files.cert)] {
        std::fs::write(&fresh, text).expect("written");
        std::fs::rename(&fresh, file).expect("renamed");
    }
    until_shown(&tls, &first).await;
}

#[test]
fn a_certificate_reports_its_names_and_expiry() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut params = rcgen::CertificateParams::new(["Shop.example".to_owned()]).expect("names");
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let cert = params.self_signed(&key).expect("made");
    let files = write(folder.path(), &cert.pem(), &key.serialize_pem());
    let certificate = Certificate::load(&files).expect("loaded");
    assert_eq!(certificate.names(), ["shop.example"]);
    assert!(certificate.covers("SHOP.example") && !certificate.covers("www.shop.example"));
    assert_eq!(certificate.valid_from().as_millis(), 978_307_200_000);
    assert_eq!(certificate.expires().as_millis(), 1_009_843_200_000);

    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = TlsMetrics::register(&mut registry).for_listener("front.tls");
    Tls::load(TlsSettings::one(files), AlpnProtocols::Http, metrics)
        .expect("expired, but better than none");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encoded");
    assert!(text.contains("weir_tls_certificate_expiry_timestamp_seconds{setting=\"front.tls\""));
    assert!(text.contains("cert.pem\"} 1009843200\n"), "{text}");
}
