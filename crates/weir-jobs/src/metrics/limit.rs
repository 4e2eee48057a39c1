//! The limits that can be met, each with the name of its setting.

use crate::settings::Limits;

/// A limit of [`Limits`] that somebody ran into.
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
            Self::ConnectionsMax => Limits::CONNECTIONS_MAX.name,
            Self::OpenFiles => "open_files",
            Self::LineBytesMax => Limits::LINE_BYTES_MAX.name,
            Self::BufferedBytesMax => Limits::BUFFERED_BYTES_MAX.name,
            Self::RefusalsMax => Limits::REFUSALS_MAX.name,
            Self::HelloBytesMax => Limits::HELLO_BYTES_MAX.name,
            Self::WrongPasswordsMax => Limits::WRONG_PASSWORDS_MAX.name,
            Self::PasswordChecksMax => Limits::PASSWORD_CHECKS_MAX.name,
            Self::WorkersMax => Limits::WORKERS_MAX.name,
            Self::PushbJobsMax => Limits::PUSHB_JOBS_MAX.name,
            Self::WaitingFetchesMax => Limits::WAITING_FETCHES_MAX.name,
            Self::FetchQueuesMax => Limits::FETCH_QUEUES_MAX.name,
            Self::QueuesMax => Limits::QUEUES_MAX.name,
            Self::QueueNameBytesMax => Limits::QUEUE_NAME_BYTES_MAX.name,
            Self::IdBytesMax => Limits::ID_BYTES_MAX.name,
            Self::JsonDepthMax => Limits::JSON_DEPTH_MAX.name,
            Self::DeadJobsMax => Limits::DEAD_JOBS_MAX.name,
            Self::HelloTimeout => Limits::HELLO_TIMEOUT.name,
            Self::LineTimeout => Limits::LINE_TIMEOUT.name,
            Self::WriteTimeout => Limits::WRITE_TIMEOUT.name,
            Self::HeartbeatTimeout => Limits::HEARTBEAT_TIMEOUT.name,
            Self::ReturnsMax => Limits::RETURNS_MAX.name,
            Self::ReserveBytes => Limits::RESERVE_BYTES.name,
            Self::SetAsideBytesMax => Limits::SET_ASIDE_BYTES_MAX.name,
            Self::MemoryBytesMax => Limits::MEMORY_BYTES_MAX.name,
            Self::AdminRequestsMax => Limits::ADMIN_REQUESTS_MAX.name,
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
