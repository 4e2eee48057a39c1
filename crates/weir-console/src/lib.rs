//! The dashboard on port 7420: pages rendered on the server, live through server-sent events.
//!
//! - [`settings`]: what an operator can set.

pub mod settings;
