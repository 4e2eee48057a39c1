//! The environment: read here and nowhere else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The value of a variable, when it is set and is text.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What the parent handed over to this process.
pub fn inherited() -> Option<String> {
    variable(weir_supervisor::inherited::VARIABLE)
}

/// systemd's notification socket, and how often it wants to hear.
pub fn systemd() -> Option<(OsString, Option<Duration>)> {
    let socket = std::env::var_os("NOTIFY_SOCKET")?;
    let for_us = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let microseconds = variable("WATCHDOG_USEC").filter(|_| for_us)?.parse().ok();
    Some((socket, microseconds.map(Duration::from_micros)))
}

/// The folders of programs.
pub fn search_path() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

/// Whether the user asked for no colour (<https://no-color.org>).
pub fn no_color() -> bool {
    variable("NO_COLOR").is_some_and(|value| !value.is_empty())
}
