//! The settings of `[[front.apps]]` for an app whose workers accept connections themselves.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_front::AppLimits;
use weir_supervisor::selection::{Plan, Selection};
use weir_supervisor::workers::PROCESSES_MAX;

use super::processes::Processes;
use weir_settings::{Choice, SECOND, Section, TableReader, WAIT};

/// How requests get to an app's workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Choice)]
enum Mode {
    #[default]
    Proxy,
    Sockets,
}

/// The keys of this mode only.
const SOCKET_KEYS: [&str; 6] =
    ["listen", "selection", "queues", "queues_per_worker", "backlog", "claim_timeout"];

/// The keys of an app that the proxy serves, besides those of its limits.
const PROXY_KEYS: [&str; 10] = [
    "hosts",
    "paths",
    "upstreams",
    "maintenance_page",
    "priorities",
    "shed",
    "forwarded_headers",
    "gzip",
    "gzip_min",
    "gzip_level",
];

/// What the workers of an app listen on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSockets {
    pub listen: SocketAddr,
    pub selection: Selection,
    pub queues: u32,
    pub queues_per_worker: u32,
    pub backlog: u16,
    pub claim_timeout: Duration,
}

/// The table in the file.
#[derive(Debug, Section)]
#[section(stop, path = "front.apps")]
struct SocketsTable {
    /// How requests get to the workers: "proxy", through Weir, each to a worker that has room; or
    /// "sockets", directly: they share listening sockets of their own (docs/front-sockets.md).
    #[setting(choice)]
    mode: Mode,
    /// Where the workers accept connections. Required in mode = "sockets".
    listen: Option<SocketAddr>,
    /// Which socket a connection gets to: "kernel" (a hash), "random", "round-robin", or "join-idle":
    /// each worker has a socket of its own and gets a connection only while it reports that it is
    /// idle; if none is, all share one more. The last two take Linux 5.12 and privileges, without which
    /// all workers share one socket.
    #[setting(choice, default = Selection::Kernel)]
    selection: Selection,
    /// Listening sockets. With one, no connection waits behind a busy worker; with several, counts are
    /// more even, but a connection waits for the workers of its socket alone.
    #[setting(range = 1..=u64::from(PROCESSES_MAX), default = 1)]
    queues: u32,
    /// How many of the queues a worker listens on, starting with the one of its own number.
    #[setting(range = 1..=u64::from(PROCESSES_MAX), default = 1)]
    queues_per_worker: u32,
    /// Connections that wait to be accepted, over all queues; the kernel cuts each queue's share to
    /// net.core.somaxconn.
    #[setting(advanced, range = 1..=u64::from(u16::MAX), default = 1_024)]
    backlog: u16,
    /// A worker that was chosen for a connection but has not begun a request for this long
    /// counts as idle, unless a connection is waiting for it.
    #[setting(advanced, restart, range = WAIT, default = SECOND)]
    claim_timeout: Duration,
}

impl SharedSockets {
    /// Reads the table. None: requests reach the workers through the proxy.
    pub(super) fn read(table: &mut TableReader<'_>, processes: Option<&Processes>) -> Option<Self> {
        let mut settings = SocketsTable::default();
        settings.read(table);
        if !table.is_set("listen") && settings.mode == Mode::Sockets {
            table.require("listen");
        }
        let sockets = Self {
            listen: settings.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0))),
            selection: settings.selection,
            queues: settings.queues,
            queues_per_worker: settings.queues_per_worker,
            backlog: settings.backlog,
            claim_timeout: settings.claim_timeout,
        };
        sockets.check(table, settings.mode, processes);
        (settings.mode == Mode::Sockets).then_some(sockets)
    }

    fn check(&self, table: &mut TableReader<'_>, mode: Mode, processes: Option<&Processes>) {
        if mode == Mode::Proxy {
            for name in
                SOCKET_KEYS.into_iter().filter(|name| table.is_set(name)).collect::<Vec<_>>()
            {
                table.error_at(name, "only with mode = \"sockets\"");
            }
            return;
        }
        for &name in PROXY_KEYS
            .iter()
            .chain(AppLimits::KEYS)
            .filter(|name| table.is_set(name))
            .collect::<Vec<_>>()
        {
            table.error_at(name, "only with mode = \"proxy\"");
        }
        let Some(processes) = processes else {
            table.error_at("mode", "\"sockets\" needs a command: Weir starts the workers");
            return;
        };
        self.check_queues(table, processes);
    }

    fn check_queues(&self, table: &mut TableReader<'_>, processes: &Processes) {
        if self.selection == Selection::JoinIdle {
            for name in ["queues", "queues_per_worker"] {
                if table.is_set(name) {
                    table.error_at(name, "with join-idle each worker has a queue of its own");
                }
            }
            return;
        }
        if self.queues_per_worker > self.queues {
            table.error_at("queues_per_worker", "there are fewer queues");
        } else if self.queues == 1 && self.selection != Selection::Kernel {
            let name = self.selection.name();
            table.error_at("selection", &format!("{name} needs more than one of queues"));
        } else if self.plan(processes).workers_min() > processes.launch.count as usize {
            let min = self.plan(processes).workers_min();
            table.error_at(
                "queues",
                &format!("some of them would have no listener; that requires {min} workers, or a larger queues_per_worker"),
            );
        }
    }

    /// Returns the settings that the parent uses, with the service's reset.
    pub fn parent_settings(&self) -> Self {
        Self { claim_timeout: Duration::ZERO, ..self.clone() }
    }

    /// Returns the names of the settings that differ between two results of [`SharedSockets::parent_settings`].
    pub fn changed_settings(&self, other: &Self) -> Vec<&'static str> {
        let differs = [
            ("listen", self.listen != other.listen),
            ("selection", self.selection != other.selection),
            ("queues", self.queues != other.queues),
            ("queues_per_worker", self.queues_per_worker != other.queues_per_worker),
            ("backlog", self.backlog != other.backlog),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    /// Returns the plan of the configured sockets.
    pub fn plan(&self, processes: &Processes) -> Plan {
        let (queues, per_worker) = (self.queues as usize, self.queues_per_worker as usize);
        Plan::new(self.selection, processes.launch.count as usize, queues, per_worker)
    }
}
