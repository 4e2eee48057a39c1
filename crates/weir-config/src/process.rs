//! `[log]`, `[history]`, `[admin]`, `[supervisor]`: the process and what is around its parts.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_supervisor::RestartPolicy;
use weir_supervisor::workers::LINGERING_MAX;

use weir_settings::{Choice, DAY, HOUR, MILLISECOND, SECOND, Section};

/// What goes to standard error, and how.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "log")]
pub struct Log {
    /// Lowest level that is logged. The flag --log-level overrides it.
    #[setting(choice, default = LogLevel::Info)]
    pub level: LogLevel,
    /// Format of a line: text, or one JSON object. The flag --log overrides it.
    #[setting(choice, restart, default = LogFormat::Text)]
    pub format: LogFormat,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, Choice)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What is worth a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, Choice)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The parent.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(upgrade, path = "supervisor")]
pub struct Supervisor {
    #[setting(flatten)]
    pub restart: RestartPolicy,
    /// A service process that still runs this long after shutdown_deadline is killed.
    #[setting(range = Duration::ZERO..=HOUR, default = Duration::from_secs(5))]
    pub kill_after: Duration,
    /// How often the service process sends a heartbeat to the parent, which feeds systemd's
    /// watchdog.
    #[setting(advanced, range = MILLISECOND..=HOUR, default = SECOND)]
    pub alive_interval: Duration,
    /// A service process that sends no heartbeat for this long, because some part of it hangs,
    /// is replaced: SIGABRT, then SIGKILL after another quarter of this time. 0s: never, for
    /// debugging.
    // Far beyond the longest turn of a part, and below systemd's usual watchdog of a minute.
    #[setting(range = Duration::ZERO..=DAY, default = Duration::from_secs(30))]
    unresponsive_after: Duration,
    /// A new service process that has not taken over from the present one within this time is
    /// killed, and the present one continues.
    #[setting(range = MILLISECOND..=HOUR, default = weir_supervisor::supervise::REPLACE_DEADLINE)]
    pub replace_deadline: Duration,
    /// Replaced service processes that may keep the WebSockets and event streams of their
    /// clients (front.stream_drain). Beyond this number, the oldest closes its streams.
    #[setting(range = 0..=LINGERING_MAX as u64, default = 2)]
    pub old_processes_max: usize,
    /// After a parent was killed, the next one waits this long for the remaining service process
    /// to release data_dir and the ports.
    #[setting(advanced, range = Duration::ZERO..=HOUR, default = Duration::from_secs(10))]
    pub orphan_wait: Duration,
    /// Connections that may wait in a listening socket, also while the service process is
    /// replaced (the kernel limits it to net.core.somaxconn).
    #[setting(stop, range = 1..=u64::from(u16::MAX), default = weir_net::BindOptions::default().backlog)]
    pub backlog: u16,
}

/// The admin API.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "admin")]
pub struct Admin {
    /// Connections to the admin socket, and to the console's port, at once.
    #[setting(advanced, range = 1..=100_000, default = 256)]
    pub connections_max: usize,
    /// Bytes of one request to the admin API.
    // One request carries at most one batch of an import (1,000 jobs or 8 MiB), or one
    // job of jobs.limits.line_bytes_max.
    #[setting(advanced, size, range = 1 << 10..=1 << 30, default = 32 << 20)]
    pub body_bytes_max: usize,
    /// Bytes of the audit log in `data_dir/audit`. Beyond half of them, its file replaces the earlier one.
    #[setting(size, range = 64 << 10..=256 << 20, default = 16 << 20)]
    pub audit_bytes_max: u64,
    /// The head of a request must arrive within this long.
    #[setting(advanced, range = MILLISECOND..=HOUR, default = Duration::from_secs(10))]
    pub head_timeout: Duration,
    /// A request to the admin API without a response after this long is aborted.
    #[setting(advanced, range = SECOND..=HOUR, default = Duration::from_secs(300))]
    pub request_timeout: Duration,
}

/// The memory of the charts.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "history")]
pub struct History {
    /// How long the charts keep a point for every second.
    #[setting(range = Duration::from_secs(60)..=DAY.saturating_mul(7), default = HOUR.saturating_mul(6))]
    pub seconds_kept: Duration,
    /// How long the charts keep a point for every minute.
    #[setting(range = HOUR..=DAY.saturating_mul(400), default = DAY.saturating_mul(30))]
    pub minutes_kept: Duration,
    /// Rows that are kept in memory while the disk cannot be written.
    #[setting(advanced, range = 1..=1_000_000, default = 900)]
    pub memory_rows_max: usize,
}

impl History {
    /// Returns the history's settings for ring files in `directory`.
    pub fn within(&self, directory: PathBuf) -> weir_base::history::HistorySettings {
        let Self { seconds_kept, minutes_kept, memory_rows_max } = *self;
        weir_base::history::HistorySettings {
            directory,
            seconds_kept,
            minutes_kept,
            memory_rows_max,
        }
    }
}

impl LogLevel {
    /// Returns the directive for the log filter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl Supervisor {
    /// Returns after which time a silent service is replaced. None: never.
    pub fn unresponsive_after(&self) -> Option<Duration> {
        Some(self.unresponsive_after).filter(|after| !after.is_zero())
    }
}
