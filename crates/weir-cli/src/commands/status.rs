//! `weir status`: the state of a running Weir on one screen.

mod nodes;
mod verdict;

use clap::Args;
use weir_jobs::view::{JobServerOverview, ShardView};
use weir_realtime::view::LogShardView;

use crate::admin_client::{self, AdminClient};
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_admin::status::Status;
use weir_admin::workers::{AppRow, JOBS, WorkerRow};
use weir_config::units::about_size;

/// `weir status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    /// List all nodes that share jobs or realtime channels with this one. Exits with 1 if one is away
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<Exit> {
    admin_client::block_on(async {
        let mut client = AdminClient::connect(&arguments.target).await?;
        if arguments.json && !arguments.all {
            output::json(&client.get::<serde_json::Value>("/v1/status").await?)?;
            return Ok(Exit::Fine);
        }
        let status = client.get::<Status>("/v1/status").await?;
        match (arguments.all, arguments.json) {
            (false, _) => print(&status),
            (true, false) => return Ok(nodes::print_all(&status)),
            (true, true) => output::json(&nodes::json(&status))?,
        }
        Ok(Exit::Fine)
    })
}

fn print(status: &Status) {
    let up = output::seconds(status.uptime_seconds);
    output::line(&format!(
        "weir {} is up for {up} (pid {}), data in {}",
        status.version, status.pid, status.data_dir
    ));
    status.verdict.iter().for_each(verdict::print);
    match status.old_processes {
        0 => {}
        1 => output::line("1 service process that was replaced still has connections"),
        more => {
            output::line(&format!(
                "{more} service processes that were replaced still have connections"
            ));
        }
    }
    match (&status.jobs, &status.problem) {
        (None, _) => {
            output::line("jobs are disabled (jobs.listen is \"off\", or --only excludes them)")
        }
        (Some(_), None) => output::line("takes jobs"),
        (Some(_), Some(problem)) => output::line(&format!("PROBLEM: {problem}")),
    }
    if let Some(jobs) = &status.jobs {
        print_jobs(jobs, status.jobs_listen.as_deref().unwrap_or_default());
    }
    print_realtime(status);
    nodes::print(status);
    print_gems(status);
    status.apps.iter().for_each(|app| print_app(status, app));
    let limits_hit = status.jobs.iter().flat_map(|jobs| &jobs.limits_hit);
    for hit in limits_hit.filter(|hit| hit.hits > 0) {
        output::line(&format!("limit reached {} ({} times)", hit.limit, hit.hits));
    }
}

fn print_jobs(jobs: &JobServerOverview, listen: &str) {
    let mut waiting = format!("{} in {}", jobs.enqueued, output::count(jobs.queues, "queue"));
    if jobs.enqueued > 0 {
        waiting += &format!(", the oldest for {}", output::seconds(jobs.latency_seconds_max));
    }
    let working = format!(
        "{} by {}; idle: {}",
        output::count(jobs.working, "job"),
        output::count(jobs.workers, "worker"),
        output::count(jobs.fetches_waiting, "connection")
    );
    let rows = [
        ("jobs at", listen.to_owned()),
        ("store", jobs.store_text()),
        ("waiting", waiting),
        ("working", working),
        ("scheduled", jobs.scheduled.to_string()),
        ("retries", jobs.retries.to_string()),
        ("dead", jobs.dead.to_string()),
        ("processed", format!("{} ({} failed)", jobs.processed_total, jobs.failed_total)),
        ("connections", jobs.connections.to_string()),
    ];
    for (name, value) in rows {
        output::line(&format!("{name:<12} {value}"));
    }
    if let Some(problem) = &jobs.log.problem {
        output::line(&format!("{:<12} PROBLEM: {problem}", "store"));
    }
    for shard in jobs.stores.iter().filter(|shard| shard.malformed_total > 0) {
        output::line(&format!(
            "{:<12} {} payloads in {} were no jobs: see the dead set",
            "MALFORMED", shard.malformed_total, shard.shard
        ));
    }
    print_shards(&jobs.log.shards);
    let noun = if jobs.log.damages == 1 { "place" } else { "places" };
    if jobs.log.damages > 0 {
        output::line(&format!(
            "DAMAGED      {} {noun} of the job store, unacknowledged: see `weir jobs damage`",
            jobs.log.damages
        ));
    }
}

fn print_shards(shards: &[ShardView]) {
    for shard in shards {
        let ShardView { name, address, enqueued, working, .. } = shard;
        let in_sets = shard.scheduled + shard.retries + shard.dead;
        let at = if name == address { String::new() } else { format!(" at {address}") };
        output::line(&format!(
            "{:<12} {name}{at}: {}, {enqueued} waiting, {working} working, {in_sets} in sets, {}",
            "shard",
            shard.state(),
            about_size(shard.memory_bytes)
        ));
    }
}

fn print_realtime(status: &Status) {
    let Some(realtime) = &status.realtime else { return };
    if realtime.apps.is_empty() && status.realtime_listen.is_none() {
        // Realtime is available at the front's address, but not configured.
        return;
    }
    let listen = [&status.front_listen, &status.realtime_listen];
    let listen: Vec<&str> = listen.into_iter().flatten().map(String::as_str).collect();
    output::line(&format!("{:<12} {}", "realtime at", listen.join(", ")));
    for app in &realtime.apps {
        let off = if app.is_enabled { "" } else { " (disabled)" };
        output::line(&format!(
            "{:<12} {}{off}: {} of {} connections, {} channels, {} users",
            "app", app.id, app.connections, app.connections_max, app.channels, app.users
        ));
    }
    realtime.log_shards.iter().for_each(print_log_shard);
}

fn print_log_shard(shard: &LogShardView) {
    let LogShardView { name, address, is_connected, problem, seconds, nodes } = shard;
    let state = match (is_connected, problem) {
        (true, _) => format!("connected, {}", output::count(*nodes, "node")),
        (false, None) => "connecting".to_owned(),
        (false, Some(problem)) => format!("AWAY since {seconds:.0} s: {problem}"),
    };
    output::line(&format!("{:<12} {name} at {address}: {state}", "broker"));
}

fn print_gems(status: &Status) {
    if status.gems.is_none() && status.gems_problem.is_none() {
        return;
    }
    let mounted = status.gems_mount.as_deref().zip(status.front_listen.as_deref());
    let mounted = mounted.map(|(mount, listen)| format!("{listen}{mount}"));
    let places: Vec<String> = status.gems_listen.iter().cloned().chain(mounted).collect();
    output::line(&format!("{:<12} {}", "gems at", places.join(", ")));
    if let Some(problem) = &status.gems_problem {
        output::line(&format!("{:<12} PROBLEM: {problem}", "gems"));
    }
    let Some(gems) = &status.gems else { return };
    output::line(&format!(
        "{:<12} {} with releases, /versions has {} bytes",
        "gems", gems.gems, gems.versions_bytes
    ));
    if !gems.switched_off.is_empty() {
        output::line(&format!("{:<12} {}", "switched off", gems.switched_off.join(", ")));
    }
}

fn print_app(status: &Status, app: &AppRow) {
    let works = |worker: &&WorkerRow| matches!(worker.state.as_str(), "serving" | "running");
    let working = app.workers.iter().filter(works).count();
    let wanted = app.processes.map_or(app.workers.len(), |wanted| wanted as usize);
    if app.mode == JOBS {
        let name = &app.name;
        return output::line(&format!("{:<12} {name}: {working} of {wanted} running", "workers"));
    }
    let listen = app.listen.as_deref().or(status.front_listen.as_deref()).unwrap_or_default();
    let mut words = vec![
        format!("{working} of {wanted} workers serving"),
        format!("{} requests waiting", app.requests_waiting),
    ];
    let held = [
        (app.is_paused, "paused"),
        (app.is_overloaded, "overloaded"),
        (app.is_in_maintenance, "in maintenance"),
    ];
    words.extend(held.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| (*word).to_owned()));
    output::line(&format!("{:<12} {} at {listen}: {}", "front", app.name, words.join(", ")));
    if let Some(problem) = app.workers.iter().find_map(|worker| worker.problem.as_ref()) {
        output::line(&format!("{:<12} PROBLEM: {problem}", app.name));
    }
}
