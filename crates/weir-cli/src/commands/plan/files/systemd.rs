//! Units for Sidekiq processes, and drop-ins for the existing web and streaming units.

use weir_advisor::plan::{ServiceLayout, WorkerLayout};

use super::earlier::MARK;
use super::queue_flags;
use crate::commands::plan::arguments::PlanArguments;

pub(super) const WEB: &str = "web";
pub(super) const STREAMING: &str = "streaming";
/// The first streaming port: Mastodon names the instances of its unit by their ports.
pub(super) const FIRST_PORT: u32 = 4_000;

/// Returns a unit's name and text.
pub(super) fn unit(arguments: &PlanArguments, worker: &WorkerLayout) -> (String, String) {
    let PlanArguments { folder, user, .. } = arguments;
    let WorkerLayout { name, concurrency, pool, processes, .. } = worker;
    let queues = queue_flags(worker);
    // A template unit is used for several processes: its instances are numbers.
    let many = if *processes > 1 { "@" } else { "" };
    let enable = match processes {
        1 => name.clone(),
        many => (1..=*many).map(|at| format!("{name}@{at}")).collect::<Vec<_>>().join(" "),
    };
    // A running unit applies changes only at a restart, so `--now` is not sufficient.
    let text = format!(
        "{MARK}# systemctl enable {enable} && systemctl restart {enable}\n\
         # First: systemctl disable --now mastodon-sidekiq (and other Sidekiq units that are not part of this\n\
         # plan); otherwise both use connections, and scheduled jobs run twice.\n\
         # systemd searches for `bundle` in its own PATH. With rbenv, replace `/usr/bin/env bundle` by the path in\n\
         # ExecStart= of mastodon-sidekiq, which ends in .rbenv/shims/bundle.\n\
         [Unit]\nDescription={name}\nAfter=network.target\n\n\
         [Service]\nUser={user}\nWorkingDirectory={folder}\n\
         Environment=RAILS_ENV=production DB_POOL={pool} MALLOC_ARENA_MAX=2\n\
         ExecStart=/usr/bin/env bundle exec sidekiq -c {concurrency}{queues}\n\
         # Sidekiq waits up to 25 s for its jobs.\nTimeoutStopSec=35s\nRestart=always\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    );
    (format!("{name}{many}.service"), text)
}

/// Returns the drop-in for a unit that the application already has; None: it needs none.
///
/// They are not in a shared environment file, since they would then also apply to Sidekiq.
pub(super) fn drop_in(service: &ServiceLayout) -> Option<(String, String)> {
    let (unit, then, why) = match service.name.as_str() {
        WEB => (
            "mastodon-web",
            "systemctl restart mastodon-web".to_owned(),
            "# Puma processes, threads of each, and one connection for each thread.\n",
        ),
        STREAMING => (
            "mastodon-streaming@",
            systemd_instances(service.processes),
            "# Connections of each instance. Each instance needs a port and a line in nginx's `upstream streaming`;\n\
             # Mastodon 4.2 has removed STREAMING_CLUSTER_NUM.\n",
        ),
        _ => return None,
    };
    let variables = variables(service);
    let set: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let text = format!(
        "{MARK}# Then: systemctl daemon-reload && {then}\n\
         # For the unit that Mastodon ships. If yours has another name, rename this folder accordingly.\n\
         # It overrides .env.production, but not EnvironmentFile= of the unit.\n\
         [Service]\n{why}Environment={}\n",
        set.join(" ")
    );
    (service.processes > 0).then(|| (format!("{unit}.service.d/weir.conf"), text))
}

/// Returns the environment variables that the plan sets for a service.
pub(super) fn variables(service: &ServiceLayout) -> Vec<(&'static str, u32)> {
    let ServiceLayout { name, processes, threads, pool, .. } = service;
    let pool = ("DB_POOL", *pool);
    match name.as_str() {
        WEB => vec![("WEB_CONCURRENCY", *processes), ("MAX_THREADS", *threads), pool],
        _ => vec![pool],
    }
}

fn systemd_instances(processes: u32) -> String {
    let ports = (0..processes).map(|at| FIRST_PORT.saturating_add(at));
    let instances: Vec<_> = ports.map(|port| format!("mastodon-streaming@{port}")).collect();
    format!("systemctl enable {0} && systemctl restart {0}", instances.join(" "))
}
