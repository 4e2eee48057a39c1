//! The limits that can be met, each with the name of its setting.

/// A limit of [`crate::settings::Limits`] that somebody ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is documented at the setting of the same name")]
pub enum Limit {
    ConnectionsMax,
    /// Not a setting of Weir: the system's limit of open files.
    OpenFiles,
    LineBytesMax,
    BufferedBytesMax,
    RefusalsMax,
    HelloBytesMax,
    WrongPasswordsMax,
    PasswordChecksMax,
    WorkersMax,
    PushbJobsMax,
    WaitingFetchesMax,
    FetchQueuesMax,
    QueuesMax,
    QueueNameBytesMax,
    IdBytesMax,
    JsonDepthMax,
    DeadJobsMax,
    HelloTimeout,
    LineTimeout,
    WriteTimeout,
    HeartbeatTimeout,
    ReturnsMax,
    ReserveBytes,
    SetAsideBytesMax,
    MemoryBytesMax,
    AdminRequestsMax,
}

impl Limit {
    /// All, in the order of their discriminants.
    pub const ALL: [Self; 26] = [
        Self::ConnectionsMax,
        Self::OpenFiles,
        Self::LineBytesMax,
        Self::BufferedBytesMax,
        Self::RefusalsMax,
        Self::HelloBytesMax,
        Self::WrongPasswordsMax,
        Self::PasswordChecksMax,
        Self::WorkersMax,
        Self::PushbJobsMax,
        Self::WaitingFetchesMax,
        Self::FetchQueuesMax,
        Self::QueuesMax,
        Self::QueueNameBytesMax,
        Self::IdBytesMax,
        Self::JsonDepthMax,
        Self::DeadJobsMax,
        Self::HelloTimeout,
        Self::LineTimeout,
        Self::WriteTimeout,
        Self::HeartbeatTimeout,
        Self::ReturnsMax,
        Self::ReserveBytes,
        Self::SetAsideBytesMax,
        Self::MemoryBytesMax,
        Self::AdminRequestsMax,
    ];

    /// The limit whose setting has this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// The setting's name under `[jobs.limits]`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectionsMax => "connections_max",
            Self::OpenFiles => "open_files",
            Self::LineBytesMax => "line_bytes_max",
            Self::BufferedBytesMax => "buffered_bytes_max",
            Self::RefusalsMax => "refusals_max",
            Self::HelloBytesMax => "hello_bytes_max",
            Self::WrongPasswordsMax => "wrong_passwords_max",
            Self::PasswordChecksMax => "password_checks_max",
            Self::WorkersMax => "workers_max",
            Self::PushbJobsMax => "pushb_jobs_max",
            Self::WaitingFetchesMax => "waiting_fetches_max",
            Self::FetchQueuesMax => "fetch_queues_max",
            Self::QueuesMax => "queues_max",
            Self::QueueNameBytesMax => "queue_name_bytes_max",
            Self::IdBytesMax => "id_bytes_max",
            Self::JsonDepthMax => "json_depth_max",
            Self::DeadJobsMax => "dead_jobs_max",
            Self::HelloTimeout => "hello_timeout",
            Self::LineTimeout => "line_timeout",
            Self::WriteTimeout => "write_timeout",
            Self::HeartbeatTimeout => "heartbeat_timeout",
            Self::ReturnsMax => "returns_max",
            Self::ReserveBytes => "reserve_bytes",
            Self::SetAsideBytesMax => "set_aside_bytes_max",
            Self::MemoryBytesMax => "memory_bytes_max",
            Self::AdminRequestsMax => "admin_requests_max",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_the_order_of_the_discriminants() {
        for (index, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, index, "{}", limit.name());
        }
    }
}
