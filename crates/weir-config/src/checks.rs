//! Checks that involve several keys: settings that contradict each other, or that are valid but risky.

mod autopilot;
mod front;
mod gems;
mod observe;
mod programs;
mod realtime;
mod redis_store;
mod routes;
mod tls;
mod workers;

use std::net::SocketAddr;

use super::launch::Launch;
use super::{Settings, Supervisor, run_folder};
use weir_jobs::allocation::DispatchPolicy;
use weir_jobs::model::QueueName;
use weir_jobs::settings::{Dispatch, Fsync, JobServerLimits, QueueSettings, StoreKind};
use weir_settings::{Report, SettingValue};

/// The least size of a segment beyond its reserve; with less nothing could be pushed.
const SEGMENT_ROOM_MIN: u32 = 1 << 20;

/// Signs of life that must be missing before a service is replaced.
const ALIVE_INTERVALS_MIN: u32 = 4;

/// Adds the errors that involve several settings.
pub(super) fn check(settings: &Settings, report: &mut Report) {
    for access_error in settings.console.problems() {
        let path = format!("console.{}", access_error.setting);
        report.error_at(&path, format!("{path}: {}", access_error.message));
    }
    let jobs = &settings.jobs;
    let limits = &jobs.settings.limits;
    reject_shared_addresses(settings, report);
    realtime::check(settings, report);
    front::check(settings, report);
    gems::check(settings, report);
    observe::check(settings, report);
    autopilot::check(settings, report);
    workers::check(settings, report);
    if limits.buffered_bytes_max < limits.line_bytes_max {
        let message = "jobs.limits.advanced.buffered_bytes_max: must hold at least one line of line_bytes_max";
        report.error_at("jobs.limits.advanced.buffered_bytes_max", message.to_owned());
    }
    if limits.segment_bytes < limits.reserve_bytes.saturating_add(SEGMENT_ROOM_MIN) {
        let message =
            "jobs.limits.advanced.segment_bytes: must be at least 1MiB above reserve_bytes";
        report.error_at("jobs.limits.advanced.segment_bytes", message.to_owned());
    } else if jobs.settings.store == StoreKind::Embedded {
        reject_too_many_batches(limits, report);
    }
    tls::check(settings, report);
    reject_short_unresponsive_after(&settings.supervisor, report);
    let restart = &settings.supervisor.restart;
    if restart.backoff_max < restart.backoff_min {
        let message = "supervisor.advanced.backoff_max: must not be below backoff_min";
        report.error_at("supervisor.advanced.backoff_max", message.to_owned());
    }
}

/// Rejects a batches_max for which a segment of the log has no room.
fn reject_too_many_batches(limits: &JobServerLimits, report: &mut Report) {
    let max = limits.batches_that_fit();
    if limits.batches_max > max {
        let message = format!(
            "jobs.limits.batches_max: a segment of the log has room for {max} batches; lower it, or raise jobs.limits.advanced.segment_bytes"
        );
        report.error_at("jobs.limits.batches_max", message);
    }
}

/// Rejects an unresponsive_after that is too short. A sign of life is sent once per alive_interval and may be late by
/// as much, so a few late ones must not count as a service that hangs.
fn reject_short_unresponsive_after(supervisor: &Supervisor, report: &mut Report) {
    let minimum = supervisor.alive_interval.saturating_mul(ALIVE_INTERVALS_MIN);
    if supervisor.unresponsive_after().is_some_and(|after| after < minimum) {
        let path = "supervisor.unresponsive_after";
        let message =
            format!("{path}: must be at least {ALIVE_INTERVALS_MIN} times alive_interval");
        report.error_at(path, message);
    }
}

/// Rejects addresses that two parts would listen on.
fn reject_shared_addresses(settings: &Settings, report: &mut Report) {
    let mut seen: Vec<(String, SocketAddr)> = Vec::new();
    for (path, address) in settings.addresses() {
        match seen.iter().find(|(_, other)| *other == address && address.port() != 0) {
            Some((other, _)) => {
                report.error_at(&path, format!("{path}: {address} is {other} already"));
            }
            None => seen.push((path, address)),
        }
    }
}

/// Rejects workers of another user if the folder for their sockets cannot be created. (Without root, switching users
/// fails anyway.)
fn reject_unreachable_user(launch: &Launch, path: &str, report: &mut Report) {
    let needs_outside_folder = launch.user.is_some() && rustix::process::geteuid().is_root();
    if let Some(access_error) = needs_outside_folder.then(run_folder::access_error).flatten() {
        report.error_at(&format!("{path}.user"), format!("{path}.user: {access_error}"));
    }
}

/// Returns warnings about settings that are valid but risky.
pub(super) fn collect_warnings(settings: &Settings, values: &[SettingValue]) -> Vec<String> {
    let mut warnings = jobs_warnings(settings);
    redis_store::warn(&settings.jobs, values, &mut warnings);
    realtime::warn(settings, &mut warnings);
    front::warn(settings, &mut warnings);
    gems::warn(settings, &mut warnings);
    tls::warn(settings, &mut warnings);
    programs::warn(settings, &mut warnings);
    warnings
}

fn jobs_warnings(settings: &Settings) -> Vec<String> {
    let jobs = &settings.jobs;
    let Some(listen) = jobs.listen else { return Vec::new() };
    let is_local = listen.ip().to_canonical().is_loopback();
    let has_password = jobs.settings.password.is_some();
    let is_embedded = jobs.settings.store == StoreKind::Embedded;
    let is_in_redis = jobs.settings.store == StoreKind::External;
    let mut warnings = Vec::new();
    let mut warn = |condition: bool, text: &str| {
        if condition {
            warnings.push(text.to_owned());
        }
    };
    match (jobs.settings.store, jobs.settings.fsync) {
        (StoreKind::Memory, _) => {
            warn(true, "jobs.store = \"memory\": every job is gone when Weir ends");
        }
        (StoreKind::External, _) => {}
        (_, Fsync::Never) => warn(
            true,
            "jobs.fsync = \"never\": a power cut loses jobs that were acknowledged, minutes of them",
        ),
        (_, Fsync::EverySecond) => warn(
            true,
            "jobs.fsync = \"everysec\": a power cut loses up to a second of acknowledged jobs",
        ),
        (_, Fsync::Always) => {}
    }
    warn(
        !is_in_redis && jobs.settings.fsync_acks && jobs.settings.fsync != Fsync::Always,
        "jobs.fsync_acks has no effect without jobs.fsync = \"always\"",
    );
    let limits = &jobs.settings.limits;
    let record_bytes_max = u64::from(limits.segment_bytes.saturating_sub(limits.reserve_bytes));
    let line_bytes_max = u64::try_from(limits.line_bytes_max).unwrap_or(u64::MAX);
    warn(
        is_embedded && line_bytes_max > record_bytes_max,
        "jobs.limits.line_bytes_max is above segment_bytes less reserve_bytes: larger jobs are rejected by the log",
    );
    warn(
        jobs.settings.allow_flush,
        "jobs.allow_flush: any client can delete every job with one command",
    );
    warn(
        !is_local && !has_password,
        "jobs.listen is not loopback and there is no jobs.password: every client that reaches the port can push and fetch jobs",
    );
    warn(
        !is_local && jobs.tls.is_none(),
        "jobs.listen is not loopback and there is no jobs.tls: jobs travel in clear text",
    );
    let policy = DispatchPolicy::of_settings(&jobs.settings);
    warnings.extend(
        jobs.settings.queues.iter().flat_map(|(name, queue)| queue_warnings(name, queue, policy)),
    );
    let has_target = jobs.settings.queues.values().any(|queue| queue.target_latency.is_some());
    if policy == DispatchPolicy::Targets && jobs.settings.dispatch == Dispatch::Auto {
        let text = "jobs.dispatch is \"auto\" and queues have a target_latency: a FETCH is served by targets, and no longer in the order in which it names its queues; set jobs.dispatch = \"targets\", or \"strict\" to keep that order";
        warnings.push(text.to_owned());
    }
    if policy == DispatchPolicy::Targets && !has_target {
        let text = "jobs.dispatch = \"targets\" without any jobs.queues.NAME.target_latency: beyond what each queue needs for its arrivals, the queues share the workers by weight";
        warnings.push(text.to_owned());
    }
    warnings
}

/// Returns warnings about settings of a queue that have no effect.
fn queue_warnings(name: &QueueName, queue: &QueueSettings, policy: DispatchPolicy) -> Vec<String> {
    let mut warnings = Vec::new();
    match (queue.target_latency.is_some(), queue.fresh_lane) {
        (true, false) if policy != DispatchPolicy::Targets => warnings.push(format!(
            "jobs.queues.{name}.target_latency decides only which jobs count as late, because jobs.dispatch is not \"targets\"; add fresh_lane = true to serve the newest first when jobs are late"
        )),
        (false, true) => warnings
            .push(format!("jobs.queues.{name}.fresh_lane has no effect without target_latency")),
        _ => {}
    }
    let headroom = (queue.fair_headroom > 0).then_some("fair_headroom");
    let tenants = (!queue.tenants.is_empty()).then_some("tenants");
    if queue.fair_by.is_none() {
        let ignored = headroom.into_iter().chain(tenants);
        let text = |key| format!("jobs.queues.{name}.{key} has no effect without fair_by");
        warnings.extend(ignored.map(text));
    }
    if queue.weight != 1 && policy == DispatchPolicy::Strict {
        warnings.push(format!(
            "jobs.queues.{name}.weight has no effect, because jobs.dispatch is \"strict\""
        ));
    }
    warnings
}
