//! From what runs today to the options of the plan, and from the plan to tables and upstreams.

use std::fmt::Write;

use weir_advisor::plan::{Gap, Plan, Proof};

use super::ruby_app::{RubyApp, RubyKind};
use crate::commands::init::app::findings::Findings;
use crate::commands::init::app::settings::{FrontApp, Variable, fixed};
use crate::commands::init::app::today::Today;
use crate::commands::plan::check::foreign::command::Program;
use crate::commands::plan::planned::Planned;
use crate::commands::plan::report;

pub(super) const STREAMING_PATH: &str = "/api/v1/streaming";
/// Requests and streams that one streaming process serves at once: it runs an event loop.
pub(super) const STREAMING_CONCURRENCY: u32 = 1_000;
/// Puma's default.
const WEB_THREADS: u32 = 5;
/// Ports that Mastodon's web and streaming have by default.
const WEB_PORT: u16 = 3_000;
const STREAMING_PORT: u16 = 4_000;
/// Returns the options of `weir plan` that the files determine.
pub(super) fn options(app: &RubyApp<'_>, queues: &[String]) -> Vec<String> {
    let mut options = vec!["--pushes".to_owned(), queues.join(",")];
    let mut add = |name: &str, value: String| options.extend([name.to_owned(), value]);
    add("--web-threads", web_threads(&app.today).to_string());
    let mut streaming = app.today.services(Program::Streaming);
    if let Some(service) = streaming.next().filter(|it| it.gaps.is_empty()) {
        add("--streaming", format!("{}x{}", service.processes.max(1), service.pool.max(1)));
    }
    if let Some(connections) = app.today.deployment.as_ref().and_then(|it| it.max_connections) {
        add("--max-connections", connections.to_string());
    }
    let compose = app.today.compose.as_ref();
    let has = |words: &[&str]| compose.map(|it| it.with_image(words).is_some());
    let has_postgres = has(&["postgres", "postgresql", "postgis", "pgvector"]);
    if !has_postgres.unwrap_or(app.database.is_local) || app.gems.has("mysql2") {
        add("--postgres-memory", "0".to_owned());
    }
    let is_local = app.redis.as_ref().is_ok_and(|place| place.is_local);
    if !has(&["redis", "valkey"]).unwrap_or(is_local) {
        add("--redis-memory", "0".to_owned());
    }
    options
}

/// Returns the threads that a web process has today.
pub(super) fn web_threads(today: &Today) -> u32 {
    let known = today.services(Program::Puma).filter(|it| !it.gaps.contains(&Gap::Threads));
    known.map(|it| it.threads).max().unwrap_or(WEB_THREADS).max(1)
}

/// Returns the variables that set threads and pools.
pub(super) fn pool_variables(kind: RubyKind, threads: u32, pool: u32) -> Vec<Variable> {
    let name = match kind {
        RubyKind::Mastodon => "MAX_THREADS",
        RubyKind::Rails => "RAILS_MAX_THREADS",
    };
    vec![fixed(name, threads), fixed("DB_POOL", pool)]
}

/// Returns the processes of today and by plan, and what the plan does not prove.
pub(super) fn tables(today: &Today, planned: &Planned) -> String {
    let mut text = String::new();
    if let Some(layout) = today.layout() {
        let _ = write!(text, "today:\n{}\n\n", report::processes(layout).join("\n"));
    }
    let Plan { layout, proofs, .. } = &planned.plan;
    let mut layout = layout.clone();
    layout.services.retain(|it| it.processes > 0);
    let source = if planned.is_measured { "measured" } else { "not measured" };
    let _ =
        write!(text, "by plan (queues {source}):\n{}\n\n", report::processes(&layout).join("\n"));
    let others: Vec<Proof> = proofs.iter().filter(|proof| !proof.holds()).cloned().collect();
    let holding = proofs.len() - others.len();
    let _ = write!(
        text,
        "{holding} of {} rules of the plan hold\n{}",
        proofs.len(),
        report::proofs(&others)
    );
    text
}

/// Returns the front's apps for processes in containers.
pub(super) fn upstreams(app: &RubyApp<'_>, plan: &Plan, findings: &mut Findings) -> Vec<FrontApp> {
    let mut apps = Vec::new();
    for service in plan.layout.services.iter().filter(|it| it.processes > 0) {
        let (program, port) = match service.name.as_str() {
            "web" => (Program::Puma, WEB_PORT),
            _ => (Program::Streaming, STREAMING_PORT),
        };
        let name = app.today.services(program).next().map(|it| it.name.clone());
        let published =
            name.as_ref().and_then(|name| app.today.compose.as_ref()?.published(name, port));
        if published.is_none() {
            findings.assumed.push(format!(
                "{} listens at 127.0.0.1:{port}, because the compose file publishes no such port of it",
                service.name
            ));
        }
        let first = published.unwrap_or_else(|| format!("127.0.0.1:{port}"));
        apps.push(match program {
            Program::Puma => FrontApp {
                name: "web",
                upstreams: vec![first],
                // One address for all processes of the container.
                concurrency: service.processes.saturating_mul(service.threads),
                is_blocked_by_streams: true,
                ..FrontApp::default()
            },
            _ => FrontApp {
                name: "streaming",
                paths: vec![STREAMING_PATH],
                upstreams: several(&first, service.processes),
                concurrency: STREAMING_CONCURRENCY,
                ..FrontApp::default()
            },
        });
    }
    apps
}

/// Returns an address and the following ports.
fn several(first: &str, processes: u32) -> Vec<String> {
    let Some((host, port)) = first.rsplit_once(':') else { return vec![first.to_owned()] };
    let port: u32 = port.parse().unwrap_or_default();
    (0..processes).map(|at| format!("{host}:{}", port.saturating_add(at))).collect()
}
