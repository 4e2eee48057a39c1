//! Real children: small shell scripts that behave and misbehave.

mod notify;
mod replacement;
mod rig;
mod supervise;
mod workers;
mod workers_alone;
mod workers_launch;
mod workers_overrides;
mod workers_service;
