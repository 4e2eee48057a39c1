//! The listening sockets that apps' workers share: bound by the parent before any worker starts, held
//! open for good.

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

/// The name of a descriptor of an app's group, for the service.
fn of_app(name: &str) -> String {
    format!("app.{name}")
}

/// All of them, by the names of their apps. Everything in it outlives workers and services;
/// [`Groups::descriptors`] lists it.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: BTreeMap<String, (SocketAddr, Arc<SocketGroup>)>,
}

impl Groups {
    /// Those of all apps with `mode = "sockets"`, if apps are wanted here. `kept` gives those that
    /// are open already, by the names of [`Groups::descriptors`]; the others are bound, and waited for as
    /// [`port::bind_group`] does.
    pub(crate) fn bind(
        settings: &Settings,
        only: &[Part],
        wait: Duration,
        mut kept: impl FnMut(&str) -> Option<OwnedFd>,
    ) -> anyhow::Result<Self> {
        let mut groups = BTreeMap::new();
        for (index, app) in apps(settings, only) {
            let (Some(sockets), Some(processes)) = (&app.sockets, &app.processes) else { continue };
            let bound = match adopt(app, &mut kept)? {
                Some(group) => Ok(group),
                None => bind(app, sockets, sockets.plan(processes), wait),
            };
            let group = bound.with_context(|| format!("front.apps[{index}].listen"))?;
            let address = address(&group)?;
            groups.insert(app.settings.name.clone(), (address, Arc::new(group)));
        }
        Ok(Self { groups })
    }

    /// Whether an earlier program that holds `held` can be followed: workers that run can't be given
    /// other sockets, and what is new can be bound.
    pub(super) fn check(
        settings: &Settings,
        only: &[Part],
        held: &BTreeMap<String, Option<SharedSockets>>,
    ) -> anyhow::Result<()> {
        for (index, app) in apps(settings, only).filter(|(_, app)| app.processes.is_some()) {
            let now = app.sockets.as_ref().map(SharedSockets::for_parent);
            match (held.get(&app.settings.name), now) {
                (Some(before), now) if *before != now => bail!(
                    "front.apps[{index}]: the workers of {} would have to listen on something else \
                     (mode, listen, selection, queues, backlog); that needs a stop and a start, or \
                     another name",
                    app.settings.name
                ),
                (None, Some(sockets)) => {
                    let wanted = ListenAddress::Tcp(sockets.listen);
                    let bound = Listener::bind(&wanted, BindOptions::default());
                    drop(bound.with_context(|| format!("front.apps[{index}].listen"))?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// For the line that scripts read.
    pub(crate) fn ready_words(&self) -> String {
        let groups = self.groups.iter();
        groups.map(|(name, (address, _))| format!(" {}={address}", of_app(name))).collect()
    }

    /// For people.
    pub(crate) fn urls(&self) -> impl Iterator<Item = String> {
        let groups = self.groups.iter();
        groups.map(|(name, (address, _))| format!("{name} at http://{address}, by its workers"))
    }

    /// Copies of all, with names, for the service: it probes the workers and repairs their words.
    pub(crate) fn descriptors(&self) -> std::io::Result<Vec<(String, OwnedFd)>> {
        let all = self.groups.values().flat_map(|(_, group)| group.descriptors());
        all.map(|(name, descriptor)| Ok((of_app(&name), descriptor.try_clone_to_owned()?)))
            .collect()
    }

    /// That of an app, for its workers.
    pub(crate) fn get(&self, app: &str) -> Option<Arc<SocketGroup>> {
        self.groups.get(app).map(|(_, group)| Arc::clone(group))
    }
}

/// The apps of the settings with their places there, if apps are wanted here.
fn apps<'a>(settings: &'a Settings, only: &[Part]) -> impl Iterator<Item = (usize, &'a App)> {
    let is_wanted = Part::Front.is_among(only);
    settings.front.apps.iter().enumerate().filter(move |_| is_wanted)
}

/// The group of an app out of descriptors that are open already, by their names. None: there are
/// none.
pub(crate) fn adopt(
    app: &App,
    mut take: impl FnMut(&str) -> Option<OwnedFd>,
) -> anyhow::Result<Option<SocketGroup>> {
    let name = &app.settings.name;
    let Some(records) = take(&of_app(&format!("{name}.busy"))) else { return Ok(None) };
    let sockets = (0..).map_while(|number| take(&of_app(&format!("{name}.{number}"))));
    let group = SocketGroup::adopt(name, sockets.collect(), records);
    group.map(Some).with_context(|| format!("the sockets of {name}"))
}

/// Where a group listens, with the port that the system chose.
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
        Err(refused) => {
            tracing::warn!(app = name, "{refused}; its workers share one socket");
            LoadedSelection::new(plan.reduced(), sockets.listen.is_ipv6())?
        }
    };
    let wanted = ListenAddress::Tcp(sockets.listen);
    let count = prepared.plan().sockets();
    let share = usize::from(sockets.backlog).div_ceil(count);
    let backlog = u16::try_from(share).unwrap_or(u16::MAX);
    let options = BindOptions { backlog, ..BindOptions::default() };
    let bound = port::bind_group(&wanted, count, options, wait)?;
    let bound = bound.into_iter().map(OwnedFd::from).collect();
    let joined = prepared.join(name, bound);
    joined.with_context(|| {
        let selection = sockets.selection.name();
        format!("selection = \"{selection}\" is not supported here; use \"kernel\"")
    })
}
