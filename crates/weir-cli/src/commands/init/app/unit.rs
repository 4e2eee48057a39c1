//! The systemd unit that runs Weir for an application.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;

use super::folder::AppFolder;
use super::options::AppOptions;
use super::units::{AppUnit, PREFIX};

/// Above the stop_deadline of Sidekiq (35 s), then shutdown_deadline (25 s) and supervisor.kill_after (5 s), then the
/// stop_deadline of web processes (30 s).
const STOP_SECONDS: u32 = 105;

/// A folder of its own: `weir plan --check` would read a unit beside a compose file instead of that file.
const FOLDER: &str = "weir-units";

/// Returns the path of the unit, beside weir.toml.
pub(super) fn file(name: &str) -> String {
    format!("{FOLDER}/{}", file_name(name))
}

pub(super) fn file_name(name: &str) -> String {
    format!("{PREFIX}{name}.service")
}

/// Returns the unit. Weir runs as the application's user, with the environment files of its units.
pub(super) fn text(
    name: &str,
    title: &str,
    folder: &AppFolder,
    options: &AppOptions,
    units: &[AppUnit],
) -> String {
    let user = units.iter().find_map(|unit| unit.user.as_deref());
    let mut text = format!(
        "# Written by `weir init {name}`; weir-steps.txt has the steps and the way back.\n\
         [Unit]\nDescription={title} under Weir\nAfter=network-online.target\nWants=network-online.target\n\n\
         [Service]\nType=notify\nExecStart={} up --config {}\nExecReload={} upgrade --config {}\n\
         WorkingDirectory={}\n",
        options.program.display(),
        options.settings.display(),
        options.program.display(),
        options.settings.display(),
        folder.shown()
    );
    match user {
        Some(user) => {
            let _ = writeln!(text, "User={user}");
        }
        None if owner(folder) == Some(0) => {}
        None => {
            let owner = owner(folder).unwrap_or_default();
            let _ = writeln!(text, "User={owner}");
        }
    }
    let mut files: Vec<&str> =
        units.iter().flat_map(|it| &it.environment_files).map(String::as_str).collect();
    files.sort_unstable();
    files.dedup();
    files.iter().for_each(|file| {
        let _ = writeln!(text, "EnvironmentFile={file}");
    });
    let _ = write!(
        text,
        "Restart=on-failure\nRestartSec=2s\nTimeoutStartSec=infinity\nTimeoutStopSec={STOP_SECONDS}\n\
         KillMode=mixed\nLimitNOFILE=131072\n\n[Install]\nWantedBy=multi-user.target\n"
    );
    text
}

/// Returns the number of the user that the folder belongs to.
fn owner(folder: &AppFolder) -> Option<u32> {
    folder.path.metadata().ok().map(|it| it.uid())
}
