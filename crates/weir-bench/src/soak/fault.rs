//! What is done to the system under load.

use clap::ValueEnum;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// SIGKILL of a worker process of jobs; another one replaces it.
    WorkerKill,
    /// SIGKILL of a worker of the app behind the front.
    AppKill,
    /// SIGKILL of a service process; its parent starts another one.
    ServiceKill,
    /// SIGKILL of parent and service; Weir is started again after two seconds, as by systemd.
    WeirKill,
    /// SIGTERM, and a start after Weir has ended.
    WeirStop,
    /// `weir restart`.
    WeirRestart,
    /// `weir upgrade`, to the same program.
    WeirUpgrade,
    /// SIGSTOP of a service process, and SIGCONT.
    WeirPause,
    /// SIGSTOP of Redis, and SIGCONT.
    RedisPause,
    /// SIGKILL of Redis, and a start with the same append-only file.
    RedisKill,
    /// Postgres is stopped (immediate mode), and started again.
    PostgresStop,
    /// The file system of the data directory is filled up.
    DiskFull,
    /// The clock of a node is ahead, and then correct again.
    ClockStep,
    /// Many clients subscribe to all channels and read nothing.
    SlowClients,
    /// A node can reach neither Redis nor clients.
    Partition,
}

impl Fault {
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::WorkerKill => "SIGKILL of a worker process of jobs",
            Self::AppKill => "SIGKILL of a worker of the app",
            Self::ServiceKill => "SIGKILL of a service process",
            Self::WeirKill => "SIGKILL of parent and service, a start after 2 s",
            Self::WeirStop => "SIGTERM, and a start",
            Self::WeirRestart => "`weir restart`",
            Self::WeirUpgrade => "`weir upgrade`",
            Self::WeirPause => "SIGSTOP of a service process",
            Self::RedisPause => "SIGSTOP of Redis",
            Self::RedisKill => "SIGKILL of Redis, a start after 2 s",
            Self::PostgresStop => "Postgres stopped (immediate)",
            Self::DiskFull => "file system of the data directory full",
            Self::ClockStep => "clock of a node 90 s ahead",
            Self::SlowClients => "clients that do not read",
            Self::Partition => "node without network",
        }
    }
}
