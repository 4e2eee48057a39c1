//! Rules about realtime.

use weir_advisor::{Finding, Severity, VerdictFinding};
use weir_realtime::settings::{AppSettings, HubLimits};
use weir_realtime::view::{AppView, LimitHit};
use weir_settings::Setting;

use crate::figures::{self, as_float, count, counted, duration, percent};
use crate::realtime::{RealtimeSnapshot, share};
use crate::visible::visible;

const CONNECTIONS: &str = "/connections";
const APPS: &str = "/apps";
const SWITCHES: &str = "/switches";
const CLIENTS: &str = "clients of realtime";

/// Limits that have rules of their own.
const CORE_QUEUE: Setting = HubLimits::CORE_QUEUE_EVENTS_MAX;
const APP_CONNECTIONS: Setting = AppSettings::CONNECTIONS_MAX;

fn finding(
    (rule, severity): (&'static str, Severity),
    subject: &str,
    problem: String,
    remedy: impl Into<String>,
    page: &str,
) -> VerdictFinding {
    VerdictFinding::new(Finding::new(rule, severity, subject, problem), remedy, page)
}

/// Says since when, in seconds before the sample.
fn since(found: VerdictFinding, seconds: f64, source: &'static str) -> VerdictFinding {
    found.map(|finding| finding.since(figures::seconds(seconds), source))
}

fn hits(realtime: &RealtimeSnapshot, limit: Setting) -> u64 {
    let hit = realtime.trend.limits_hit.iter().find(|hit| limit.is(&hit.limit));
    hit.map_or(0, |hit| hit.hits)
}

/// Finds cores whose queue is nearly full or rejects events.
pub(super) fn core_is_behind(realtime: &RealtimeSnapshot) -> Vec<VerdictFinding> {
    let rejected = hits(realtime, CORE_QUEUE);
    let busy = realtime.overview.cores.iter().zip(&realtime.trend.cores_busy_seconds).enumerate();
    let found = busy.filter_map(|(index, (core, seconds))| {
        let full = percent(share(core).min(1.0));
        let problem = format!(
            "Core {index} has {} to deliver: its queue has been nearly full ({full}) for {}",
            counted(core.events as u64, "event"),
            duration((*seconds)?)
        );
        let rejections = match rejected {
            0 => "Beyond the limit, events are rejected (503).".to_owned(),
            rejected => format!("{} rejected in the last ten minutes.", counted(rejected, "event")),
        };
        let remedy = format!(
            "{rejections} Switch off events that can be spared (Switches), publish less, or give Weir \
             more cores (front.cores)."
        );
        let severity = if rejected > 0 { Severity::Critical } else { Severity::Warning };
        let subject = format!("core {index}");
        let found = finding(("core-behind", severity), &subject, problem, remedy, CONNECTIONS);
        Some(since(found, (*seconds)?, "first sample with a queue that is nearly full"))
    });
    let found: Vec<VerdictFinding> = found.collect();
    if found.is_empty() && rejected > 0 {
        let times = counted(rejected, "time");
        let problem =
            format!("Events were rejected {times} in the last ten minutes: a core was behind");
        let remedy = "The core has caught up. If it happens again, publish less at once or give Weir \
                    more cores (front.cores).";
        let rule = ("core-behind", Severity::Warning);
        return vec![finding(rule, "cores", problem, remedy, CONNECTIONS)];
    }
    found
}

/// Finds events that do not reach clients because these are too slow.
pub(super) fn clients_are_slow(realtime: &RealtimeSnapshot) -> Vec<VerdictFinding> {
    let mut found = Vec::new();
    if realtime.trend.dropped > 0 {
        let problem = format!(
            "{} dropped for slow clients in the last minute; {} behind",
            counted(realtime.trend.dropped, "event"),
            counted(realtime.overview.totals.slow_clients, "client")
        );
        let remedy = "Send them less (Channels shows where they are slow), or raise \
                    client_queue_bytes_max of the app.";
        let rule = ("slow-clients", Severity::Warning);
        found.push(finding(rule, CLIENTS, problem, remedy, CONNECTIONS));
    }
    if realtime.trend.closed_slow > 0 {
        let clients = counted(realtime.trend.closed_slow, "slow client");
        let problem = format!("{clients} closed in the last ten minutes, to reconnect and recover");
        let remedy = "A few are normal on bad networks. If there are many, send less, or set slow_clients \
                    of the app to conflate or drop_oldest.";
        let rule = ("slow-clients", Severity::Notice);
        found.push(finding(rule, CLIENTS, problem, remedy, CONNECTIONS));
    }
    found
}

/// The share of an app's connection limit from which there is a finding.
const APP_SHARE: f64 = 0.9;

/// Finds apps at or near their connection limit.
pub(super) fn app_is_full(realtime: &RealtimeSnapshot) -> Vec<VerdictFinding> {
    let near = realtime.overview.apps.iter().filter(|app| {
        as_float(app.connections as u64) >= as_float(app.connections_max as u64) * APP_SHARE
            && app.connections > 0
    });
    near.map(|app| app_finding(realtime, app)).collect()
}

fn app_finding(realtime: &RealtimeSnapshot, app: &AppView) -> VerdictFinding {
    let (id, max) = (visible(&app.id), count(app.connections_max as u64));
    let full = realtime.trend.apps_full_seconds.iter().find(|(full, _)| *full == app.id);
    let subject = format!("realtime app {id}");
    let remedy = "Raise connections_max of the app, or find the clients that open so many.";
    let found = match full {
        Some((_, seconds)) => {
            let rejected = counted(hits(realtime, APP_CONNECTIONS), "connection");
            let problem =
                format!("App {id} has had all its {max} connections for {}", duration(*seconds));
            let remedy =
                format!("{rejected} rejected in the last ten minutes, of all apps. {remedy}");
            let rule = ("app-connections", Severity::Critical);
            let found = finding(rule, &subject, problem, remedy, CONNECTIONS);
            since(found, *seconds, "first sample without a free connection")
        }
        None => {
            let open = count(app.connections as u64);
            let problem = format!("App {id} has {open} of at most {max} connections");
            let rule = ("app-connections", Severity::Warning);
            finding(rule, &subject, problem, remedy, CONNECTIONS)
        }
    };
    found.affecting(app.connections as u64)
}

/// Finds webhooks that the application's servers do not accept.
pub(super) fn webhooks_fail(realtime: &RealtimeSnapshot) -> Vec<VerdictFinding> {
    let trend = &realtime.trend;
    let Some(seconds) = trend.webhooks_failing_seconds else { return Vec::new() };
    let waiting = counted(realtime.overview.webhooks.waiting, "event");
    let (failed, attempts) = (count(trend.webhook_failures), count(trend.webhook_attempts));
    let problem = format!(
        "Webhooks have failed for {}: {failed} of {attempts} attempts in the last minute, {waiting} \
         waiting",
        duration(seconds)
    );
    let remedy = "The log names the receiver and why. Events are retried for \
                realtime.webhooks.retry_for (5 min unless set) and then dropped.";
    let severity = if seconds >= 60.0 { Severity::Critical } else { Severity::Warning };
    let found = finding(("webhooks-fail", severity), "webhooks", problem, remedy, APPS);
    vec![since(found, seconds, "first of the samples with failed attempts")]
}

/// Finds limits that were reached within the last ten minutes.
pub(super) fn realtime_limits_are_met(realtime: &RealtimeSnapshot) -> Vec<VerdictFinding> {
    let has_own_rule =
        |hit: &&LimitHit| !CORE_QUEUE.is(&hit.limit) && !APP_CONNECTIONS.is(&hit.limit);
    realtime.trend.limits_hit.iter().filter(has_own_rule).map(limit_finding).collect()
}

fn limit_finding(hit: &LimitHit) -> VerdictFinding {
    let times = counted(hit.hits, "time");
    let known = match hit.limit.rsplit('.').next().unwrap_or_default() {
        name if name == HubLimits::SUBSCRIBES_PER_SECOND.name => Some((
            Severity::Notice,
            "Subscriptions were delayed",
            "Many clients reconnect at once and are admitted one after the other. No action needed.",
        )),
        name if name == AppSettings::CLIENT_EVENTS_PER_SECOND.name => Some((
            Severity::Notice,
            "Clients sent events faster than they may",
            "A client is in a loop, or needs a higher client_events_per_second of the app.",
        )),
        name if name == HubLimits::HISTORY_BYTES_MAX.name => Some((
            Severity::Warning,
            "Channels lost their history for lack of memory",
            "Clients that reconnect must reload. Raise realtime.limits.history_bytes_max, or keep less history per channel (history of the app).",
        )),
        name if name == HubLimits::WATCHERS_MAX.name => Some((
            Severity::Notice,
            "Live views were rejected",
            "Close some, or raise realtime.limits.watchers_max.",
        )),
        _ => None,
    };
    let (severity, problem, remedy) = match known {
        Some((severity, problem, remedy)) => {
            (severity, format!("{problem} ({times} in the last ten minutes)"), remedy.to_owned())
        }
        None => (
            Severity::Warning,
            format!("The limit {} was reached {times} in the last ten minutes", hit.limit),
            format!("Find the clients that need so much, or raise {} in weir.toml.", hit.limit),
        ),
    };
    finding(("realtime-limit", severity), &hit.limit, problem, remedy, APPS)
}

/// Reports switches that are off, as a reminder.
pub(super) fn something_is_switched_off(realtime: &RealtimeSnapshot) -> Vec<VerdictFinding> {
    let off = realtime.switches_off;
    if off == 0 {
        return Vec::new();
    }
    let problem = format!("Events are switched off by {}", counted(off as u64, "pattern"));
    let remedy = "Switch them on when the load is back to normal.";
    vec![finding(("switched-off", Severity::Notice), "switches", problem, remedy, SWITCHES)]
}
