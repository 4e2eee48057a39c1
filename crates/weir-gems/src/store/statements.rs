//! Statements that both databases understand alike. What differs is beside the database: many rows at
//! once, and what a request waits for.

pub(super) mod files;
pub(super) mod hooks;
pub(super) mod keys;
pub(super) mod noted;
pub(super) mod pushes;
pub(super) mod refusals;
pub(super) mod releases;
pub(super) mod replaced;
pub(super) mod rules;
pub(super) mod upstreams;
pub(super) mod webhooks;
