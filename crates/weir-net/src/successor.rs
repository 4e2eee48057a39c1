//! Forwards requests to another process of this machine, which has taken over the addresses.
//!
//! This is no use of `http_client`, which keeps a request's body in memory for a repetition and
//! verifies certificates: here bodies are passed on in both directions as they arrive.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::{Request, Response, Uri, Version};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::server::BoxError;

/// The limit from the connection to the head of the response: the process may still be starting.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The process that serves this process's addresses now.
#[derive(Clone, Debug)]
pub struct Successor {
    plain: Option<SocketAddr>,
    tls: Option<(SocketAddr, OwnTls)>,
}

/// Why a forwarded request got no response.
#[derive(Debug, thiserror::Error)]
pub enum SuccessorError {
    #[error("the next process has no such address")]
    NoAddress,
    #[error("the next process can't be reached: {0}")]
    Connect(#[from] std::io::Error),
    #[error("the next process gave no response: {0}")]
    Http(#[from] hyper::Error),
    #[error("the next process gave no response in time")]
    Late,
}

impl Successor {
    /// Creates it from the addresses without and with TLS.
    #[must_use]
    pub fn new(plain: Option<SocketAddr>, tls: Option<SocketAddr>) -> Self {
        let tls = tls.map(|address| (reachable(address), OwnTls::new()));
        Self { plain: plain.map(reachable), tls }
    }

    /// Forwards a request to the address with or without TLS, as it arrived.
    ///
    /// # Errors
    /// Fails if there is no response. The other process may have received the request all the same.
    pub async fn forward<B>(
        &self,
        request: Request<B>,
        is_tls: bool,
    ) -> Result<Response<Incoming>, SuccessorError>
    where
        B: HttpBody<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        let response = timeout(RESPONSE_TIMEOUT, self.forward_without_limit(request, is_tls)).await;
        response.unwrap_or(Err(SuccessorError::Late))
    }

    async fn forward_without_limit<B>(
        &self,
        request: Request<B>,
        is_tls: bool,
    ) -> Result<Response<Incoming>, SuccessorError>
    where
        B: HttpBody<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        let request = as_http1(request);
        match (&self.tls, self.plain) {
            (Some((address, tls)), _) if is_tls => {
                let tcp = TcpStream::connect(address).await?;
                let name = ServerName::IpAddress(address.ip().into());
                send(tls.0.connect(name, tcp).await?, request).await
            }
            (_, Some(address)) if !is_tls => {
                send(TcpStream::connect(address).await?, request).await
            }
            _ => Err(SuccessorError::NoAddress),
        }
    }
}

/// Replaces the unspecified address by loopback, where such a listener is reachable.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// Converts a request to HTTP/1.1: adds `Host`, which HTTP/2 has in the target.
fn as_http1<B>(request: Request<B>) -> Request<B> {
    let (mut parts, body) = request.into_parts();
    parts.version = Version::HTTP_11;
    let host = parts.uri.authority().map(|host| host.as_str().to_owned());
    if let Some(host) = host.and_then(|host| HeaderValue::try_from(host).ok()) {
        parts.headers.entry(HOST).or_insert(host);
    }
    let target = parts.uri.path_and_query().cloned();
    parts.uri = target.map_or_else(Uri::default, Uri::from);
    parts.headers.remove(CONNECTION);
    parts.headers.remove(TRANSFER_ENCODING);
    Request::from_parts(parts, body)
}

async fn send<S, B>(stream: S, request: Request<B>) -> Result<Response<Incoming>, SuccessorError>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    B: HttpBody<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Errors end the response, which reports them. The task ends when the response is read or
    // dropped.
    drop(spawn_local(async move { drop(connection.await) }));
    let mut response = sender.send_request(request).await?;
    response.headers_mut().remove(CONNECTION);
    response.headers_mut().remove(TRANSFER_ENCODING);
    Ok(response)
}

/// A TLS client for addresses of this program. It accepts any certificate: the connection stays on
/// this machine, and the kernel says which process listens.
#[derive(Clone)]
struct OwnTls(TlsConnector);

impl OwnTls {
    fn new() -> Self {
        // Explicit: the process-wide default panics with two providers in the tree.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("aws-lc-rs has the ciphers of TLS 1.2 and 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }
}

impl std::fmt::Debug for OwnTls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OwnTls")
    }
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
