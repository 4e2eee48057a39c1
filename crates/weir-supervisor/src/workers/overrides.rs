//! Values of a group of job workers that operators have overridden for a time: processes, threads
//! and queues. Pure; [`file`] stores them.

pub(crate) mod file;
pub(crate) mod in_force;
pub(crate) mod room;

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blueprint::Blueprint;
use super::spec::PROCESSES_MAX;
use super::values::{CONCURRENCY, QUEUES, THREADS_MAX, WorkerValues};

/// Limit of the queues of an override.
pub(crate) const QUEUES_MAX: usize = 100;
/// Limit of the name of a queue in bytes.
pub(crate) const QUEUE_BYTES_MAX: usize = 128;
/// Limit of the weight of a queue.
pub(crate) const QUEUE_WEIGHT_MAX: u32 = 1_000;
/// How long an override holds unless the operator says so.
pub const OVERRIDE_DEFAULT: Duration = Duration::from_secs(60 * 60);
/// The longest time for which an override holds.
pub const OVERRIDE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Limit of the reason for an override in bytes.
pub(crate) const OVERRIDE_REASON_BYTES_MAX: usize = 200;
/// Limit of the name of an operator in bytes.
const BY_BYTES_MAX: usize = 100;

/// Processes, threads and queues of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupValues {
    pub processes: u32,
    /// None: the command does not get the number of threads.
    pub threads: Option<u32>,
    pub queues: Vec<String>,
}

/// An operator's request to override values of a group. Values that are None stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OverrideRequest {
    pub processes: Option<u32>,
    pub threads: Option<u32>,
    /// Each is a name, or a name and a weight: `mailers=2`.
    pub queues: Option<Vec<String>>,
    /// None: [`OVERRIDE_DEFAULT`].
    pub for_seconds: Option<u64>,
    pub by: String,
    pub reason: String,
    /// Checks the request without carrying it out.
    pub dry_run: bool,
}

/// An override in force. Times are seconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Override {
    pub processes: Option<u32>,
    pub threads: Option<u32>,
    /// As the command gets them: `mailers,2`.
    pub queues: Option<Vec<String>>,
    pub by: String,
    pub reason: String,
    pub set_at: u64,
    pub until: u64,
    /// The values of the settings when it was set.
    pub configured: GroupValues,
}

/// What a request does, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverrideOutcome {
    pub before: GroupValues,
    pub after: GroupValues,
    /// When the override ends, in seconds since the Unix epoch. None: there is none any more.
    pub until: Option<u64>,
    /// Processes that are replaced because their threads or queues change.
    pub replaced: u32,
    /// The database connections of this group afterwards.
    pub connections: u64,
    /// The same of all groups of job workers.
    pub connections_of_all: u64,
    /// The limit of all groups. None: there is no budget.
    pub connections_max: Option<u32>,
    pub is_dry_run: bool,
}

/// The values of a group of job workers for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobGroupState {
    /// The values of the settings.
    pub configured: GroupValues,
    /// The values of processes that are started now.
    pub in_force: GroupValues,
    #[serde(rename = "override")]
    pub set: Option<Override>,
    /// A limit of threads that a program renews.
    #[serde(default)]
    pub limit: Option<Override>,
    /// The threads of a process without that limit.
    #[serde(default)]
    pub unlimited_threads: Option<u32>,
    /// Overridden values whose setting has changed since: `processes`, `threads`, `queues`.
    #[serde(default)]
    pub changed_settings: Vec<String>,
    /// Overridden values that the command cannot get any more.
    #[serde(default)]
    pub ineffective: Vec<String>,
    /// The database connections of its processes with the values in force.
    #[serde(default)]
    pub connections: u64,
    /// The limit of all groups together. None: there is no budget.
    #[serde(default)]
    pub connections_max: Option<u32>,
    /// The group whose limited class of jobs this one serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_of: Option<String>,
}

impl Override {
    /// Returns the values that are overridden, by name.
    #[must_use]
    pub fn keys(&self) -> Vec<&'static str> {
        let keys = [
            ("processes", self.processes.is_some()),
            ("threads", self.threads.is_some()),
            ("queues", self.queues.is_some()),
        ];
        keys.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
    }

    /// Returns the overridden values whose setting is another one than when they were set.
    pub(crate) fn changed_settings(&self, now: &GroupValues) -> Vec<String> {
        let then = &self.configured;
        let differs = |name: &str| match name {
            "processes" => then.processes != now.processes,
            "threads" => then.threads != now.threads,
            _ => then.queues != now.queues,
        };
        let changed = self.keys().into_iter().filter(|name| differs(name));
        changed.map(str::to_owned).collect()
    }

    /// Returns the values that the command cannot get, because it has no placeholder for them.
    pub(crate) fn ineffective(&self, blueprint: &Blueprint) -> Vec<String> {
        let is_lost = |name: &&str| match *name {
            "threads" => !blueprint.has_placeholder(CONCURRENCY),
            "queues" => !blueprint.has_placeholder(QUEUES),
            _ => false,
        };
        self.keys().into_iter().filter(is_lost).map(str::to_owned).collect()
    }

    /// Returns the values in force, with those of the settings where none is overridden.
    pub(crate) fn applied_to(&self, values: &GroupValues, blueprint: &Blueprint) -> GroupValues {
        let threads = self.threads.filter(|_| blueprint.has_placeholder(CONCURRENCY));
        let queues = self.queues.clone().filter(|_| blueprint.has_placeholder(QUEUES));
        GroupValues {
            processes: self.processes.unwrap_or(values.processes),
            threads: threads.or(values.threads),
            queues: queues.unwrap_or_else(|| values.queues.clone()),
        }
    }
}

impl GroupValues {
    /// Returns the values with a limit of threads. What an operator has set has precedence.
    pub(crate) fn limited(self, limit: Option<&Override>, set: Option<&Override>) -> Self {
        let most = limit.and_then(|limit| limit.threads);
        match (self.threads, most) {
            (Some(threads), Some(most)) if set.is_none_or(|set| set.threads.is_none()) => {
                Self { threads: Some(threads.min(most)), ..self }
            }
            _ => self,
        }
    }

    pub(crate) fn of_process(&self) -> WorkerValues {
        WorkerValues { threads: self.threads, queues: self.queues.clone() }
    }
}

impl OverrideRequest {
    /// Returns the override that results from this request and the one in force. `now`: seconds since
    /// the Unix epoch.
    pub(crate) fn check(
        &self,
        blueprint: &Blueprint,
        before: Option<&Override>,
        configured: GroupValues,
        now: u64,
    ) -> Result<Override, String> {
        if self.processes.is_none() && self.threads.is_none() && self.queues.is_none() {
            return Err("nothing to change: name processes, threads or queues".into());
        }
        in_range("processes", self.processes, PROCESSES_MAX)?;
        in_range("threads", self.threads, THREADS_MAX)?;
        let seconds = self.for_seconds.unwrap_or(OVERRIDE_DEFAULT.as_secs());
        if !(1..=OVERRIDE_MAX.as_secs()).contains(&seconds) {
            return Err("an override holds for 1s to 7d; choose a time in between (for)".into());
        }
        if self.reason.len() > OVERRIDE_REASON_BYTES_MAX {
            return Err(format!("the reason is longer than {OVERRIDE_REASON_BYTES_MAX} bytes"));
        }
        if self.threads.is_some() && !blueprint.has_placeholder(CONCURRENCY) {
            return Err(no_threads(blueprint));
        }
        if self.queues.is_some() && !blueprint.has_placeholder(QUEUES) {
            return Err(no_queues(blueprint));
        }
        let joins = blueprint.joins_queues();
        let queues =
            self.queues.as_ref().map(|queues| queue_arguments(queues, joins)).transpose()?;
        Ok(Override {
            processes: self.processes.or(before.and_then(|before| before.processes)),
            threads: self.threads.or(before.and_then(|before| before.threads)),
            queues: queues.or_else(|| before.and_then(|before| before.queues.clone())),
            by: operator(&self.by),
            reason: printable(&self.reason),
            set_at: now,
            until: now.saturating_add(seconds),
            configured,
        })
    }
}

fn in_range(name: &str, value: Option<u32>, max: u32) -> Result<(), String> {
    match value {
        Some(value) if !(1..=max).contains(&value) => {
            Err(format!("{name}: {value} is out of range; 1 to {max} are possible"))
        }
        _ => Ok(()),
    }
}

fn no_threads(blueprint: &Blueprint) -> String {
    let name = &blueprint.spec.name;
    format!(
        "the command of {name} does not get the number of threads; in [workers.{name}], set \
         concurrency and add \"-c\", \"{{concurrency}}\" to command, or environment = {{ MAX_THREADS = \
         \"{{concurrency}}\" }}; then run weir upgrade"
    )
}

fn no_queues(blueprint: &Blueprint) -> String {
    let name = &blueprint.spec.name;
    format!(
        "the command of {name} does not get its queues; in [workers.{name}], set queues and add \
         \"{{queues}}\" to command, with queue_flag = \"-q\" for Sidekiq; then run weir upgrade"
    )
}

/// Returns queues as the command gets them. `joins`: the command joins them with commas.
fn queue_arguments(queues: &[String], joins: bool) -> Result<Vec<String>, String> {
    if !(1..=QUEUES_MAX).contains(&queues.len()) {
        return Err(format!("queues: {} are given; 1 to {QUEUES_MAX} are possible", queues.len()));
    }
    let mut names = BTreeSet::new();
    let mut arguments = Vec::new();
    for text in queues {
        let (name, weight) = match text.split_once('=') {
            Some((name, weight)) => (name, Some(queue_weight(text, weight)?)),
            None => (text.as_str(), None),
        };
        check_queue_name(name)?;
        if !names.insert(name) {
            return Err(format!("queues: {name:?} is given twice"));
        }
        arguments.push(match weight {
            Some(_) if joins => {
                return Err(format!(
                    "queues: {text:?} has a weight, which this command cannot get: it joins queues \
                     with commas; \"{{queues}}\" has to be an argument of its own"
                ));
            }
            Some(weight) => format!("{name},{weight}"),
            None => name.to_owned(),
        });
    }
    Ok(arguments)
}

fn queue_weight(text: &str, weight: &str) -> Result<u32, String> {
    let parsed = weight.parse().ok().filter(|weight| (1..=QUEUE_WEIGHT_MAX).contains(weight));
    parsed.ok_or_else(|| format!("queues: the weight of {text:?} is not 1 to {QUEUE_WEIGHT_MAX}"))
}

fn check_queue_name(name: &str) -> Result<(), String> {
    let is_allowed = |character: char| {
        !character.is_control() && !character.is_whitespace() && !",=\"'\\".contains(character)
    };
    let error = if !(1..=QUEUE_BYTES_MAX).contains(&name.len()) {
        format!("has {} bytes; 1 to {QUEUE_BYTES_MAX} are possible", name.len())
    } else if name.starts_with('-') {
        "would be an option of the command; names don't start with -".to_owned()
    } else if !name.chars().all(is_allowed) {
        "has a space, comma, quote or control character; a weight is written as NAME=2".to_owned()
    } else {
        return Ok(());
    };
    let end = name.floor_char_boundary(QUEUE_BYTES_MAX);
    Err(format!("queues: {:?} {error}", &name[..end]))
}

/// Returns the name of an operator, without control characters.
pub(crate) fn operator(by: &str) -> String {
    let name = printable(by);
    let end = name.floor_char_boundary(BY_BYTES_MAX);
    match name[..end].trim() {
        "" => "an operator".to_owned(),
        name => name.to_owned(),
    }
}

fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).collect()
}

/// The connections that a group would have: name, processes and connections of each.
#[derive(Clone, Debug)]
pub(crate) struct GroupConnections {
    pub(crate) name: String,
    pub(crate) processes: u32,
    pub(crate) each: u32,
}

impl GroupConnections {
    pub(crate) fn sum(&self) -> u64 {
        u64::from(self.processes) * u64::from(self.each)
    }
}

/// Checks that all groups together stay within the budget. `changed`: the group that changes.
pub(crate) fn check_budget(
    groups: &[GroupConnections],
    changed: &str,
    max: Option<u32>,
) -> Result<(), String> {
    let sum: u64 = groups.iter().map(GroupConnections::sum).sum();
    let Some(max) = max.filter(|max| sum > u64::from(*max)) else { return Ok(()) };
    let limit = format!(
        "more than the {max} of [budget] (database_connections - reserve); use fewer processes or threads"
    );
    let Some(group) = groups.iter().find(|group| group.name == changed) else {
        return Err(format!("all groups together have {sum} connections, {limit}"));
    };
    let GroupConnections { processes, each, .. } = group;
    let (own, others) = (group.sum(), sum - group.sum());
    Err(format!(
        "{changed}: {processes} processes x {each} connections = {own}; with {others} of other groups \
         that is {sum}, {limit}"
    ))
}

#[cfg(test)]
mod tests;
