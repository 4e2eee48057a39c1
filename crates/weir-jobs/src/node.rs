//! What the nodes that share a store report about themselves.
//!
//! A report passes through a store that others may write to, so it is bounded when it is read, and
//! nothing in it is ever executed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Characters of a name that are read.
const NAME_CHARACTERS_MAX: usize = 100;
/// A node without a report for this long counts as away. It missed three.
const AWAY_AFTER: Duration = Duration::from_secs(35);

/// What a node reports every [`WORKER_REPORT_EVERY`](crate::store::WORKER_REPORT_EVERY).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeReport {
    /// The name of its machine.
    pub hostname: String,
    pub version: String,
    pub pid: u32,
    /// CPU cores that it may use.
    pub cores: u32,
    pub uptime_seconds: f64,
    /// Jobs per second that its workers have ended, over the last minute.
    pub jobs_per_second: f64,
    /// Jobs that its workers have reserved.
    pub busy: u64,
    /// Its worker processes.
    pub workers: u64,
    /// Its client connections.
    pub connections: u64,
    /// It was stopped in order.
    pub stopped: bool,
}

impl NodeReport {
    /// Parses a report of any origin. `None`: it is none.
    #[must_use]
    pub fn parse(json: &[u8]) -> Option<Self> {
        // An array would be accepted as well.
        let is_object = json.first() == Some(&b'{');
        let report: Self = is_object.then(|| serde_json::from_slice(json).ok())??;
        let shortened = |name: String| name.chars().take(NAME_CHARACTERS_MAX).collect();
        Some(Self {
            hostname: shortened(report.hostname),
            version: shortened(report.version),
            uptime_seconds: report.uptime_seconds.max(0.0),
            jobs_per_second: report.jobs_per_second.max(0.0),
            ..report
        })
    }
}

/// A node that shares the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeState {
    /// The name under which it holds reservations.
    pub id: String,
    /// Whether it is the node that says so.
    pub is_self: bool,
    /// `None`: it is alive and reports nothing, as older versions do.
    pub report: Option<NodeReport>,
    /// Time since its report.
    pub age: Duration,
}

/// Whether a node serves jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCondition {
    Up,
    /// Its last report is too old.
    Away,
    /// It was stopped in order.
    Stopped,
}

impl NodeCondition {
    /// All conditions.
    pub const ALL: [Self; 3] = [Self::Up, Self::Away, Self::Stopped];

    /// Returns its name: `up`, `away` or `stopped`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Away => "away",
            Self::Stopped => "stopped",
        }
    }
}

impl NodeState {
    /// Returns whether it serves jobs.
    #[must_use]
    pub fn condition(&self) -> NodeCondition {
        match &self.report {
            Some(report) if report.stopped => NodeCondition::Stopped,
            Some(_) if self.age > AWAY_AFTER => NodeCondition::Away,
            _ => NodeCondition::Up,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_any_form_is_bounded() {
        let report = NodeReport { hostname: "a".to_owned(), busy: 3, ..NodeReport::default() };
        let json = serde_json::to_vec(&report).unwrap();
        assert_eq!(NodeReport::parse(&json), Some(report));
        for json in
            [&b""[..], b"[]", b"{\"busy\":-1}", b"{\"hostname\":7}", b"\xff", b"{\"pid\":1e9}"]
        {
            assert_eq!(NodeReport::parse(json), None, "{:?}", String::from_utf8_lossy(json));
        }
        let long =
            format!(r#"{{"hostname":"{}","jobs_per_second":-5,"new":[1]}}"#, "é".repeat(999));
        let report = NodeReport::parse(long.as_bytes()).unwrap();
        assert_eq!(report.hostname.chars().count(), NAME_CHARACTERS_MAX);
        assert!(report.jobs_per_second >= 0.0);
    }

    #[test]
    fn a_node_is_up_while_it_reports() {
        let state = |age, stopped| NodeState {
            report: Some(NodeReport { stopped, ..NodeReport::default() }),
            age: Duration::from_secs(age),
            ..NodeState::default()
        };
        assert_eq!(state(30, false).condition(), NodeCondition::Up);
        assert_eq!(state(40, false).condition(), NodeCondition::Away);
        assert_eq!(state(1, true).condition(), NodeCondition::Stopped);
        let silent = NodeState { age: Duration::from_secs(999), ..NodeState::default() };
        assert_eq!(silent.condition(), NodeCondition::Up, "it has a lease");
    }
}
