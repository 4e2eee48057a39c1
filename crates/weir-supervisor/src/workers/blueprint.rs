//! A group's specification, checked and parsed once: what starting a worker needs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use rustix::process::Resource;

use super::check::{self, GroupSpecError};
use super::run_folder::GroupFolder;
use super::spec::{BoundBy, GroupSpec, ResourceLimits, SocketKind};
use super::template::{Template, Values};
use super::values::QUEUES;
use crate::system::{FIRST_DESCRIPTOR, Identity};

/// Placeholders of every worker.
pub(super) const INDEX: &str = "index";
pub(super) const NAME: &str = "name";
pub(super) const FD: &str = "fd";
pub(super) const SOCKET: &str = "socket";
pub(super) const PORT: &str = "port";

/// A checked group.
#[derive(Debug)]
pub(crate) struct Blueprint {
    pub(crate) spec: GroupSpec,
    pub(crate) command: Vec<Template>,
    pub(crate) environment: Vec<(String, Template)>,
    /// None: the parent's identity.
    pub(crate) identity: Option<Identity>,
    pub(crate) limits: Vec<(Resource, u64)>,
    pub(crate) folder: GroupFolder,
}

impl Blueprint {
    /// Checks and parses `spec`; on failure returns all mistakes at once.
    pub(crate) fn new(spec: GroupSpec, run_folder: &Path) -> Result<Self, Vec<GroupSpecError>> {
        let spec_errors = check::spec_errors(&spec, run_folder);
        if !spec_errors.is_empty() {
            return Err(spec_errors);
        }
        // The check has parsed the same text; a change since then (a deleted user) is a mistake
        // again.
        let parsed = check::parse(&spec)
            .and_then(|(command, environment)| Ok((command, environment, check::identity(&spec)?)));
        let (command, environment, identity) = parsed.map_err(|error| vec![error])?;
        Ok(Self {
            limits: resource_limits(&spec.resource_limits),
            folder: GroupFolder::new(run_folder, &spec.name, identity.as_ref()),
            spec,
            command,
            environment,
            identity,
        })
    }

    /// Creates the folder for sockets; sockets of `running` generations stay in it.
    pub(crate) fn prepare_folder(&self, running: &BTreeSet<u64>) -> io::Result<()> {
        self.folder.prepare(self.identity.as_ref(), running)
    }

    /// Returns whether the command itself names the inherited descriptors. `LISTEN_FDS` is then not
    /// set as well: gunicorn would use a descriptor twice and fail.
    pub(crate) fn names_descriptors(&self) -> bool {
        let placeholder = format!("{{{FD}");
        self.spec.command.iter().any(|argument| argument.contains(&placeholder))
    }

    /// Returns whether the command or the environment contains the placeholder.
    pub(crate) fn has_placeholder(&self, name: &str) -> bool {
        let environment = self.environment.iter().map(|(_, value)| value);
        let mut templates = self.command.iter().chain(environment);
        templates.any(|template| template.placeholders().any(|placeholder| placeholder == name))
    }

    /// Returns whether queues are joined with commas anywhere, so that a queue cannot have a weight.
    pub(crate) fn joins_queues(&self) -> bool {
        let joins = |template: &Template| {
            template.placeholders().any(|name| name == QUEUES) && !template.is_placeholder()
        };
        let mut environment = self.environment.iter();
        let has_queues = |value: &Template| value.placeholders().any(|name| name == QUEUES);
        self.command.iter().any(joins) || environment.any(|(_, value)| has_queues(value))
    }

    /// Checks that `processes` workers listen on all sockets that can receive connections.
    pub(crate) fn check_scale(&self, processes: u32) -> Result<(), String> {
        let SocketKind::Group(group) = &self.spec.sockets else { return Ok(()) };
        let min = group.plan().workers_min();
        if usize::try_from(processes).is_ok_and(|processes| processes >= min) {
            return Ok(());
        }
        Err(format!(
            "with {processes} workers, some sockets of {} would have no listener; at least {min} are \
             required",
            self.spec.name
        ))
    }

    /// Returns a worker's name, such as `shop-3`: in logs, in the output, and as `{name}`.
    pub(crate) fn worker_name(&self, index: usize) -> String {
        format!("{}-{index}", self.spec.name)
    }
}

/// Returns the placeholders of `spec` except its own variables.
pub(super) fn built_in(spec: &GroupSpec) -> Vec<String> {
    let descriptors = |count: usize| {
        let numbered = (0..count).map(|number| format!("{FD}{number}"));
        std::iter::once(FD.to_owned()).chain(numbered)
    };
    let mut names = vec![INDEX.to_owned(), NAME.to_owned()];
    match &spec.sockets {
        SocketKind::None => {}
        SocketKind::Inherited(sockets) => names.extend(descriptors(sockets.len())),
        SocketKind::Group(group) => names.extend(descriptors(group.plan().descriptors())),
        SocketKind::UnixSocket(BoundBy::Worker) => names.push(SOCKET.to_owned()),
        SocketKind::UnixSocket(BoundBy::Parent) => {
            names.push(SOCKET.to_owned());
            names.extend(descriptors(1));
        }
        SocketKind::Port => names.push(PORT.to_owned()),
    }
    names
}

/// Returns the values of `{fd}`, `{fd0}`, `{fd1}` .. for `count` inherited descriptors.
pub(super) fn descriptor_values(count: usize) -> Values {
    let numbers = (FIRST_DESCRIPTOR..).take(count).map(|number| vec![number.to_string()]);
    let mut values: BTreeMap<String, Vec<String>> =
        numbers.enumerate().map(|(position, number)| (format!("{FD}{position}"), number)).collect();
    if count > 0 {
        values.insert(FD.to_owned(), vec![FIRST_DESCRIPTOR.to_string()]);
    }
    values
}

pub(super) fn resource_limits(limits: &ResourceLimits) -> Vec<(Resource, u64)> {
    let configured = [
        (Resource::Nofile, limits.open_files),
        (Resource::Core, limits.core_bytes),
        (Resource::As, limits.address_space_bytes),
    ];
    configured.into_iter().filter_map(|(resource, limit)| Some((resource, limit?))).collect()
}
