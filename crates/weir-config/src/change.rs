//! What a changed setting takes to be in force.

use weir_settings::{Change, SettingValue};

use super::launch::Launch;

/// What a change of the setting takes.
pub fn change_of(value: &SettingValue) -> Change {
    let change = value.change();
    if change == Change::Restart { without_reload(&value.path) } else { change }
}

/// For a setting, by its path, that a reload does not take.
pub fn without_reload(setting: &str) -> Change {
    let key = setting.rsplit('.').next().unwrap_or(setting);
    let is_of_app = setting.starts_with("front.apps[");
    // The service recycles processes, the parent starts them.
    let is_recycling = key.starts_with("recycle_");
    let starts_processes =
        OF_PROCESSES.contains(&key) || (Launch::KEYS.contains(&key) && !is_recycling);
    if BOUND_AT_START.contains(&setting) || (is_of_app && SHARED_SOCKETS.contains(&key)) {
        Change::StopAndStart
    } else if (setting.starts_with("workers.") && !is_recycling)
        || (is_of_app && starts_processes)
        || setting.starts_with("supervisor.")
        || matches!(setting, "shutdown_deadline" | "realtime.apps" | "gems")
        || key == "listen"
    {
        Change::Upgrade
    } else {
        Change::Restart
    }
}

/// Sockets that are bound stay as they are, and so does the folder.
const BOUND_AT_START: [&str; 3] = ["data_dir", "front.sockets_per_core", "supervisor.backlog"];
/// Of an app: what the parent starts its processes with, besides the keys of [`Launch`].
const OF_PROCESSES: [&str; 3] = ["command", "workers", "finish_timeout"];
/// Of an app: what its processes share, as long as they live.
const SHARED_SOCKETS: [&str; 6] =
    ["mode", "listen", "selection", "queues", "queues_per_worker", "backlog"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_what_takes_it() {
        for (settings, needs) in [
            (
                &["data_dir", "front.sockets_per_core", "front.apps[1].queues"][..],
                Change::StopAndStart,
            ),
            (&["jobs.listen", "workers.dig.command", "front.apps[0].user"], Change::Upgrade),
            (&["supervisor.backoff_min", "shutdown_deadline"], Change::Upgrade),
            (&["jobs.fsync", "workers.dig.recycle_age", "front.apps[0].hosts"], Change::Restart),
            (&["front.apps", "front.cores", "gems.limits.queue_max"], Change::Restart),
        ] {
            for setting in settings {
                assert_eq!(without_reload(setting), needs, "{setting}");
            }
        }
    }
}
