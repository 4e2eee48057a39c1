//! What every service needs and no domain owns.
//!
//! - [`clock`]: the only source of time, with a twin that tests move by hand.
//! - [`secret`]: text that never shows itself in logs.

pub mod clock;
pub mod secret;
