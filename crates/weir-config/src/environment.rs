//! Reads the environment. No other module does.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Returns the value of a variable, if it is set and valid UTF-8.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the descriptors that the parent passed to this process.
pub fn inherited() -> Option<String> {
    variable(weir_supervisor::inherited::VARIABLE)
}

/// Returns systemd's notification socket, and its watchdog interval.
pub fn systemd() -> Option<(OsString, Option<Duration>)> {
    let socket = std::env::var_os("NOTIFY_SOCKET")?;
    let is_for_this_process =
        variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let microseconds = variable("WATCHDOG_USEC").filter(|_| is_for_this_process)?.parse().ok();
    Some((socket, microseconds.map(Duration::from_micros)))
}

/// Returns the folders of PATH.
pub fn search_path() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

/// Returns whether the user has disabled colours (<https://no-color.org>).
pub fn no_color() -> bool {
    variable("NO_COLOR").is_some_and(|value| !value.is_empty())
}
