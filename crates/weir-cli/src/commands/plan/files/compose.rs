//! The plan beside the application's own docker-compose.yml.

use std::fmt::Write;

use weir_advisor::plan::{Plan, ServiceLayout, WorkerLayout};

use super::queue_flags;
use super::systemd::{FIRST_PORT, STREAMING, WEB, variables};

/// Services of the application's own file, but for their pools; and each process of Sidekiq as its
/// `sidekiq` is, but for its command.
pub(super) fn text(plan: &Plan) -> String {
    let mut text = "# Put this file beside the application's docker-compose.yml. It changes the services `web` and `streaming`, and\n\
        # replaces `sidekiq` by the services below. Values here override env_file.\n\
        services:\n"
        .to_owned();
    for service in &plan.layout.services {
        text.push_str(&service_text(service).unwrap_or_default());
    }
    text.push_str("  sidekiq:\n    deploy:\n      replicas: 0\n");
    for worker in &plan.layout.workers {
        let WorkerLayout { name, concurrency, pool, processes, .. } = worker;
        let _ = write!(
            text,
            "  {name}:\n    extends:\n      file: docker-compose.yml\n      service: sidekiq\n    \
             command: bundle exec sidekiq -c {concurrency}{}\n    \
             environment:\n      DB_POOL: \"{pool}\"\n    \
             deploy:\n      replicas: {processes}\n",
            queue_flags(worker)
        );
    }
    text
}

fn service_text(service: &ServiceLayout) -> Option<String> {
    let ServiceLayout { name, processes, .. } = service;
    if *processes == 0 || ![WEB, STREAMING].contains(&name.as_str()) {
        return None;
    }
    let mut text = format!("  {name}:\n    environment:\n");
    for (variable, value) in variables(service) {
        let _ = writeln!(text, "      {variable}: \"{value}\"");
    }
    if name == STREAMING && *processes > 1 {
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
