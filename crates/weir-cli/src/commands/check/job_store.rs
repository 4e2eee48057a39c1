//! The Redis of the job store: what its user needs, and whether it can be used now.

use serde_json::{Value, json};
use weir_config::Settings;
use weir_sidekiq::store::{acl_line, check_server};

use crate::output;

/// A Redis of `jobs.store`.
#[derive(Debug)]
pub(super) struct CheckedRedis {
    /// Its address.
    server: String,
    /// The command that grants what the store needs.
    acl_line: String,
    /// Why the store can't use it.
    problem: Option<String>,
}

/// Checks each Redis of the store. `offline`: without connecting.
pub(super) fn check(settings: &Settings, offline: bool) -> anyhow::Result<Vec<CheckedRedis>> {
    let jobs = &settings.jobs;
    let servers =
        jobs.redis_shards.iter().map(|shard| &shard.endpoint).filter(|_| jobs.listen.is_some());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let check = |endpoint| CheckedRedis {
        server: format!("{endpoint}"),
        acl_line: acl_line(endpoint, &jobs.redis),
        problem: match offline {
            true => None,
            false => runtime.block_on(check_server(endpoint, &jobs.redis)).err(),
        },
    };
    Ok(servers.map(check).collect())
}

impl CheckedRedis {
    pub(super) const fn has_problem(&self) -> bool {
        self.problem.is_some()
    }

    pub(super) fn print(&self) {
        let Self { server, acl_line, problem } = self;
        output::line(&format!("would keep jobs in Redis {server}; its user needs: {acl_line}"));
        if let Some(problem) = problem {
            output::line(&format!("problem: jobs.store: {problem}"));
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { server, acl_line, problem } = self;
        json!({"server": server, "acl_line": acl_line, "problem": problem})
    }
}
