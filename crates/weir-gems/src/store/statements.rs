//! SQL that both databases understand. SQL that differs, such as bulk operations and queries on the
//! request path, is in each database's module.

pub(super) mod files;
pub(super) mod gems;
pub(super) mod hooks;
pub(super) mod index;
pub(super) mod keys;
pub(super) mod noted;
pub(super) mod pushes;
pub(super) mod refusals;
pub(super) mod releases;
pub(super) mod replaced;
pub(super) mod texts;
pub(super) mod upstreams;
pub(super) mod verify;
pub(super) mod webhooks;
