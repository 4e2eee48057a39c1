//! The listening sockets: bound by the parent before the service starts, and never closed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use weir_net::{BindOptions, ListenAddress, Listener};

use super::port;
use weir_config::Settings;
use weir_config::part::Part;

/// The name of the admin socket's descriptor.
pub(crate) const ADMIN: &str = "admin";
/// The names of the groups of sockets that the cores serve.
pub(crate) const FRONT: &str = "front";
pub(crate) const REALTIME: &str = "realtime";
pub(crate) const GEMS: &str = "gems";

/// Returns the name of a core's descriptor in a group.
pub(crate) fn core_socket_name(group: &str, core: usize) -> String {
    format!("{group}.{core}")
}

/// Every listening socket with its name.
#[derive(Debug)]
pub(crate) struct Listeners {
    tcp: Vec<Group>,
    admin: Listener,
    admin_path: PathBuf,
}

/// The sockets of one address.
#[derive(Debug)]
struct Group {
    name: &'static str,
    address: ListenAddress,
    sockets: Vec<Listener>,
    is_per_core: bool,
    has_tls: bool,
    suffix: String,
}

/// A socket to bind.
struct ListenerSpec {
    name: &'static str,
    address: SocketAddr,
    /// None: one socket, regardless of the number of cores.
    sockets: Option<usize>,
    has_tls: bool,
    /// What else is served there, for the printed list.
    suffix: String,
}

impl Listeners {
    /// Binds the sockets of the parts in `only` (empty: all), and the admin socket.
    pub(crate) fn bind(settings: &Settings, only: &[Part]) -> anyhow::Result<Self> {
        let options =
            BindOptions { backlog: settings.supervisor.backlog, ..BindOptions::default() };
        let specs = listener_specs(settings).into_iter();
        let specs = specs.filter(|(parts, _)| parts.iter().any(|part| part.is_among(only)));
        let wait = settings.supervisor.orphan_wait;
        let tcp = bind_all(specs.map(|(_, spec)| spec), options, wait)?;
        // Last: a start that fails leaves no socket in data_dir.
        let admin_path = settings.admin_socket();
        let address = ListenAddress::Unix(admin_path.clone());
        // A killed process may release the lock of data_dir before this socket.
        let admin = port::bind_group(&address, 1, options, wait).context("the admin socket")?;
        let admin = admin.into_iter().next().context("the admin socket is missing")?;
        Ok(Self { tcp, admin, admin_path })
    }

    /// Takes over the sockets that an earlier program has bound at `addresses`, where the settings
    /// still have these addresses; binds the others.
    pub(super) fn resume(
        settings: &Settings,
        only: &[Part],
        addresses: &BTreeMap<String, SocketAddr>,
        bound: &mut BTreeMap<String, OwnedFd>,
    ) -> anyhow::Result<Self> {
        let options =
            BindOptions { backlog: settings.supervisor.backlog, ..BindOptions::default() };
        let specs = listener_specs(settings).into_iter();
        let specs = specs.filter(|(parts, _)| parts.iter().any(|part| part.is_among(only)));
        let tcp = specs.map(|(_, spec)| match addresses.get(spec.name) {
            Some(address) if *address == spec.address => adopt(spec, bound),
            _ => bind(spec, options, Duration::ZERO),
        });
        let tcp = tcp.collect::<anyhow::Result<Vec<Group>>>()?;
        let admin = bound.remove(ADMIN).context("the admin socket is missing")?;
        let admin = Listener::adopt(ADMIN, admin)?;
        Ok(Self { tcp, admin, admin_path: settings.admin_socket() })
    }

    /// Checks whether the sockets that an earlier program has not bound can be bound.
    pub(super) fn check(
        settings: &Settings,
        only: &[Part],
        addresses: &BTreeMap<String, SocketAddr>,
    ) -> anyhow::Result<()> {
        let specs = listener_specs(settings).into_iter();
        let specs = specs.filter(|(parts, _)| parts.iter().any(|part| part.is_among(only)));
        for (_, spec) in specs {
            if addresses.get(spec.name) != Some(&spec.address) {
                let spec = ListenerSpec { sockets: None, ..spec };
                drop(bind(spec, BindOptions::default(), Duration::ZERO)?);
            }
        }
        Ok(())
    }

    /// Returns the line that `weir up` prints once everything serves; scripts read it.
    pub(crate) fn ready_line(&self) -> String {
        let tcp: String =
            self.tcp.iter().map(|group| format!(" {}={}", group.name, group.address)).collect();
        format!("weir ready{tcp} admin={}", self.admin_path.display())
    }

    /// Returns the URLs for people and clients.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.tcp.iter().map(Group::url).collect()
    }

    /// Returns the descriptors with their names, for the service.
    pub(crate) fn into_descriptors(self) -> Vec<(String, OwnedFd)> {
        let admin = (ADMIN.to_owned(), self.admin.into());
        let tcp = self.tcp.into_iter().flat_map(Group::into_descriptors);
        tcp.chain([admin]).collect()
    }
}

/// Returns all configured listeners, with the parts that they belong to.
fn listener_specs(settings: &Settings) -> Vec<(&'static [Part], ListenerSpec)> {
    let (jobs, front) = (&settings.jobs, &settings.front);
    let single = |name, address| ListenerSpec {
        name,
        address,
        sockets: None,
        has_tls: false,
        suffix: String::new(),
    };
    let per_core =
        |name, address| ListenerSpec { sockets: Some(front.sockets()), ..single(name, address) };
    let mut specs: Vec<(&[Part], ListenerSpec)> = Vec::new();
    if let Some(address) = jobs.listen {
        let jobs = ListenerSpec { has_tls: jobs.tls.is_some(), ..single("jobs", address) };
        specs.push((&[Part::Jobs], jobs));
    }
    if let Some(address) = front.listen.filter(|_| settings.has_front()) {
        let has_tls = front.tls.is_some();
        let suffix = paths_below_front(settings);
        let front = ListenerSpec { has_tls, suffix, ..per_core(FRONT, address) };
        let parts: &[Part] = match settings.gems.mount() {
            Some(_) => &[Part::Front, Part::Realtime, Part::Gems],
            None => &[Part::Front, Part::Realtime],
        };
        specs.push((parts, front));
    }
    if let Some(address) = settings.realtime.listen {
        specs.push((&[Part::Realtime], per_core(REALTIME, address)));
    }
    if let Some(address) = settings.gems.address() {
        let has_tls = settings.gems.tls.is_some();
        specs.push((&[Part::Gems], ListenerSpec { has_tls, ..per_core(GEMS, address) }));
    }
    if let Some(address) = settings.console.listen {
        specs.push((&[Part::Console], single("console", address)));
    }
    specs
}

fn paths_below_front(settings: &Settings) -> String {
    let realtime =
        (!settings.realtime.apps.is_empty()).then(|| ", realtime at /app/KEY".to_owned());
    let gems = settings.gems.mount().map(|mount| format!(", gems at {mount}"));
    realtime.into_iter().chain(gems).collect()
}

/// Takes the sockets of a group that an earlier program has bound. Their number may differ from
/// that of the cores: each is served anyway.
fn adopt(spec: ListenerSpec, bound: &mut BTreeMap<String, OwnedFd>) -> anyhow::Result<Group> {
    let ListenerSpec { name, address, sockets: count, has_tls, suffix } = spec;
    let is_per_core = count.is_some();
    let mut sockets = Vec::new();
    loop {
        let descriptor_name =
            if is_per_core { core_socket_name(name, sockets.len()) } else { name.to_owned() };
        let Some(descriptor) = bound.remove(&descriptor_name) else { break };
        sockets.push(Listener::adopt(&descriptor_name, descriptor)?);
    }
    let address = sockets.first().map_or(Ok(ListenAddress::Tcp(address)), Listener::address)?;
    Ok(Group { name, address, sockets, is_per_core, has_tls, suffix })
}

/// Returns the configured addresses by names of descriptors.
pub(super) fn addresses(settings: &Settings) -> Vec<(&'static str, SocketAddr)> {
    listener_specs(settings).into_iter().map(|(_, spec)| (spec.name, spec.address)).collect()
}

/// Binds all of them, or returns the errors of all that cannot be bound.
fn bind_all(
    specs: impl Iterator<Item = ListenerSpec>,
    options: BindOptions,
    mut wait: Duration,
) -> anyhow::Result<Vec<Group>> {
    let (mut groups, mut errors) = (Vec::new(), Vec::new());
    for spec in specs {
        match bind(spec, options, wait) {
            Ok(group) => groups.push(group),
            Err(error) => {
                errors.push(error);
                // The others have had that time as well.
                wait = Duration::ZERO;
            }
        }
    }
    match (errors.len(), errors.pop()) {
        (_, None) => Ok(groups),
        (1, Some(error)) => Err(error),
        (number, Some(last)) => {
            errors.push(last);
            let lines = errors.iter().map(|error| format!("\n  {error:#}"));
            bail!("{number} addresses cannot be used:{}", lines.collect::<String>())
        }
    }
}

fn bind(spec: ListenerSpec, options: BindOptions, wait: Duration) -> anyhow::Result<Group> {
    let ListenerSpec { name, address, sockets: count, has_tls, suffix } = spec;
    let requested = ListenAddress::Tcp(address);
    let bound = port::bind_group(&requested, count.unwrap_or(1), options, wait);
    let sockets = bound.with_context(|| format!("{name}.listen"))?;
    // With the port that the system chose.
    let address = sockets.first().map_or(Ok(requested), Listener::address)?;
    Ok(Group { name, address, sockets, is_per_core: count.is_some(), has_tls, suffix })
}

impl Group {
    fn into_descriptors(self) -> impl Iterator<Item = (String, OwnedFd)> {
        let Self { name, sockets, is_per_core, .. } = self;
        sockets.into_iter().enumerate().map(move |(core, socket)| {
            let name = if is_per_core { core_socket_name(name, core) } else { name.to_owned() };
            (name, socket.into())
        })
    }

    fn url(&self) -> String {
        let Self { name, address, has_tls, suffix, .. } = self;
        match (*name, has_tls) {
            ("jobs", true) => format!("jobs at tcp+tls://{address}"),
            ("jobs", false) => format!("jobs at tcp://{address}"),
            (FRONT, true) => format!("front at https://{address}{suffix}"),
            (FRONT, false) => format!("front at http://{address}{suffix}"),
            (REALTIME, _) => format!("realtime at ws://{address}/app/KEY"),
            (GEMS, true) => format!("gems at https://{address}"),
            (name, _) => format!("{name} at http://{address}"),
        }
    }
}
