//! The settings that the parent itself applied at its start, and that a new service process cannot
//! change.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use super::listeners;
use weir_config::{Budget, JobWorkers, Processes, Settings, SharedSockets};

/// The settings that the parent applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AppliedSettings {
    pub(super) data_dir: PathBuf,
    sockets: Vec<(&'static str, SocketAddr)>,
    groups: Vec<(String, Processes)>,
    shared: BTreeMap<String, Option<SharedSockets>>,
    workers: BTreeMap<String, JobWorkers>,
    budget: Budget,
}

impl AppliedSettings {
    pub(super) fn from_settings(settings: &Settings) -> Self {
        let apps = settings.front.apps.iter();
        let groups = apps.filter_map(|app| {
            Some((app.settings.name.clone(), app.processes.as_ref()?.parent_settings()))
        });
        let apps = settings.front.apps.iter().filter(|app| app.processes.is_some());
        let shared = apps.map(|app| {
            let sockets = app.sockets.as_ref().map(SharedSockets::parent_settings);
            (app.settings.name.clone(), sockets)
        });
        let workers = settings.workers.iter();
        let workers = workers.map(|(name, workers)| (name.clone(), workers.parent_settings()));
        Self {
            data_dir: settings.data_dir.clone(),
            sockets: listeners::addresses(settings),
            groups: groups.collect(),
            shared: shared.collect(),
            workers: workers.collect(),
            budget: settings.budget.clone(),
        }
    }

    /// Returns the listening addresses by names of descriptors.
    pub(super) fn addresses(&self) -> BTreeMap<String, SocketAddr> {
        self.sockets.iter().map(|(name, address)| ((*name).to_owned(), *address)).collect()
    }

    /// Returns the shared sockets of each app. None: each worker has its own address.
    pub(super) fn shared(&self) -> &BTreeMap<String, Option<SharedSockets>> {
        &self.shared
    }

    /// Returns the settings of `fresh` that differ and need a new parent.
    pub(super) fn differences(&self, fresh: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        differences.extend((self.data_dir != fresh.data_dir).then(|| "data_dir".to_owned()));
        let addresses =
            differences_by_key(&self.addresses(), &fresh.addresses(), |before, after| {
                (before != after).then(Vec::new)
            });
        differences.extend(addresses.into_iter().map(|(name, _)| format!("{name}.listen")));
        let non_empty = |names: Vec<&'static str>| (!names.is_empty()).then_some(names);
        let (before, after) = (by_name(&self.groups), by_name(&fresh.groups));
        let apps = differences_by_key(&before, &after, |before, after| match (before, after) {
            (Some(before), Some(after)) => non_empty(before.changed_settings(after)),
            (None, _) => Some(vec!["new"]),
            (_, None) => Some(vec!["gone"]),
        });
        differences.extend(apps.into_iter().map(|it| format_difference("front.apps", it)));
        let sockets = differences_by_key(&self.shared, &fresh.shared, |before, after| {
            // An added or removed app is listed above.
            match (before?, after?) {
                (Some(before), Some(after)) => non_empty(before.changed_settings(after)),
                (None, None) => None,
                _ => Some(vec!["mode"]),
            }
        });
        differences.extend(sockets.into_iter().map(|it| format_difference("front.apps", it)));
        let workers = differences_by_key(&self.workers, &fresh.workers, |before, after| {
            match (before, after) {
                (Some(before), Some(after)) => non_empty(before.changed_settings(after)),
                (None, _) => Some(vec!["new"]),
                (_, None) => Some(vec!["gone"]),
            }
        });
        differences.extend(workers.into_iter().map(|it| format_difference("workers", it)));
        differences.extend((self.budget != fresh.budget).then(|| "budget".to_owned()));
        differences
    }
}

fn by_name<T: Clone>(all: &[(String, T)]) -> BTreeMap<String, T> {
    all.iter().cloned().collect()
}

/// Compares the values of all keys in either map, and returns the differences by name.
fn differences_by_key<T>(
    before: &BTreeMap<String, T>,
    after: &BTreeMap<String, T>,
    difference: impl Fn(Option<&T>, Option<&T>) -> Option<Vec<&'static str>>,
) -> Vec<(String, Vec<&'static str>)> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let non_empty = names.into_iter().filter_map(|name| {
        let settings = difference(before.get(name), after.get(name))?;
        Some((name.clone(), settings))
    });
    non_empty.collect()
}

/// Formats a difference, such as `front.apps "shop": workers, environment`.
fn format_difference(section: &str, (name, settings): (String, Vec<&'static str>)) -> String {
    format!("{section} {name:?}: {}", settings.join(", "))
}
