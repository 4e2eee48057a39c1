//! Checks of the autopilot: what it needs to see, and what it may change.

use weir_autopilot::{AutopilotSettings, JobSystem, ManagedSystem, Mode, WatchedSystem};
use weir_jobs::settings::StoreKind;
use weir_settings::Report;
use weir_supervisor::workers::JobSpec;

use super::super::Settings;

/// Checks the autopilot.
pub(super) fn check(settings: &Settings, report: &mut Report) {
    let autopilot = &settings.autopilot;
    check_manage(settings, report);
    check_move_jobs(settings, report);
    let mode = AutopilotSettings::MODE.to_string();
    let is_on = autopilot.mode == Mode::On;
    if autopilot.mode != Mode::Off && settings.observe.postgres().is_none() {
        let message = format!(
            "{mode}: needs [observe.postgres] with url = \"postgres://..\": the database that the jobs use, which also keeps \
             the lease that lets only one autopilot act, unless [[observe.redis]] does"
        );
        report.error_at(&mode, message);
    }
    if is_on && autopilot.manage.is_empty() {
        let path = AutopilotSettings::MANAGE.to_string();
        let example = match settings.autopilot_system() {
            JobSystem::JobServer => "jobs",
            JobSystem::Sidekiq => "workers.NAME",
        };
        let message = format!(
            "{path}: mode = \"on\" changes only what this lists; add manage = [\"{example}\"], or use mode = \"advise\""
        );
        report.error_at(&path, message);
    }
    let is_of_jobs = settings.autopilot_system() == JobSystem::JobServer;
    if is_on && is_of_jobs && settings.jobs.settings.store == StoreKind::External {
        let message = format!(
            "{mode}: \"on\" needs the embedded store; jobs.store is a Redis, whose nodes would limit jobs against each other. \"advise\" works"
        );
        report.error_at(&mode, message);
    }
}

/// What it may change must exist, and be of the system that it watches.
fn check_manage(settings: &Settings, report: &mut Report) {
    let autopilot = &settings.autopilot;
    let path = AutopilotSettings::MANAGE.to_string();
    let groups: Vec<&str> = autopilot.manage.iter().filter_map(ManagedSystem::group).collect();
    let has_jobs = autopilot.manage.contains(&ManagedSystem::Jobs);
    if has_jobs && !groups.is_empty() {
        let message = format!(
            "{path}: \"jobs\" and \"workers.NAME\" are two systems of jobs, and one autopilot would judge the changes in one by \
             what the other does to the same database; list one of them"
        );
        report.error_at(&path, message);
    }
    for group in &groups {
        if let Err(why) = check_group(settings, group) {
            report.error_at(&path, format!("{path}: \"workers.{group}\": {why}"));
        }
    }
    let watch = AutopilotSettings::WATCH.to_string();
    let is_sidekiq = settings.autopilot_system() == JobSystem::Sidekiq;
    let is_active = autopilot.mode != Mode::Off || !groups.is_empty();
    if is_sidekiq && is_active && settings.observe.sources().redis.is_empty() {
        let needed_by = if groups.is_empty() { &watch } else { &path };
        let message = format!(
            "{needed_by}: Sidekiq's jobs are seen through [[observe.redis]] with url = \"redis://..\", which this file does not have"
        );
        report.error_at(needed_by, message);
    }
    match autopilot.watch {
        WatchedSystem::Jobs if !groups.is_empty() => {
            let message = format!(
                "{watch}: \"jobs\" is not what autopilot.manage lists (workers.NAME); remove one of them"
            );
            report.error_at(&watch, message);
        }
        WatchedSystem::Sidekiq if has_jobs => {
            let message = format!(
                "{watch}: \"sidekiq\" is not what autopilot.manage lists (jobs); remove one of them"
            );
            report.error_at(&watch, message);
        }
        _ => {}
    }
}

/// Jobs are moved in one Redis, for a group that can serve them.
fn check_move_jobs(settings: &Settings, report: &mut Report) {
    if !settings.autopilot.move_jobs {
        return;
    }
    let path = AutopilotSettings::MOVE_JOBS.to_string();
    let groups: Vec<&str> =
        settings.autopilot.manage.iter().filter_map(ManagedSystem::group).collect();
    let limited = settings.limited_groups();
    let is_able = |group: &&str| {
        let serves = |it: &JobSpec| it.limited_of.as_deref() == Some(*group);
        limited.iter().any(|it| it.jobs.as_ref().is_some_and(serves))
    };
    let shards = settings.observe.sources().redis.len();
    let why = if groups.is_empty() {
        "autopilot.manage lists no \"workers.NAME\" whose jobs could be moved".to_owned()
    } else if !groups.iter().any(is_able) {
        let named: Vec<String> = groups.iter().map(|group| format!("[workers.{group}]")).collect();
        format!(
            "{} can't serve the queue of a limited job type: it needs concurrency and queues, a name of 24 letters at most, and no \
             other group or app that is called as it is with -limited at its end",
            named.join(", ")
        )
    } else if shards > 1 {
        format!("works with one Redis, and [[observe.redis]] has {shards}")
    } else {
        return;
    };
    report.error_at(&path, format!("{path}: {why}"));
}

/// Returns why the threads of a group cannot be changed.
fn check_group(settings: &Settings, group: &str) -> Result<(), String> {
    let Some(workers) = settings.workers.get(group) else {
        let known: Vec<String> =
            settings.workers.keys().map(|name| format!("workers.{name}")).collect();
        let known = match known.is_empty() {
            true => "this file has no [workers.NAME]".to_owned(),
            false => format!("there are {}", known.join(", ")),
        };
        return Err(format!("there is no [workers.{group}]; {known}"));
    };
    match workers.concurrency() {
        Some(_) => Ok(()),
        None => Err(format!(
            "its threads cannot be changed, because [workers.{group}] has no concurrency; set concurrency, and add \"-c\", \
             \"{{concurrency}}\" to command"
        )),
    }
}
