//! The connections of the store: how operators set them up, and how they fail.

mod authority;
mod cluster_tls;
mod credentials;
mod outage;
mod permissions;
mod rig;
mod sentinel;
mod server_state;
mod tls;
