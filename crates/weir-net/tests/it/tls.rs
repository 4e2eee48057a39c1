use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_net::tls::{Agreed, Tls, TlsError, TlsFiles};

pub(crate) struct Identity {
    pub(crate) cert_pem: String,
    pub(crate) cert_der: CertificateDer<'static>,
    pub(crate) key_pem: String,
}

pub(crate) fn identity() -> Identity {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    Identity {
        cert_pem: made.cert.pem(),
        cert_der: made.cert.der().clone(),
        key_pem: made.signing_key.serialize_pem(),
    }
}

pub(crate) fn write(folder: &Path, cert: &str, key: &str) -> TlsFiles {
    let files = TlsFiles { cert: folder.join("cert.pem"), key: folder.join("key.pem") };
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

/// A handshake over memory; what the server reads of `hello`.
async fn handshake(tls: &Tls, trusted: CertificateDer<'static>) -> std::io::Result<Vec<u8>> {
    let (client, server) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("localhost").expect("a name");
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
async fn files_serve_and_a_reload_serves_the_new_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (identity(), identity());
    let tls = Tls::load(write(folder.path(), &first.cert_pem, &first.key_pem), Agreed::Nothing)
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
fn each_mistake_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (identity(), identity());
    let load = |cert: &str, key: &str| {
        Tls::load(write(folder.path(), cert, key), Agreed::Nothing).expect_err("refused")
    };
    let nothing = load("", &one.key_pem);
    assert!(
        nothing
            .to_string()
            .ends_with("cert.pem holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)"),
        "{nothing}"
    );
    let swapped = load(&one.cert_pem, &one.cert_pem);
    assert!(swapped.to_string().contains("key.pem holds no private key"), "{swapped}");
    let mismatch = load(&one.cert_pem, &other.key_pem);
    assert!(matches!(mismatch, TlsError::Mismatch { .. }), "{mismatch}");
    let cut = load(&one.cert_pem[..one.cert_pem.len() / 2], &one.key_pem);
    assert!(cut.to_string().contains("cert.pem"), "{cut}");

    let missing =
        TlsFiles { cert: folder.path().join("absent.pem"), key: folder.path().join("key.pem") };
    let error = Tls::load(missing, Agreed::Nothing).expect_err("refused").to_string();
    assert!(
        error.starts_with("cannot read certificate ") && error.contains("absent.pem"),
        "{error}"
    );
}
