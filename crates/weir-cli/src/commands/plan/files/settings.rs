//! The plan's processes of Sidekiq as `weir.toml` has them.

use std::fmt::Write;

use weir_advisor::plan::{Plan, WorkerLayout, queue_words};

use crate::commands::plan::arguments::PlanArguments;

pub(super) fn text(arguments: &PlanArguments, plan: &Plan) -> String {
    let mut text =
        "# Sidekiq processes that Weir runs, with `weir up --only workers`, instead of systemd units.\n"
            .to_owned();
    for worker in &plan.layout.workers {
        let WorkerLayout { name, concurrency, pool, processes, .. } = worker;
        let queues: Vec<String> =
            queue_words(worker).iter().map(|queue| format!("{queue:?}")).collect();
        let _ = write!(
            text,
            "\n[workers.{name}]\n\
             command = [\"bundle\", \"exec\", \"sidekiq\", \"-c\", \"{{concurrency}}\", \"{{queues}}\"]\n\
             folder = {:?}\nprocesses = {processes}\nconcurrency = {concurrency}\n\
             queues = [{}]\nqueue_flag = \"-q\"\nstop_deadline = \"35s\"\n\
             environment = {{ RAILS_ENV = \"production\", DB_POOL = \"{pool}\", MALLOC_ARENA_MAX = \"2\" }}\n",
            arguments.folder,
            queues.join(", ")
        );
    }
    text
}
