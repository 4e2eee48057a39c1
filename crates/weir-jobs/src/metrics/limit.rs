//! The limits that can be reached, each with the name of its setting.

use std::fmt;

use weir_settings::Setting;

use crate::settings::JobServerLimits;

/// A limit of [`JobServerLimits`] that was reached.
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
    DiskMax,
    SetAsideBytesMax,
    MemoryBytesMax,
    AdminRequestsMax,
    MetricsClassesMax,
    UnconfirmedJobsMax,
    PushMemoryJobsMax,
    StoreCommandsMax,
    UniqueLocksMax,
    TenantsMax,
    TracksMax,
    BatchesMax,
    BatchDefinitionBytesMax,
    BatchMemoryBytesMax,
    JobTypesMax,
    JobTypeGroupsMax,
    TasksMax,
    EndedTasksMax,
}

impl JobServerLimit {
    /// All limits, in the order of their discriminants.
    pub const ALL: &[Self] = &[
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
        Self::DiskMax,
        Self::SetAsideBytesMax,
        Self::MemoryBytesMax,
        Self::AdminRequestsMax,
        Self::MetricsClassesMax,
        Self::UnconfirmedJobsMax,
        Self::PushMemoryJobsMax,
        Self::StoreCommandsMax,
        Self::UniqueLocksMax,
        Self::TenantsMax,
        Self::TracksMax,
        Self::BatchesMax,
        Self::BatchDefinitionBytesMax,
        Self::BatchMemoryBytesMax,
        Self::JobTypesMax,
        Self::JobTypeGroupsMax,
        Self::TasksMax,
        Self::EndedTasksMax,
    ];

    /// Returns the limit whose setting has this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|limit| limit.name() == name)
    }

    /// Returns the last part of the setting's name, which is the label of the metric.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.setting() {
            Some(setting) => setting.name,
            None => "open_files",
        }
    }

    /// Returns the setting, or `None` for the system's limit of open files.
    #[must_use]
    pub const fn setting(self) -> Option<Setting> {
        Some(match self {
            Self::OpenFiles => return None,
            Self::ConnectionsMax => JobServerLimits::CONNECTIONS_MAX,
            Self::LineBytesMax => JobServerLimits::LINE_BYTES_MAX,
            Self::BufferedBytesMax => JobServerLimits::BUFFERED_BYTES_MAX,
            Self::RefusalsMax => JobServerLimits::REFUSALS_MAX,
            Self::HelloBytesMax => JobServerLimits::HELLO_BYTES_MAX,
            Self::WrongPasswordsMax => JobServerLimits::WRONG_PASSWORDS_MAX,
            Self::PasswordChecksMax => JobServerLimits::PASSWORD_CHECKS_MAX,
            Self::WorkersMax => JobServerLimits::WORKERS_MAX,
            Self::PushbJobsMax => JobServerLimits::PUSHB_JOBS_MAX,
            Self::BatchJobsMax => JobServerLimits::BATCH_JOBS_MAX,
            Self::BatchBytesMax => JobServerLimits::BATCH_BYTES_MAX,
            Self::WaitingFetchesMax => JobServerLimits::WAITING_FETCHES_MAX,
            Self::FetchQueuesMax => JobServerLimits::FETCH_QUEUES_MAX,
            Self::QueuesMax => JobServerLimits::QUEUES_MAX,
            Self::QueueNameBytesMax => JobServerLimits::QUEUE_NAME_BYTES_MAX,
            Self::IdBytesMax => JobServerLimits::ID_BYTES_MAX,
            Self::JsonDepthMax => JobServerLimits::JSON_DEPTH_MAX,
            Self::DeadJobsMax => JobServerLimits::DEAD_JOBS_MAX,
            Self::HelloTimeout => JobServerLimits::HELLO_TIMEOUT,
            Self::LineTimeout => JobServerLimits::LINE_TIMEOUT,
            Self::WriteTimeout => JobServerLimits::WRITE_TIMEOUT,
            Self::HeartbeatTimeout => JobServerLimits::HEARTBEAT_TIMEOUT,
            Self::ReturnsMax => JobServerLimits::RETURNS_MAX,
            Self::ReserveBytes => JobServerLimits::RESERVE_BYTES,
            Self::DiskMax => JobServerLimits::DISK_MAX,
            Self::SetAsideBytesMax => JobServerLimits::SET_ASIDE_BYTES_MAX,
            Self::MemoryBytesMax => JobServerLimits::MEMORY_BYTES_MAX,
            Self::AdminRequestsMax => JobServerLimits::ADMIN_REQUESTS_MAX,
            Self::MetricsClassesMax => JobServerLimits::METRICS_CLASSES_MAX,
            Self::UnconfirmedJobsMax => JobServerLimits::UNCONFIRMED_JOBS_MAX,
            Self::PushMemoryJobsMax => JobServerLimits::PUSH_MEMORY_JOBS_MAX,
            Self::StoreCommandsMax => JobServerLimits::STORE_COMMANDS_MAX,
            Self::UniqueLocksMax => JobServerLimits::UNIQUE_LOCKS_MAX,
            Self::TenantsMax => JobServerLimits::TENANTS_MAX,
            Self::TracksMax => JobServerLimits::TRACKS_MAX,
            Self::BatchesMax => JobServerLimits::BATCHES_MAX,
            Self::BatchDefinitionBytesMax => JobServerLimits::BATCH_DEFINITION_BYTES_MAX,
            Self::BatchMemoryBytesMax => JobServerLimits::BATCH_MEMORY_BYTES_MAX,
            Self::JobTypesMax => JobServerLimits::JOB_TYPES_MAX,
            Self::JobTypeGroupsMax => JobServerLimits::JOB_TYPE_GROUPS_MAX,
            Self::TasksMax => JobServerLimits::TASKS_MAX,
            Self::EndedTasksMax => JobServerLimits::ENDED_TASKS_MAX,
        })
    }
}

/// Writes the full name of the setting.
impl fmt::Display for JobServerLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.setting() {
            Some(setting) => setting.fmt(formatter),
            None => formatter.write_str(self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_ordered_by_discriminant() {
        for (index, limit) in JobServerLimit::ALL.iter().enumerate() {
            assert_eq!(*limit as usize, index, "{}", limit.name());
        }
    }
}
