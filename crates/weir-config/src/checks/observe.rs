//! Checks of observed sources.

use super::super::Settings;
use weir_settings::Report;

pub(super) fn check(settings: &Settings, report: &mut Report) {
    let observe = &settings.observe;
    if observe.is_enabled && !observe.has_source() {
        let message = "observe: has no sources; add [[observe.redis]] with url = \"redis://127.0.0.1:6379/0\", or [observe.postgres]";
        report.error_at("observe", message.to_owned());
    }
    if let Some(duplicate) = observe.duplicate_redis() {
        let message = format!(
            "observe.redis: {duplicate} is given twice, so its jobs would be counted twice; remove one"
        );
        report.error_at("observe.redis", message);
    }
    if observe.limits.retry_max < observe.interval {
        let path = "observe.limits.advanced.retry_max";
        report.error_at(path, format!("{path}: must not be below observe.interval"));
    }
}
