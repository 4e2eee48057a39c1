//! The limits that can be met, each with the name of its setting.

use crate::settings::JobServerLimits;

/// A limit of [`JobServerLimits`] that somebody ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is documented at the setting of the same name")]
pub enum JobServerLimit {
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
    BatchJobsMax,
    BatchBytesMax,
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

impl JobServerLimit {
    /// All, in the order of their discriminants.
    pub const ALL: [Self; 28] = [
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
        Self::BatchJobsMax,
        Self::BatchBytesMax,
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
            Self::ConnectionsMax => JobServerLimits::CONNECTIONS_MAX.name,
            Self::OpenFiles => "open_files",
            Self::LineBytesMax => JobServerLimits::LINE_BYTES_MAX.name,
            Self::BufferedBytesMax => JobServerLimits::BUFFERED_BYTES_MAX.name,
            Self::RefusalsMax => JobServerLimits::REFUSALS_MAX.name,
            Self::HelloBytesMax => JobServerLimits::HELLO_BYTES_MAX.name,
            Self::WrongPasswordsMax => JobServerLimits::WRONG_PASSWORDS_MAX.name,
            Self::PasswordChecksMax => JobServerLimits::PASSWORD_CHECKS_MAX.name,
            Self::WorkersMax => JobServerLimits::WORKERS_MAX.name,
            Self::PushbJobsMax => JobServerLimits::PUSHB_JOBS_MAX.name,
            Self::BatchJobsMax => JobServerLimits::BATCH_JOBS_MAX.name,
            Self::BatchBytesMax => JobServerLimits::BATCH_BYTES_MAX.name,
            Self::WaitingFetchesMax => JobServerLimits::WAITING_FETCHES_MAX.name,
            Self::FetchQueuesMax => JobServerLimits::FETCH_QUEUES_MAX.name,
            Self::QueuesMax => JobServerLimits::QUEUES_MAX.name,
            Self::QueueNameBytesMax => JobServerLimits::QUEUE_NAME_BYTES_MAX.name,
            Self::IdBytesMax => JobServerLimits::ID_BYTES_MAX.name,
            Self::JsonDepthMax => JobServerLimits::JSON_DEPTH_MAX.name,
            Self::DeadJobsMax => JobServerLimits::DEAD_JOBS_MAX.name,
            Self::HelloTimeout => JobServerLimits::HELLO_TIMEOUT.name,
            Self::LineTimeout => JobServerLimits::LINE_TIMEOUT.name,
            Self::WriteTimeout => JobServerLimits::WRITE_TIMEOUT.name,
            Self::HeartbeatTimeout => JobServerLimits::HEARTBEAT_TIMEOUT.name,
            Self::ReturnsMax => JobServerLimits::RETURNS_MAX.name,
            Self::ReserveBytes => JobServerLimits::RESERVE_BYTES.name,
            Self::SetAsideBytesMax => JobServerLimits::SET_ASIDE_BYTES_MAX.name,
            Self::MemoryBytesMax => JobServerLimits::MEMORY_BYTES_MAX.name,
            Self::AdminRequestsMax => JobServerLimits::ADMIN_REQUESTS_MAX.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_the_order_of_the_discriminants() {
        for (index, limit) in JobServerLimit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, index, "{}", limit.name());
        }
    }
}
