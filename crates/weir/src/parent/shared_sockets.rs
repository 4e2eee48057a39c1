//! The listening sockets that apps' workers share: bound by the parent before any worker starts,
//! and never closed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use weir_net::{BindOptions, ListenAddress, Listener};
use weir_supervisor::selection::{LoadedSelection, Plan, SocketGroup};

use super::port;
use weir_config::part::Part;
use weir_config::{App, Settings, SharedSockets};

/// Returns the name of a descriptor of an app's group, for the service.
fn descriptor_name(name: &str) -> String {
    format!("app.{name}")
}

/// The groups of all apps, by name. Its descriptors, which [`Groups::descriptors`] lists, outlive
/// workers and services.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: BTreeMap<String, (SocketAddr, Arc<SocketGroup>)>,
}

impl Groups {
    /// Binds the groups of all apps with `mode = "sockets"`, if the front is enabled here. `inherited`
    /// has the descriptors that are already open, by the names of [`Groups::descriptors`]; the
    /// others are bound, with retries as in [`port::bind_group`].
    pub(crate) fn bind(
        settings: &Settings,
        only: &[Part],
        wait: Duration,
        mut inherited: impl FnMut(&str) -> Option<OwnedFd>,
    ) -> anyhow::Result<Self> {
        let mut groups = BTreeMap::new();
        for (index, app) in apps(settings, only) {
            let (Some(sockets), Some(processes)) = (&app.sockets, &app.processes) else { continue };
            let bound = match adopt(app, &mut inherited)? {
                Some(group) => Ok(group),
                None => bind(app, sockets, sockets.plan(processes), wait),
            };
            let group = bound.with_context(|| format!("front.apps[{index}].listen"))?;
            let address = address(&group)?;
            groups.insert(app.settings.name.clone(), (address, Arc::new(group)));
        }
        Ok(Self { groups })
    }

    /// Checks whether this program can continue from an earlier one with the groups `applied_settings`: running
    /// workers cannot get other sockets, and new addresses must be free.
    pub(super) fn check(
        settings: &Settings,
        only: &[Part],
        applied: &BTreeMap<String, Option<SharedSockets>>,
    ) -> anyhow::Result<()> {
        for (index, app) in apps(settings, only).filter(|(_, app)| app.processes.is_some()) {
            let now = app.sockets.as_ref().map(SharedSockets::parent_settings);
            match (applied.get(&app.settings.name), now) {
                (Some(before), now) if *before != now => bail!(
                    "front.apps[{index}]: the workers of {} would have to listen on something else \
                     (mode, listen, selection, queues, backlog); that needs a stop and a start, or \
                     another name",
                    app.settings.name
                ),
                (None, Some(sockets)) => {
                    let address = ListenAddress::Tcp(sockets.listen);
                    let bound = Listener::bind(&address, BindOptions::default());
                    drop(bound.with_context(|| format!("front.apps[{index}].listen"))?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the fields for the line that scripts read.
    pub(crate) fn ready_words(&self) -> String {
        let groups = self.groups.iter();
        groups.map(|(name, (address, _))| format!(" {}={address}", descriptor_name(name))).collect()
    }

    /// Returns the URLs for people.
    pub(crate) fn urls(&self) -> impl Iterator<Item = String> {
        let groups = self.groups.iter();
        groups.map(|(name, (address, _))| format!("{name} at http://{address}, by its workers"))
    }

    /// Returns duplicates of all descriptors, with names, for the service: it probes the workers
    /// and repairs their records.
    pub(crate) fn descriptors(&self) -> std::io::Result<Vec<(String, OwnedFd)>> {
        let all = self.groups.values().flat_map(|(_, group)| group.descriptors());
        all.map(|(name, descriptor)| Ok((descriptor_name(&name), descriptor.try_clone_to_owned()?)))
            .collect()
    }

    /// Returns the group of an app, for its workers.
    pub(crate) fn get(&self, app: &str) -> Option<Arc<SocketGroup>> {
        self.groups.get(app).map(|(_, group)| Arc::clone(group))
    }
}

/// Returns the apps of the settings with their indexes, if the front is enabled here.
fn apps<'a>(settings: &'a Settings, only: &[Part]) -> impl Iterator<Item = (usize, &'a App)> {
    let is_enabled = Part::Front.is_among(only);
    settings.front.apps.iter().enumerate().filter(move |_| is_enabled)
}

/// Takes the group of an app from open descriptors, by their names. None: there are none.
pub(crate) fn adopt(
    app: &App,
    mut take: impl FnMut(&str) -> Option<OwnedFd>,
) -> anyhow::Result<Option<SocketGroup>> {
    let name = &app.settings.name;
    let Some(records) = take(&descriptor_name(&format!("{name}.busy"))) else { return Ok(None) };
    let sockets = (0..).map_while(|number| take(&descriptor_name(&format!("{name}.{number}"))));
    let group = SocketGroup::adopt(name, sockets.collect(), records);
    group.map(Some).with_context(|| format!("the sockets of {name}"))
}

/// Returns the address of a group, with the port that the system chose.
pub(crate) fn address(group: &SocketGroup) -> anyhow::Result<SocketAddr> {
    let (_, first) = group.descriptors().next().context("no sockets")?;
    let address = rustix::net::getsockname(first)?.try_into();
    address.context("the socket is none of TCP")
}

fn bind(
    app: &App,
    sockets: &SharedSockets,
    plan: Plan,
    wait: Duration,
) -> anyhow::Result<SocketGroup> {
    let name = &app.settings.name;
    let prepared = match LoadedSelection::new(plan, sockets.listen.is_ipv6()) {
        Ok(prepared) => prepared,
        Err(error) => {
            tracing::warn!(app = name, "{error}; its workers share one socket");
            LoadedSelection::new(plan.reduced(), sockets.listen.is_ipv6())?
        }
    };
    let address = ListenAddress::Tcp(sockets.listen);
    let count = prepared.plan().sockets();
    let share = usize::from(sockets.backlog).div_ceil(count);
    let backlog = u16::try_from(share).unwrap_or(u16::MAX);
    let options = BindOptions { backlog, ..BindOptions::default() };
    let bound = port::bind_group(&address, count, options, wait)?;
    let bound = bound.into_iter().map(OwnedFd::from).collect();
    let joined = prepared.join(name, bound);
    joined.with_context(|| {
        let selection = sockets.selection.name();
        format!("selection = \"{selection}\" is not supported here; use \"kernel\"")
    })
}
