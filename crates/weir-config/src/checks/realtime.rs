//! Checks of the front and realtime.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use weir_realtime::settings::{AppSettings, DURABLE_BYTES_MAX};

use super::super::{BrokerKind, Settings, units};
use weir_settings::Report;

/// A shorter secret is a warning. 16 characters of base64 have 96 bits.
const SECRET_CHARACTERS_MIN: usize = 16;

pub(super) fn check(settings: &Settings, report: &mut Report) {
    let webhooks = &settings.realtime.webhooks;
    if webhooks.retry_delay_max < webhooks.retry_delay_min {
        let path = "realtime.webhooks.retry_delay_max";
        report.error_at(path, format!("{path}: must not be below retry_delay_min"));
    }
    let limits = &settings.realtime.settings.limits.pusher;
    if limits.api_body_bytes_max < limits.event_data_bytes_max {
        let path = "realtime.limits.advanced.api_body_bytes_max";
        report.error_at(path, format!("{path}: must hold one event of event_data_bytes_max"));
    }
    check_durable_histories(settings, report);
}

/// A record of the log has a whole channel.
fn check_durable_histories(settings: &Settings, report: &mut Report) {
    let event_bytes = settings.realtime.settings.limits.pusher.event_data_bytes_max;
    for (index, app) in settings.realtime.apps.iter().enumerate() {
        if !app.history.is_durable {
            continue;
        }
        let own = format!("realtime.apps[{index}].history.bytes_max");
        let event = "realtime.limits.event_data_bytes_max".to_owned();
        for (path, bytes) in [(own, app.history.bytes_max), (event, event_bytes)] {
            if bytes > DURABLE_BYTES_MAX {
                let max = units::about_size(DURABLE_BYTES_MAX as u64);
                report.error_at(&path, format!("{path}: at most {max} with history.durable"));
            }
        }
    }
}

pub(super) fn warn(settings: &Settings, warnings: &mut Vec<String>) {
    let realtime = &settings.realtime;
    if settings.has_front() {
        warn_about_front(settings, warnings);
    }
    let is_public = |address: std::net::SocketAddr| !address.ip().to_canonical().is_loopback();
    if realtime.listen.is_some_and(is_public) {
        let text = "realtime.listen is not loopback: events travel in clear text there; only front.listen can have TLS";
        warnings.push(text.to_owned());
    }
    for (index, app) in realtime.apps.iter().enumerate() {
        warn_about_app(settings, &format!("realtime.apps[{index}]"), app, warnings);
    }
    warn_about_connection_limits(settings, warnings);
    warn_about_durable_histories(settings, warnings);
    let limits = &realtime.settings.limits;
    if limits.pusher.client_message_bytes_max > limits.websocket.message_bytes_max {
        warnings.push("realtime.limits.advanced.client_message_bytes_max is above message_bytes_max: longer messages end the connection".to_owned());
    }
    for (path, wait) in [
        ("realtime.drain_window", realtime.settings.drain_window),
        ("realtime.webhooks.advanced.drain_timeout", realtime.webhooks.drain_timeout),
    ] {
        warn_about_slow_shutdown(settings.shutdown_deadline, path, wait, warnings);
    }
}

fn warn_about_front(settings: &Settings, warnings: &mut Vec<String>) {
    let front = &settings.front;
    let is_public = front.listen.is_some_and(|listen| !listen.ip().to_canonical().is_loopback());
    if is_public && front.tls.is_none() {
        let text = "front.listen is not loopback and there is no front.tls: requests and events travel in clear text";
        warnings.push(text.to_owned());
    }
    let connections_max = front.limits.connections_max;
    if let Some(files_max) = open_files_max()
        && u64::from(connections_max) > files_max
    {
        warnings.push(format!(
            "front.limits.connections_max is {connections_max}, but a process may have {files_max} open files here (ulimit -Hn; LimitNOFILE in systemd)"
        ));
    }
}

/// Returns the limit of open files. None: no limit.
fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// Warns about connection limits above the front's.
fn warn_about_connection_limits(settings: &Settings, warnings: &mut Vec<String>) {
    let front = settings.front.limits.connections_max;
    let total = settings.realtime.settings.limits.connections_total_max;
    if total != usize::MAX && total > front as usize {
        warnings.push(format!(
            "realtime.limits.connections_total_max is {total}, but the front takes {front} connections (front.limits.connections_max)"
        ));
    }
    if settings.realtime.broker == BrokerKind::Redis {
        // The limit of an app is for all nodes together.
        return;
    }
    let max = settings.realtime_connections_max();
    for (index, app) in settings.realtime.apps.iter().enumerate() {
        let app_max = app.connections_max;
        // The default is unlimited.
        if app_max > max && app_max != usize::MAX {
            warnings.push(format!(
                "realtime.apps[{index}].connections_max is {app_max}, but all apps together may have {max} connections (realtime.limits.connections_total_max, front.limits.connections_max)"
            ));
        }
    }
}

/// Warns about durable histories that have no effect.
fn warn_about_durable_histories(settings: &Settings, warnings: &mut Vec<String>) {
    for (index, app) in settings.realtime.apps.iter().enumerate() {
        let history = &app.history;
        let reason = match settings.realtime.broker {
            _ if !history.is_durable => continue,
            BrokerKind::Redis => "with a broker in Redis, which keeps the histories",
            _ if history.events_max == 0 => "without a history (events_max is 0)",
            _ => continue,
        };
        warnings.push(format!("realtime.apps[{index}].history.durable has no effect {reason}"));
    }
}

fn warn_about_app(settings: &Settings, path: &str, app: &AppSettings, warnings: &mut Vec<String>) {
    let characters = app.secret.expose().chars().count();
    if characters < SECRET_CHARACTERS_MIN {
        warnings.push(format!(
            "{path}.secret has {characters} characters; below {SECRET_CHARACTERS_MIN} it can be guessed"
        ));
    }
    if app.requires_tls && settings.front.tls.is_none() {
        warnings.push(format!(
            "{path}.require_tls without front.tls: every connection is rejected, also behind a proxy that terminates TLS"
        ));
    }
    let default = AppSettings::new("", "", app.secret.clone());
    let connections = app.connections_max.min(settings.front.limits.connections_max as usize);
    let queued = app.client_queue_bytes_max.saturating_mul(connections) as u64;
    let memory = memory_bytes();
    if app.client_queue_bytes_max > default.client_queue_bytes_max && queued > memory {
        let (queued, memory) = (units::about_size(queued), units::about_size(memory));
        warnings.push(format!(
            "{path}.client_queue_bytes_max: {connections} slow clients could hold {queued}, and this machine has {memory}"
        ));
    }
}

fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

fn warn_about_slow_shutdown(
    deadline: Duration,
    path: &str,
    wait: Duration,
    warnings: &mut Vec<String>,
) {
    if wait >= deadline && !deadline.is_zero() {
        let deadline = units::format_duration(deadline);
        warnings.push(format!(
            "{path} is not below shutdown_deadline ({deadline}), which would interrupt it; lower it"
        ));
    }
}
