//! The plan beside the application's own compose file.

use std::fmt::Write;

use weir_advisor::plan::{Plan, ServiceLayout, WorkerLayout};

use super::queue_flags;
use super::systemd::{FIRST_PORT, STREAMING, WEB, variables};

/// The services of the application's compose file that a plan changes.
pub(in crate::commands) struct ComposeNames<'a> {
    /// The file that has the service of Sidekiq.
    pub(in crate::commands) file: &'a str,
    pub(in crate::commands) web: Option<&'a str>,
    pub(in crate::commands) streaming: Option<&'a str>,
    pub(in crate::commands) sidekiq: &'a str,
}

const USUAL: ComposeNames<'_> = ComposeNames {
    file: "docker-compose.yml",
    web: Some(WEB),
    streaming: Some(STREAMING),
    sidekiq: "sidekiq",
};

/// Services of the application's own file, but for their pools; and each process of Sidekiq as its
/// `sidekiq` is, but for its command.
pub(super) fn text(plan: &Plan) -> String {
    let head = "# Put this file beside the application's docker-compose.yml. It changes the services `web` and `streaming`, and\n\
        # replaces `sidekiq` by the services below. Values here override env_file.\n\
        services:\n";
    head.to_owned() + &services(plan, &USUAL)
}

/// Returns the services of a plan, indented.
pub(in crate::commands) fn services(plan: &Plan, names: &ComposeNames<'_>) -> String {
    let mut text = String::new();
    for service in &plan.layout.services {
        let name = if service.name == WEB { names.web } else { names.streaming };
        text.extend(name.and_then(|name| service_text(service, name)));
    }
    let ComposeNames { file, sidekiq, .. } = names;
    let _ = write!(text, "  {sidekiq}:\n    deploy:\n      replicas: 0\n");
    for worker in &plan.layout.workers {
        let WorkerLayout { name, concurrency, pool, processes, .. } = worker;
        let _ = write!(
            text,
            "  {name}:\n    extends:\n      file: {file}\n      service: {sidekiq}\n    \
             command: bundle exec sidekiq -c {concurrency}{}\n    \
             environment:\n      DB_POOL: \"{pool}\"\n    \
             deploy:\n      replicas: {processes}\n",
            queue_flags(worker)
        );
    }
    text
}

fn service_text(service: &ServiceLayout, name: &str) -> Option<String> {
    let ServiceLayout { processes, .. } = service;
    if *processes == 0 || ![WEB, STREAMING].contains(&service.name.as_str()) {
        return None;
    }
    let mut text = format!("  {name}:\n    environment:\n");
    for (variable, value) in variables(service) {
        let _ = writeln!(text, "      {variable}: \"{value}\"");
    }
    if service.name == STREAMING && *processes > 1 {
        let last = FIRST_PORT.saturating_add(processes - 1);
        let _ = write!(
            text,
            "    # A port of the host for each, and each in nginx's `upstream streaming` (compose 2.24 or later).\n    \
             ports: !override\n      - \"127.0.0.1:{FIRST_PORT}-{last}:{FIRST_PORT}\"\n    \
             deploy:\n      replicas: {processes}\n"
        );
    }
    Some(text)
}
