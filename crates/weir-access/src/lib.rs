//! Who may do what, and the record of it.
//!
//! - [`role`]: viewer, operator, admin.
//! - [`rules`]: every request that changes something, with the role that it needs and what the audit log
//!   records of it. The console, the admin API and their tests use this table and no other.
//! - [`caller`]: who sent a request.
//! - [`change`]: a request as the table sees it; [`request_body`]: its fields.
//! - [`password`]: Argon2id hashes of passwords.
//! - [`audit`]: the audit log, in the files of [`weir_base::line_log`]; [`metrics`]: its metrics.
//!
//! The crate must not know the console, the admin API, `weir.toml` or any domain: of a request it reads the path and the
//! fields that the table names.

pub mod audit;
pub mod caller;
pub mod change;
pub mod metrics;
pub mod password;
pub mod request_body;
pub mod role;
pub mod rules;

pub use self::audit::{
    AuditEntry, AuditLog, AuditPage, AuditQuery, ChangeOutcome, NotAChange, PendingChange,
};
pub use self::caller::{Caller, ForbiddenError, Via};
pub use self::change::Change;
pub use self::password::PasswordHash;
pub use self::role::Role;
