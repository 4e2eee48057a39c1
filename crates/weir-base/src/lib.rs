//! Building blocks that every service needs and no domain owns.
//!
//! - `admin_api` (feature `admin-api`): input and errors of the admin API.
//! - [`backoff`]: delays between attempts.
//! - [`clock`]: the only source of time, with a manual clock for tests.
//! - [`drain`]: when a backlog will be empty, as a range.
//! - [`failed_attempts`]: counts of wrong passwords and keys by client, to slow guessing.
//! - [`hint`]: "did you mean" suggestions.
//! - [`history`]: metrics over time, in ring files of fixed size.
//! - [`kept`]: state that survives a restart in small JSON files.
//! - [`line_log`]: lines in two files of limited size.
//! - [`listen_address`]: parsed listening addresses.
//! - [`node`]: what nodes that share a store report about themselves.
//! - [`ring`]: consistent hashing of keys to nodes.
//! - [`secret`]: text that never appears in logs.
//! - [`seldom`]: rate limiting of repeated log lines.
//! - [`semaphore`]: a concurrency limit that rejects at once instead of queueing.
//! - [`switch`]: switches that an operator turns off at run time, by name; [`switchboard`]: the
//!   same, kept across restarts.
//! - [`token_bucket`]: a rate limit with bursts.
//! - `shutdown` (feature `tokio`): graceful shutdown of a service.

#[cfg(feature = "admin-api")]
pub mod admin_api;
pub mod backoff;
pub mod clock;
pub mod drain;
pub mod failed_attempts;
pub mod hint;
pub mod history;
pub mod kept;
pub mod line_log;
pub mod listen_address;
pub mod node;
pub mod ring;
pub mod secret;
pub mod seldom;
pub mod semaphore;
#[cfg(feature = "tokio")]
pub mod shutdown;
pub mod switch;
pub mod switchboard;
pub mod token_bucket;
