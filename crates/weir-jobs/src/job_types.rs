//! Statistics of each type of job (`jobtype`), of what workers did through this process since its start: how many
//! jobs started, ended and failed, how long they waited and ran, and with which errors they failed.
//!
//! Memory is bounded: at most `limits.job_types_max` types have figures of their own, and of each at most
//! `limits.job_type_groups_max` classes of errors and as many queues. What exceeds that shares an entry
//! ([`OTHER_TYPES`]) and is counted as a hit of the limit.
//!
//! Only the thread that owns the store records, once when a job starts and once when it ends. Readers take the same
//! lock for one type at a time, for a few microseconds.

mod figures;
mod groups;
mod histogram;
mod read;
mod returned;
mod slices;
mod statistics;
mod table;

pub use self::read::TypeTotals;
pub(crate) use self::slices::WINDOW;
pub use self::slices::WINDOW_MINUTES_MAX;
pub use self::statistics::{JobTypes, StartedJob, TypeRun};
pub use self::table::OTHER_TYPES;
pub(crate) use self::table::{TypeLimitHits, TypeLimits};

#[cfg(test)]
mod tests;
