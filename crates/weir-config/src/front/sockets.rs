//! The keys of `[[front.apps]]` for an app whose workers take connections themselves.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_supervisor::selection::{Plan, Selection};
use weir_supervisor::workers::PROCESSES_MAX;

use super::super::keys::{Key, Keys, WAIT};
use super::processes::Processes;

/// How requests get to an app's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Proxy,
    Sockets,
}

const MODES: [(&str, Mode); 2] = [("proxy", Mode::Proxy), ("sockets", Mode::Sockets)];

const SELECTIONS: [Selection; 4] =
    [Selection::Kernel, Selection::Random, Selection::RoundRobin, Selection::JoinIdle];

/// The keys that mean something in this mode alone.
const OWN_KEYS: [&str; 6] =
    ["listen", "selection", "queues", "queues_per_worker", "backlog", "claim_timeout"];

/// The keys of an app that the proxy serves.
const PROXY_KEYS: [&str; 31] = [
    "hosts",
    "paths",
    "upstreams",
    "concurrency",
    "streams",
    "queue_max",
    "attempts_max",
    "repeat_within",
    "keep_alive_max",
    "request_bytes_max",
    "queue_timeout",
    "overload_after",
    "overload_delay",
    "overload_wait",
    "service_timeout",
    "body_timeout",
    "connect_timeout",
    "retry_worker_after",
    "stream_idle_timeout",
    "maintenance_page",
    "priorities",
    "shed",
    "request_buffer",
    "answer_buffer",
    "buffers_max",
    "answer_head_bytes_max",
    "answer_headers_max",
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

impl SharedSockets {
    /// None: requests get to the workers through the proxy.
    pub(super) fn read(keys: &mut Keys<'_>, processes: Option<&Processes>) -> Option<Self> {
        let mut mode = Mode::Proxy;
        keys.choice_of(
            Key::fixed("mode", "How requests get to the workers: \"proxy\", through Weir, each to a worker that has room; or \"sockets\", directly: they share listening sockets of their own (docs/front-sockets.md)."),
            &MODES,
            &mut mode,
        );
        let mut listen = None;
        keys.optional_address(
            Key::fixed(
                "listen",
                "Where the workers take connections. Required in mode = \"sockets\".",
            ),
            &mut listen,
        );
        let mut own = Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            selection: Selection::Kernel,
            queues: 1,
            queues_per_worker: 1,
            backlog: 1_024,
            claim_timeout: Duration::from_secs(1),
        };
        own.read_choice(keys);
        if keys.is_set("listen") || mode == Mode::Proxy {
            own.listen = listen.unwrap_or(own.listen);
        } else {
            keys.require("listen");
        }
        own.check(keys, mode, processes);
        (mode == Mode::Sockets).then_some(own)
    }

    fn read_choice(&mut self, keys: &mut Keys<'_>) {
        keys.choice_of(
            Key::fixed("selection", "Which socket a connection gets to: \"kernel\" (a hash), \"random\", \"round-robin\", or \"join-idle\": each worker has a socket of its own and gets a connection only while it says that it is idle; if none is, all share one more. The last two take Linux 5.12 and privileges, without which all workers share one socket."),
            &SELECTIONS.map(|selection| (selection.name(), selection)),
            &mut self.selection,
        );
        keys.number(
            Key::fixed("queues", "Listening sockets. With one, nobody waits behind a busy worker; with several, counts are more even, but a connection waits for the workers of its socket alone."),
            1..=u64::from(PROCESSES_MAX),
            &mut self.queues,
        );
        keys.number(
            Key::fixed(
                "queues_per_worker",
                "How many of the queues a worker listens on, from the one of its own number on.",
            ),
            1..=u64::from(PROCESSES_MAX),
            &mut self.queues_per_worker,
        );
        keys.number(
            Key::fixed("backlog", "Connections that wait to be accepted, over all queues; the kernel cuts each queue's share to net.core.somaxconn."),
            1..=u64::from(u16::MAX),
            &mut self.backlog,
        );
        keys.duration(
            Key::fixed("claim_timeout", "A worker that was chosen for a connection and has not begun a request for this long counts as idle again, if nothing waits for it."),
            WAIT,
            &mut self.claim_timeout,
        );
    }

    fn check(&self, keys: &mut Keys<'_>, mode: Mode, processes: Option<&Processes>) {
        if mode == Mode::Proxy {
            for name in OWN_KEYS.into_iter().filter(|name| keys.is_set(name)).collect::<Vec<_>>() {
                keys.error_at(name, "only with mode = \"sockets\"");
            }
            return;
        }
        for name in PROXY_KEYS.into_iter().filter(|name| keys.is_set(name)).collect::<Vec<_>>() {
            keys.error_at(name, "only with mode = \"proxy\"");
        }
        let Some(processes) = processes else {
            keys.error_at("mode", "\"sockets\" needs a command: Weir starts the workers");
            return;
        };
        self.check_queues(keys, processes);
    }

    fn check_queues(&self, keys: &mut Keys<'_>, processes: &Processes) {
        if self.selection == Selection::JoinIdle {
            for name in ["queues", "queues_per_worker"] {
                if keys.is_set(name) {
                    keys.error_at(name, "with join-idle each worker has a queue of its own");
                }
            }
            return;
        }
        if self.queues_per_worker > self.queues {
            keys.error_at("queues_per_worker", "there are fewer queues");
        } else if self.queues == 1 && self.selection != Selection::Kernel {
            let name = self.selection.name();
            keys.error_at("selection", &format!("{name} needs more than one of queues"));
        } else if self.plan(processes).workers_min() > processes.launch.count as usize {
            let min = self.plan(processes).workers_min();
            keys.error_at(
                "queues",
                &format!("nobody would listen on some of them; that takes {min} workers, or a larger queues_per_worker"),
            );
        }
    }

    /// What the parent makes use of; the rest is the service's.
    pub fn for_parent(&self) -> Self {
        Self { claim_timeout: Duration::ZERO, ..self.clone() }
    }

    /// The settings in which they differ, of two [for the parent](SharedSockets::for_parent).
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let differs = [
            ("listen", self.listen != other.listen),
            ("selection", self.selection != other.selection),
            ("queues", self.queues != other.queues),
            ("queues_per_worker", self.queues_per_worker != other.queues_per_worker),
            ("backlog", self.backlog != other.backlog),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    /// The sockets that are asked for.
    pub fn plan(&self, processes: &Processes) -> Plan {
        let (queues, per_worker) = (self.queues as usize, self.queues_per_worker as usize);
        Plan::new(self.selection, processes.launch.count as usize, queues, per_worker)
    }
}
