//! What every service needs and no domain owns.
//!
//! - `admin_api` (feature `admin-api`): input and errors of the admin API.
//! - [`backoff`]: how long to wait before the next attempt.
//! - [`clock`]: the only source of time, with a twin that tests move by hand.
//! - [`failed_attempts`]: wrong passwords and keys by client, so that guessing is slowed.
//! - [`hint`]: "did you mean".
//! - [`history`]: metrics with a memory, in ring files of fixed size.
//! - [`kept`]: small files that a restart leaves.
//! - [`listen_address`]: a listening address, parsed once.
//! - [`ring`]: which node has a key, by consistent hashing.
//! - [`secret`]: text that never shows itself in logs.
//! - [`seldom`]: log lines that would repeat themselves.
//! - [`semaphore`]: at most so many at a time, and a refusal at once for the rest.
//! - [`switch`]: what an operator turns off at run time, by name; [`switchboard`]: over a restart, too.
//! - [`token_bucket`]: at most so many at once, and one more after each interval.
//! - `shutdown` (feature `tokio`): how a service ends.

#[cfg(feature = "admin-api")]
pub mod admin_api;
pub mod backoff;
pub mod clock;
pub mod failed_attempts;
pub mod hint;
pub mod history;
pub mod kept;
pub mod listen_address;
pub mod ring;
pub mod secret;
pub mod seldom;
pub mod semaphore;
#[cfg(feature = "tokio")]
pub mod shutdown;
pub mod switch;
pub mod switchboard;
pub mod token_bucket;
