//! `[log]`, `[history]`, `[admin]`, `[supervisor]`: the process and what is around its parts.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_supervisor::RestartPolicy;
use weir_supervisor::workers::LINGERING_MAX;

use super::keys::{Key, Keys};
use weir_settings::{DAY, HOUR, MILLISECOND, SECOND};

/// What goes to standard error, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub level: LogLevel,
    pub format: LogFormat,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What is worth a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervisor {
    pub restart: RestartPolicy,
    /// Beyond `shutdown_deadline`, before SIGKILL.
    pub kill_after: Duration,
    /// How often the service tells the parent that it still answers.
    pub alive_interval: Duration,
    /// How long it may say nothing before it is replaced; zero: for ever.
    unresponsive_after: Duration,
    /// How long a new service process may take until it can take over.
    pub replace_deadline: Duration,
    /// Service processes that were replaced and keep streams.
    pub old_processes_max: usize,
    /// How long a service whose parent was killed is waited for.
    pub orphan_wait: Duration,
    /// Connections that wait in each listening socket.
    pub backlog: u16,
}

/// The admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    pub connections_max: usize,
    pub body_bytes_max: usize,
    pub head_timeout: Duration,
    pub request_timeout: Duration,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: LogLevel::Info, format: LogFormat::Text }
    }
}

impl Default for Supervisor {
    fn default() -> Self {
        Self {
            restart: RestartPolicy::default(),
            kill_after: Duration::from_secs(5),
            alive_interval: SECOND,
            // Far beyond the longest turn of a part, and below systemd's usual watchdog of a minute.
            unresponsive_after: Duration::from_secs(30),
            replace_deadline: weir_supervisor::supervise::REPLACE_DEADLINE,
            old_processes_max: 2,
            orphan_wait: Duration::from_secs(10),
            backlog: weir_net::BindOptions::default().backlog,
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            connections_max: 256,
            // One request carries at most one batch of an import (1,000 jobs or 8 MiB), or one
            // job of jobs.limits.line_bytes_max.
            body_bytes_max: 32 << 20,
            head_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(300),
        }
    }
}

impl LogLevel {
    /// The directive for the filter of the log.
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

impl Log {
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        let levels =
            [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];
        keys.choice_of(
            Key::live(
                "level",
                "What is logged: this and everything worse. The flag --log-level wins.",
            ),
            &levels.map(|level| (level.as_str(), level)),
            &mut self.level,
        );
        keys.choice_of(
            Key::fixed(
                "format",
                "How a line looks: for people, or one JSON object. The flag --log wins.",
            ),
            &[("text", LogFormat::Text), ("json", LogFormat::Json)],
            &mut self.format,
        );
    }
}

impl Supervisor {
    /// None: it may be silent for ever.
    pub fn unresponsive_after(&self) -> Option<Duration> {
        Some(self.unresponsive_after).filter(|after| !after.is_zero())
    }

    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        read_restarts(keys, &mut self.restart);
        keys.duration(
            Key::fixed(
                "kill_after",
                "A service process that still runs this long after shutdown_deadline is killed.",
            ),
            Duration::ZERO..=HOUR,
            &mut self.kill_after,
        );
        keys.duration(
            Key::fixed(
                "alive_interval",
                "How often the service process tells the parent that it still answers; systemd's watchdog is fed from that.",
            ),
            MILLISECOND..=HOUR,
            &mut self.alive_interval,
        );
        keys.duration(
            Key::fixed(
                "unresponsive_after",
                "A service process that serves and then says nothing for this long (a part of it hangs) is replaced: SIGABRT, and SIGKILL a quarter of this later. 0s: never, for work with a debugger.",
            ),
            Duration::ZERO..=DAY,
            &mut self.unresponsive_after,
        );
        keys.duration(
            Key::fixed(
                "replace_deadline",
                "A new service process that can't take over from the present one within this long is killed, and the present one stays.",
            ),
            MILLISECOND..=HOUR,
            &mut self.replace_deadline,
        );
        keys.number(
            Key::fixed(
                "old_processes_max",
                "Service processes that were replaced and keep the WebSockets and event streams of their clients (front.stream_drain). Of more than these the oldest closes its streams.",
            ),
            0..=LINGERING_MAX as u64,
            &mut self.old_processes_max,
        );
        keys.duration(
            Key::fixed(
                "orphan_wait",
                "When a parent was killed, the next one waits this long for its service process to let go of data_dir, and for ports that no process is seen to hold.",
            ),
            Duration::ZERO..=HOUR,
            &mut self.orphan_wait,
        );
        keys.number(
            Key::fixed("backlog", "Connections that wait in a listening socket to be accepted, also while the service process is replaced (the kernel cuts it to net.core.somaxconn)."),
            1..=u64::from(u16::MAX),
            &mut self.backlog,
        );
    }
}

fn read_restarts(keys: &mut Keys<'_>, policy: &mut RestartPolicy) {
    let RestartPolicy { backoff_min, backoff_max, restarts_max, healthy_after } = policy;
    keys.duration(
        Key::fixed("backoff_min", "The wait before a service process that died is started again; it doubles with every death in a row."),
        MILLISECOND..=HOUR,
        backoff_min,
    );
    keys.duration(
        Key::fixed("backoff_max", "That wait never grows beyond this."),
        MILLISECOND..=HOUR,
        backoff_max,
    );
    keys.number(
        Key::fixed(
            "restarts_max",
            "After so many deaths in a row Weir gives up and ends (crash loop).",
        ),
        0..=1_000_000,
        restarts_max,
    );
    keys.duration(
        Key::fixed(
            "healthy_after",
            "A service process that served this long is healthy: the count of deaths starts anew.",
        ),
        MILLISECOND..=DAY,
        healthy_after,
    );
}

impl Admin {
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        keys.number(
            Key::fixed(
                "connections_max",
                "Connections to the admin socket, and to the console's port, at once.",
            ),
            1..=100_000,
            &mut self.connections_max,
        );
        keys.size(
            Key::fixed("body_bytes_max", "Bytes of one request to the admin API."),
            1 << 10..=1 << 30,
            &mut self.body_bytes_max,
        );
        keys.duration(
            Key::fixed("head_timeout", "The head of a request must arrive within this long."),
            MILLISECOND..=HOUR,
            &mut self.head_timeout,
        );
        keys.duration(
            Key::fixed(
                "request_timeout",
                "A request to the admin API that isn't answered after this long is given up.",
            ),
            SECOND..=HOUR,
            &mut self.request_timeout,
        );
    }
}

pub(super) fn read_history(keys: &mut Keys<'_>, settings: &mut weir_base::history::Settings) {
    let weir_base::history::Settings { directory: _, seconds_kept, minutes_kept, memory_rows_max } =
        settings;
    keys.duration(
        Key::fixed("seconds_kept", "How long the charts know every second."),
        Duration::from_secs(60)..=DAY * 7,
        seconds_kept,
    );
    keys.duration(
        Key::fixed("minutes_kept", "How long the charts know every minute."),
        HOUR..=DAY * 400,
        minutes_kept,
    );
    keys.number(
        Key::fixed("memory_rows_max", "Rows that are kept in memory while the disk takes none."),
        1..=1_000_000,
        memory_rows_max,
    );
}
