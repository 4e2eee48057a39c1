//! What nodes that share a store report about themselves, for operators: nothing here decides anything.
//!
//! A report passes through a store that others may write to, so it is bounded when it is read, and
//! nothing in it is ever executed.

mod joined;
#[cfg(feature = "tokio")]
mod known;

use std::os::unix::process::parent_id;
use std::sync::LazyLock;
use std::time::Duration;
use std::{fs, io, thread};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::joined::{JoinedNode, joined, merged};
#[cfg(feature = "tokio")]
pub use self::known::{KnownNodes, NodeReports};

/// How often a node reports.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// A node without a report for this long counts as away. It missed three.
const AWAY_AFTER: Duration = Duration::from_secs(35);
/// Characters of a text that are read.
const TEXT_CHARACTERS_MAX: usize = 100;
/// Characters of the name that a node gives itself.
const NAME_CHARACTERS: usize = 12;

/// The parent process at the first report. Once it has ended, this process has another parent.
static PARENT: LazyLock<u32> = LazyLock::new(parent_id);

/// A node's process and its machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeProcess {
    /// The name of its machine.
    pub hostname: String,
    pub version: String,
    pub pid: u32,
    /// CPU cores that it may use.
    pub cores: u32,
    /// Average number of running and ready tasks of its machine over the last minute.
    #[serde(deserialize_with = "not_negative")]
    pub load: f64,
    #[serde(deserialize_with = "not_negative")]
    pub uptime_seconds: f64,
    /// The address of its console for browsers, or empty if only its own machine reaches it.
    pub console: String,
    /// It was stopped in order.
    pub stopped: bool,
    /// It ended because its parent process had ended, for example by `kill -9`.
    pub orphaned: bool,
    /// The parent process at the time of the report. Not part of it. 0: unknown.
    #[serde(skip)]
    pub parent: u32,
}

/// What a node reports: its process, and the figures of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, bound(deserialize = "F: DeserializeOwned + Default"))]
#[schemars(bound = "F: JsonSchema + Serialize + Default")]
pub struct NodeReport<F> {
    #[serde(flatten)]
    pub process: NodeProcess,
    #[serde(flatten)]
    pub figures: F,
}

/// A node that shares the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeState<F> {
    pub id: String,
    /// Whether it is the node that says so.
    pub is_self: bool,
    /// `None`: it is alive and reports nothing, as older versions do.
    pub report: Option<NodeReport<F>>,
    /// Time since its report.
    pub age: Duration,
}

/// A node, for operators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(bound(deserialize = "F: DeserializeOwned + Default"))]
#[schemars(bound = "F: JsonSchema + Serialize + Default")]
pub struct NodeView<F> {
    pub id: String,
    /// Whether it is the node that was asked.
    pub is_self: bool,
    /// `up`, `away` (it stopped reporting, or its parent process ended) or `stopped` (in order).
    pub state: String,
    /// Seconds since its report. `None`: it is alive and of a version that reports nothing; the figures
    /// below are unknown.
    pub age_seconds: Option<f64>,
    #[serde(flatten)]
    pub report: NodeReport<F>,
}

/// Whether a node serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCondition {
    Up,
    /// Its last report is too old, or it ended because its parent process had ended.
    Away,
    /// It was stopped in order.
    Stopped,
}

/// Returns the name of this machine, or an empty text if the system does not say.
#[must_use]
pub fn hostname() -> String {
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    hostname.trim().to_owned()
}

impl NodeProcess {
    /// Describes this process.
    #[must_use]
    pub fn this(version: &str, uptime: Duration, console: &str) -> Self {
        let cores = thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            hostname: hostname(),
            version: version.to_owned(),
            pid: std::process::id(),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            load: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default(),
            uptime_seconds: uptime.as_secs_f64(),
            console: console.to_owned(),
            stopped: false,
            orphaned: false,
            parent: *PARENT,
        }
    }

    /// Describes it at its end: in order, unless its parent process has ended first.
    #[must_use]
    pub fn ended(self) -> Self {
        let orphaned = self.parent != 0 && self.parent != parent_id();
        Self { stopped: !orphaned, orphaned, ..self }
    }

    fn bounded(self) -> Self {
        let shortened = |text: String| text.chars().take(TEXT_CHARACTERS_MAX).collect();
        Self {
            hostname: shortened(self.hostname),
            version: shortened(self.version),
            console: if is_web_address(&self.console) { self.console } else { String::new() },
            ..self
        }
    }
}

impl<F: DeserializeOwned + Default> NodeReport<F> {
    /// Parses a report of any origin. `None`: it is none.
    #[must_use]
    pub fn parse(json: &[u8]) -> Option<Self> {
        // An array would be accepted as well.
        let is_object = json.first() == Some(&b'{');
        let report: Self = is_object.then(|| serde_json::from_slice(json).ok())??;
        Some(Self { process: report.process.bounded(), ..report })
    }
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

impl<F> NodeState<F> {
    /// Returns whether it serves.
    #[must_use]
    pub fn condition(&self) -> NodeCondition {
        match &self.report {
            Some(report) if report.process.stopped => NodeCondition::Stopped,
            Some(report) if report.process.orphaned => NodeCondition::Away,
            Some(_) if self.age > AWAY_AFTER => NodeCondition::Away,
            _ => NodeCondition::Up,
        }
    }
}

impl<F: Default> From<NodeState<F>> for NodeView<F> {
    fn from(node: NodeState<F>) -> Self {
        Self {
            state: node.condition().label().to_owned(),
            age_seconds: node.report.is_some().then_some(node.age.as_secs_f64()),
            id: node.id,
            is_self: node.is_self,
            report: node.report.unwrap_or_default(),
        }
    }
}

/// Returns the name of the node whose data directory has `file`: random digits, which are made and stored
/// the first time.
///
/// # Errors
///
/// The file can't be read or written.
pub fn node_name(file: &std::path::Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Ok(name) if is_node_name(name.trim()) => return Ok(name.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let name = format!("{:012x}", fastrand::u64(..1 << (4 * NAME_CHARACTERS)));
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = fs::File::create(file)?;
    io::Write::write_all(&mut file, name.as_bytes())?;
    file.sync_all()?;
    Ok(name)
}

/// Reads a number that is negative only in a report that no node wrote.
///
/// # Errors
///
/// It is no number.
pub fn not_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    f64::deserialize(deserializer).map(|number| number.max(0.0))
}

fn is_node_name(name: &str) -> bool {
    name.len() == NAME_CHARACTERS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether a browser may be sent there: an `http` or `https` address without anything odd.
#[must_use]
pub fn is_web_address(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]/_".contains(&byte);
    host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_usual))
        && text.len() <= TEXT_CHARACTERS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Figures {
        busy: u64,
        #[serde(deserialize_with = "not_negative")]
        rate: f64,
    }

    #[test]
    fn a_report_of_any_form_is_bounded() {
        let process = NodeProcess { hostname: "a".to_owned(), pid: 4, ..NodeProcess::default() };
        let report = NodeReport { process, figures: Figures { busy: 3, rate: 0.5 } };
        let json = serde_json::to_vec(&report).unwrap();
        assert!(String::from_utf8_lossy(&json).starts_with(r#"{"hostname":"a","#), "flat");
        assert_eq!(NodeReport::parse(&json), Some(report));
        for json in
            [&b""[..], b"[]", b"{\"busy\":-1}", b"{\"hostname\":7}", b"\xff", b"{\"pid\":1e9}"]
        {
            let report = NodeReport::<Figures>::parse(json);
            assert_eq!(report, None, "{:?}", String::from_utf8_lossy(json));
        }
        let long = format!(r#"{{"hostname":"{}","rate":-5,"load":-1,"new":[1]}}"#, "é".repeat(999));
        let report = NodeReport::<Figures>::parse(long.as_bytes()).unwrap();
        assert_eq!(report.process.hostname.chars().count(), TEXT_CHARACTERS_MAX);
        assert!(report.figures.rate >= 0.0 && report.process.load >= 0.0);
    }

    #[test]
    fn only_a_web_address_becomes_a_link() {
        let console = |address: &str| {
            let json = serde_json::json!({ "console": address }).to_string();
            NodeReport::<Figures>::parse(json.as_bytes()).unwrap().process.console
        };
        for good in ["http://node-1:7420", "https://console.example.org/weir", "http://[::1]:80"] {
            assert_eq!(console(good), good);
        }
        let long = format!("https://{}", "a".repeat(999));
        for bad in ["javascript:alert(1)", "http://", "http://a b", "http://u@b", &long, "//a"] {
            assert_eq!(console(bad), "", "{bad}");
        }
    }

    #[test]
    fn a_node_is_up_while_it_reports() {
        let state = |age, stopped| NodeState {
            report: Some(NodeReport {
                process: NodeProcess { stopped, ..NodeProcess::default() },
                figures: Figures::default(),
            }),
            age: Duration::from_secs(age),
            ..NodeState::default()
        };
        assert_eq!(state(30, false).condition(), NodeCondition::Up);
        assert_eq!(state(40, false).condition(), NodeCondition::Away);
        assert_eq!(state(1, true).condition(), NodeCondition::Stopped);
        let ended = |process: NodeProcess| NodeState {
            report: Some(NodeReport { process: process.ended(), figures: Figures::default() }),
            ..NodeState::default()
        };
        let process = NodeProcess::this("0.1.0", Duration::ZERO, "");
        assert_eq!(ended(process.clone()).condition(), NodeCondition::Stopped);
        let of_another = NodeProcess { parent: process.parent + 1, ..process };
        assert_eq!(ended(of_another).condition(), NodeCondition::Away, "its parent has ended");
        let silent = NodeState::<Figures> { age: Duration::from_secs(999), ..NodeState::default() };
        assert_eq!(silent.condition(), NodeCondition::Up, "it has a lease");
    }

    #[test]
    fn a_directory_keeps_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("data/node_id");
        let name = node_name(&file).unwrap();
        assert!(is_node_name(&name), "{name}");
        assert_eq!(node_name(&file).unwrap(), name);
        fs::write(&file, "half").unwrap();
        assert_ne!(node_name(&file).unwrap(), "half");
        fs::write(&file, "0123456789ab\n").unwrap();
        assert_eq!(node_name(&file).unwrap(), "0123456789ab");
    }
}
