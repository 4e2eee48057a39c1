//! The listening sockets that apps' workers share: bound by the parent before any worker starts, held
//! open for good.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use anyhow::Context;
use weir_net::{BindOptions, ListenAddress, Listener};
use weir_supervisor::selection::{Plan, Prepared, SocketGroup};

use crate::config::{App, Settings, SharedSockets};
use crate::part::Part;

/// The name of a descriptor of an app's group, for the service.
pub(crate) fn of_app(name: &str) -> String {
    format!("app.{name}")
}

/// By the names of their apps.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<String, (ListenAddress, SocketGroup)>,
}

impl Groups {
    /// Binds those of all apps with `mode = "sockets"`, if apps are wanted here.
    pub(crate) fn bind(settings: &Settings, only: &[Part]) -> anyhow::Result<Self> {
        let mut groups = BTreeMap::new();
        let apps = if Part::Front.is_among(only) { settings.front.apps.as_slice() } else { &[] };
        for (index, app) in apps.iter().enumerate() {
            let (Some(sockets), Some(processes)) = (&app.sockets, &app.processes) else { continue };
            let plan = sockets.plan(processes);
            let bound = bind(app, sockets, plan);
            let bound = bound.with_context(|| format!("front.apps[{index}].listen"))?;
            groups.insert(app.settings.name.clone(), bound);
        }
        Ok(Self { groups })
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
    pub(crate) fn take(&mut self, app: &str) -> Option<SocketGroup> {
        self.groups.remove(app).map(|(_, group)| group)
    }
}

fn bind(
    app: &App,
    sockets: &SharedSockets,
    plan: Plan,
) -> anyhow::Result<(ListenAddress, SocketGroup)> {
    let name = &app.settings.name;
    let prepared = match Prepared::new(plan, sockets.listen.is_ipv6()) {
        Ok(prepared) => prepared,
        Err(refused) => {
            tracing::warn!(app = name, "{refused}; its workers share one socket");
            Prepared::new(plan.reduced(), sockets.listen.is_ipv6())?
        }
    };
    let wanted = ListenAddress::Tcp(sockets.listen);
    let count = prepared.plan().sockets();
    let share = usize::from(sockets.backlog).div_ceil(count);
    let backlog = u16::try_from(share).unwrap_or(u16::MAX);
    let options = BindOptions { backlog, ..BindOptions::default() };
    let bound = Listener::bind_group(&wanted, count, options)?;
    let address = bound.first().map_or(Ok(wanted), Listener::address)?;
    let bound = bound.into_iter().map(OwnedFd::from).collect();
    let joined = prepared.join(name, bound);
    let group = joined.with_context(|| {
        let selection = sockets.selection.name();
        format!("selection = \"{selection}\" can't be had here; use \"kernel\"")
    })?;
    Ok((address, group))
}
