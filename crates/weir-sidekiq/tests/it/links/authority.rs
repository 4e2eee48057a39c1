//! Certificates for servers and clients on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use weir_redis::TlsFiles;

/// A folder with `NAME.pem` and `NAME.key` of an authority, a server and a client.
pub(crate) struct Authority {
    folder: PathBuf,
}

impl Authority {
    /// Writes certificates into `folder`, over those of an earlier authority. The server's is for
    /// the address 127.0.0.1.
    pub(crate) fn write(folder: &Path) -> Self {
        Self::write_for(folder, "127.0.0.1")
    }

    /// Like [`Self::write`], for another address or host name of this machine.
    pub(crate) fn write_for(folder: &Path, host: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.join("authority.pem"), certificate.pem()).unwrap();
        let authority = Issuer::new(params, key);
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
            // OpenSSL takes a certificate with its issuer's name for one that signed itself.
            params.distinguished_name.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, &authority).unwrap();
            fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
            fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { folder: folder.to_owned() }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The options of a server that requires client certificates, for a configuration without and
    /// with dashes.
    pub(crate) fn options(&self) -> [(&'static str, String); 4] {
        let text = |name: &str| self.file(name).display().to_string();
        [
            ("tls-ca-cert-file", text("authority.pem")),
            ("tls-cert-file", text("server.pem")),
            ("tls-key-file", text("server.key")),
            ("tls-auth-clients", "yes".to_owned()),
        ]
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let argument = |(name, value): (&str, String)| [format!("--{name}"), value];
        self.options().into_iter().flat_map(argument).collect()
    }

    /// The files of a client.
    pub(crate) fn client_files(&self) -> TlsFiles {
        TlsFiles {
            authority: Some(self.file("authority.pem")),
            client: Some((self.file("client.pem"), self.file("client.key"))),
        }
    }
}
