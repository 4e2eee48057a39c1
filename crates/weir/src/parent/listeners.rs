//! The listening sockets: bound by the parent before the service starts, held open for good.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::Context;
use weir_net::{BindOptions, ListenAddress, Listener};

use crate::config::Settings;
use crate::part::Part;

/// The name of the admin socket's descriptor.
pub(crate) const ADMIN: &str = "admin";

/// Every listening socket with its name.
#[derive(Debug)]
pub(crate) struct Listeners {
    tcp: Vec<(Part, Listener, ListenAddress)>,
    admin: Listener,
    admin_path: PathBuf,
}

impl Listeners {
    /// Binds those of the parts in `only` (empty: all), and the admin socket.
    pub(crate) fn bind(settings: &Settings, only: &[Part]) -> anyhow::Result<Self> {
        let options =
            BindOptions { backlog: settings.supervisor.backlog, ..BindOptions::default() };
        let wanted = [(Part::Jobs, settings.jobs.listen), (Part::Console, settings.console.listen)];
        let mut tcp = Vec::new();
        for (part, address) in wanted {
            if only.is_empty() || only.contains(&part) {
                let listener = Listener::bind(&ListenAddress::Tcp(address), options)
                    .with_context(|| format!("{}.listen", part.name()))?;
                let address = listener.address()?;
                tcp.push((part, listener, address));
            }
        }
        let admin_path = settings.admin_socket();
        let admin = Listener::bind(&ListenAddress::Unix(admin_path.clone()), options)
            .context("the admin socket")?;
        Ok(Self { tcp, admin, admin_path })
    }

    /// What `weir up` prints once everything serves; scripts read it.
    pub(crate) fn ready_line(&self) -> String {
        let tcp: String = self
            .tcp
            .iter()
            .map(|(part, _, address)| format!(" {}={address}", part.name()))
            .collect();
        format!("weir ready{tcp} admin={}", self.admin_path.display())
    }

    /// Where people and clients go.
    pub(crate) fn urls(&self, has_tls: bool) -> Vec<String> {
        let url = |(part, _, address): &(Part, Listener, ListenAddress)| match part {
            Part::Jobs if has_tls => format!("jobs at tcp+tls://{address}"),
            Part::Jobs => format!("jobs at tcp://{address}"),
            Part::Console => format!("console at http://{address}"),
        };
        self.tcp.iter().map(url).collect()
    }

    /// The descriptors with their names, for the service.
    pub(crate) fn into_descriptors(self) -> Vec<(String, OwnedFd)> {
        let tcp = self.tcp.into_iter().map(|(part, listener, _)| (part.name(), listener));
        tcp.chain([(ADMIN, self.admin)])
            .map(|(name, listener)| (name.to_owned(), listener.into()))
            .collect()
    }
}
