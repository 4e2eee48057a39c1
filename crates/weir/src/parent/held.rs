//! What the parent itself took from the settings when it started, and a new service process can't
//! change.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::listeners;
use crate::config::{JobWorkers, Processes, Settings, SharedSockets};

/// It.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) data_dir: PathBuf,
    sockets: Vec<(&'static str, SocketAddr)>,
    groups: Vec<(String, Processes)>,
    shared: BTreeMap<String, Option<SharedSockets>>,
    workers: BTreeMap<String, JobWorkers>,
}

impl Held {
    pub(super) fn of(settings: &Settings) -> Self {
        let apps = settings.front.apps.iter();
        let groups = apps.filter_map(|app| {
            Some((app.settings.name.clone(), app.processes.as_ref()?.for_parent()))
        });
        let apps = settings.front.apps.iter().filter(|app| app.processes.is_some());
        let shared = apps.map(|app| {
            let sockets = app.sockets.as_ref().map(SharedSockets::for_parent);
            (app.settings.name.clone(), sockets)
        });
        let workers = settings.workers.iter();
        let workers = workers.map(|(name, workers)| (name.clone(), workers.for_parent()));
        Self {
            data_dir: settings.data_dir.clone(),
            sockets: listeners::addresses(settings),
            groups: groups.collect(),
            shared: shared.collect(),
            workers: workers.collect(),
        }
    }

    /// Where it listens, by the names of descriptors.
    pub(super) fn addresses(&self) -> BTreeMap<String, SocketAddr> {
        self.sockets.iter().map(|(name, address)| ((*name).to_owned(), *address)).collect()
    }

    /// What the workers of each app listen on. None: each on something of its own.
    pub(super) fn shared(&self) -> &BTreeMap<String, Option<SharedSockets>> {
        &self.shared
    }

    /// The settings of `fresh` that only a new parent would take.
    pub(super) fn differences(&self, fresh: &Self) -> Vec<&'static str> {
        let differs = [
            ("data_dir", self.data_dir != fresh.data_dir),
            ("addresses to listen on", self.sockets != fresh.sockets),
            ("the command of an app under front.apps", self.groups != fresh.groups),
            ("how job workers are run, under workers", self.workers != fresh.workers),
            ("what the workers of an app listen on", self.shared != fresh.shared),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect()
    }
}
