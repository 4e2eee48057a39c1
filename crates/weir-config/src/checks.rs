//! What no single key can tell: settings that contradict each other, or are sound but dangerous.

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
use weir_jobs::model::QueueName;
use weir_jobs::settings::{Fsync, QueueSettings, StoreKind};
use weir_settings::{Report, SettingValue};

/// A segment holds the reserve and some records, or nothing could be pushed.
const SEGMENT_ROOM_MIN: u32 = 1 << 20;

/// Signs of life that must fail to come before a service is replaced.
const SIGNS_OF_LIFE_MIN: u32 = 4;

/// Adds the mistakes that only show in the whole.
pub(super) fn check(settings: &Settings, report: &mut Report) {
    for problem in settings.console.problems() {
        let path = format!("console.{}", problem.setting);
        report.error_at(&path, format!("{path}: {}", problem.message));
    }
    let jobs = &settings.jobs;
    let limits = &jobs.settings.limits;
    reject_shared_addresses(settings, report);
    realtime::check(settings, report);
    front::check(settings, report);
    gems::check(settings, report);
    observe::check(settings, report);
    workers::check(settings, report);
    if limits.buffered_bytes_max < limits.line_bytes_max {
        let message = "jobs.limits.advanced.buffered_bytes_max: must hold at least one line of line_bytes_max";
        report.error_at("jobs.limits.advanced.buffered_bytes_max", message.to_owned());
    }
    if limits.segment_bytes < limits.reserve_bytes.saturating_add(SEGMENT_ROOM_MIN) {
        let message =
            "jobs.limits.advanced.segment_bytes: must be at least 1MiB above reserve_bytes";
        report.error_at("jobs.limits.advanced.segment_bytes", message.to_owned());
    }
    tls::check(settings, report);
    reject_hasty_supervisor(&settings.supervisor, report);
    let restart = &settings.supervisor.restart;
    if restart.backoff_max < restart.backoff_min {
        let message = "supervisor.advanced.backoff_max: must not be below backoff_min";
        report.error_at("supervisor.advanced.backoff_max", message.to_owned());
    }
}

/// A sign of life comes once per alive_interval, and may take as long again: the parent must not take
/// a few that are late for a service that hangs.
fn reject_hasty_supervisor(supervisor: &Supervisor, report: &mut Report) {
    let least = supervisor.alive_interval.saturating_mul(SIGNS_OF_LIFE_MIN);
    if supervisor.unresponsive_after().is_some_and(|after| after < least) {
        let path = "supervisor.unresponsive_after";
        let message = format!("{path}: must be at least {SIGNS_OF_LIFE_MIN} times alive_interval");
        report.error_at(path, message);
    }
}

/// Two parts can't listen at one address.
fn reject_shared_addresses(settings: &Settings, report: &mut Report) {
    let mut taken: Vec<(String, SocketAddr)> = Vec::new();
    for (path, address) in settings.addresses() {
        match taken.iter().find(|(_, other)| *other == address && address.port() != 0) {
            Some((other, _)) => {
                report.error_at(&path, format!("{path}: {address} is {other} already"));
            }
            None => taken.push((path, address)),
        }
    }
}

/// Where the workers of another user are to have their sockets, there must be a way to make them.
/// (Who is not root has a larger problem.)
fn reject_unreachable_user(launch: &Launch, path: &str, report: &mut Report) {
    let is_asked = launch.user.is_some() && rustix::process::geteuid().is_root();
    if let Some(problem) = is_asked.then(run_folder::problem).flatten() {
        report.error_at(&format!("{path}.user"), format!("{path}.user: {problem}"));
    }
}

/// What is sound but worth a thought.
pub(super) fn warnings(settings: &Settings, values: &[SettingValue]) -> Vec<String> {
    let mut warnings = jobs_warnings(settings);
    redis_store::warn(settings, values, &mut warnings);
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
    let room = u64::from(limits.segment_bytes.saturating_sub(limits.reserve_bytes));
    let line_bytes_max = u64::try_from(limits.line_bytes_max).unwrap_or(u64::MAX);
    warn(
        is_embedded && line_bytes_max > room,
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
    warnings
        .extend(jobs.settings.queues.iter().filter_map(|(name, queue)| queue_warning(name, queue)));
    warnings
}

/// What a queue asks for that nothing is done about.
fn queue_warning(name: &QueueName, queue: &QueueSettings) -> Option<String> {
    match (queue.target_latency.is_some(), queue.fresh_lane) {
        (true, false) => Some(format!(
            "jobs.queues.{name}.target_latency alone does not change the order of jobs, only which count as late; add fresh_lane = true to serve the newest first when jobs are late"
        )),
        (false, true) => {
            Some(format!("jobs.queues.{name}.fresh_lane has no effect without target_latency"))
        }
        _ => None,
    }
}
