//! Checks of the autopilot: what it needs to see, and what it may change.

use weir_autopilot::{AutopilotSettings, ManagedSystem, Mode};
use weir_jobs::settings::StoreKind;
use weir_settings::Report;

/// Checks the autopilot of a job server with this store. `has_database`: one is observed.
pub(super) fn check(
    autopilot: &AutopilotSettings,
    store: StoreKind,
    has_database: bool,
    report: &mut Report,
) {
    let mode = AutopilotSettings::MODE.to_string();
    if autopilot.mode != Mode::Off && !has_database {
        let message = format!(
            "{mode}: needs [observe.postgres] with url = \"postgres://..\": the database that the jobs use, which also keeps \
             the lease that lets only one autopilot act, unless [[observe.redis]] does"
        );
        report.error_at(&mode, message);
    }
    if autopilot.mode != Mode::On {
        return;
    }
    if !autopilot.manage.contains(&ManagedSystem::Jobs) {
        let path = AutopilotSettings::MANAGE.to_string();
        let message = format!(
            "{path}: mode = \"on\" changes only what this lists; add manage = [\"jobs\"], or use mode = \"advise\""
        );
        report.error_at(&path, message);
    }
    if store == StoreKind::External {
        let message = format!(
            "{mode}: \"on\" needs the embedded store; jobs.store is a Redis, whose nodes would limit jobs against each other. \"advise\" works"
        );
        report.error_at(&mode, message);
    }
}
