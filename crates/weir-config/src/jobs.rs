//! `[jobs]`.

use std::net::{Ipv4Addr, SocketAddr};

use weir_jobs::settings::JobServerSettings;
use weir_net::TlsSettings;
use weir_settings::Section;

use super::tls;

/// The job server and where it listens.
#[derive(Clone, Debug, Section)]
#[section(restart)]
pub struct Jobs {
    /// Address for Faktory clients. "off": no job server, and no job store is opened.
    #[setting(listener, upgrade, default = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 7419))))]
    pub listen: Option<SocketAddr>,
    #[setting(with = tls::read_section)]
    pub tls: Option<TlsSettings>,
    #[setting(flatten)]
    pub settings: JobServerSettings,
}
