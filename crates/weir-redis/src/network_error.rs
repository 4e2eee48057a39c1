//! Classifies errors of sockets and TLS by kind, for Redis and for the servers that weir-observe
//! queries.

use std::error::Error;
use std::io;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError};

/// Why a server cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkErrorKind {
    /// Nothing listens at the address.
    Refused,
    /// There was no response in time, or there is no route.
    TimedOut,
    /// The connection was closed before there was a response.
    Closed,
    /// The host name has no address.
    HostNotFound,
    /// The socket's file does not exist.
    NotFound,
    /// This user may not open the socket.
    Denied,
    /// TLS failed.
    Tls(TlsErrorKind),
}

/// Why TLS failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsErrorKind {
    /// The certificate is from an authority that is not trusted.
    UnknownIssuer,
    /// The certificate is for another host name.
    WrongName,
    /// The certificate has expired, or is not valid yet.
    NotValidNow,
    /// The server requires a client certificate, or rejects the one that it received.
    ClientCertificate,
    /// Another error.
    Other,
}

impl NetworkErrorKind {
    /// Searches `error` and its causes. Returns `None` if none of them is an error of a socket or of
    /// TLS.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        of_one(error).or_else(|| error.source().and_then(Self::of))
    }
}

fn of_one(error: &(dyn Error + 'static)) -> Option<NetworkErrorKind> {
    // The Redis client shares its causes.
    if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return NetworkErrorKind::of(&**shared);
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(NetworkErrorKind::Tls(of_tls(error)));
    }
    let error = error.downcast_ref::<io::Error>()?;
    // `source` of an `io::Error` skips the error that it contains.
    let contained = error.get_ref().and_then(|contained| NetworkErrorKind::of(contained));
    contained.or_else(|| of_io(error))
}

fn of_io(error: &io::Error) -> Option<NetworkErrorKind> {
    /// The kind of a failed look-up is private (`Uncategorized`), so its text is compared
    /// (`cvt_gai` of the standard library, in sys/net/connection/socket/unix.rs).
    const LOOK_UP: &str = "failed to lookup address information";
    Some(match error.kind() {
        io::ErrorKind::ConnectionRefused => NetworkErrorKind::Refused,
        io::ErrorKind::TimedOut
        | io::ErrorKind::WouldBlock
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => NetworkErrorKind::TimedOut,
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::NotConnected
        | io::ErrorKind::UnexpectedEof => NetworkErrorKind::Closed,
        io::ErrorKind::NotFound => NetworkErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => NetworkErrorKind::Denied,
        _ if error.to_string().starts_with(LOOK_UP) => NetworkErrorKind::HostNotFound,
        _ => return None,
    })
}

const fn of_tls(error: &rustls::Error) -> TlsErrorKind {
    match error {
        rustls::Error::InvalidCertificate(error) => of_certificate(error),
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        ) => TlsErrorKind::ClientCertificate,
        _ => TlsErrorKind::Other,
    }
}

const fn of_certificate(error: &CertificateError) -> TlsErrorKind {
    match error {
        // A bad signature: the authority has the name of the right one, and another key. `Other`: an
        // error of webpki, mostly a certificate of an authority that serves as its own.
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::Other(_) => TlsErrorKind::UnknownIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsErrorKind::WrongName
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => TlsErrorKind::NotValidNow,
        _ => TlsErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_found_in_what_wraps_it() {
        let tls = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let handshake = io::Error::new(io::ErrorKind::InvalidData, tls);
        let shared = redis::RedisError::from(handshake);
        let expected = NetworkErrorKind::Tls(TlsErrorKind::UnknownIssuer);
        assert_eq!(NetworkErrorKind::of(&shared), Some(expected));
        let expected = NetworkErrorKind::Refused;
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(NetworkErrorKind::of(&io::Error::other(refused)), Some(expected));
        assert_eq!(NetworkErrorKind::of(&io::Error::other("no cause")), None);
    }

    #[tokio::test]
    async fn a_host_name_without_an_address_is_recognized() {
        let Err(error) = tokio::net::lookup_host(("weir.invalid", 1)).await else { return };
        assert_eq!(NetworkErrorKind::of(&error), Some(NetworkErrorKind::HostNotFound), "{error}");
    }
}
