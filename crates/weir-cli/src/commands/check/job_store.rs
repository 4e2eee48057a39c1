//! The Redis of the job store: what its user needs, and whether it can be used now.

use serde_json::{Value, json};
use weir_config::Settings;
use weir_sidekiq::store::{
    NO_BATCHES_OF_JOBS, NO_RESOURCES_IN_CLUSTER, NO_UNIQUE_JOBS, ServerCheck, check_server,
    cluster_acl_words, unchecked_server,
};

use crate::output;

/// A Redis of `jobs.store`.
#[derive(Debug)]
pub(super) struct CheckedRedis {
    /// Its address.
    server: String,
    found: ServerCheck,
}

/// Checks each Redis of the store. `offline`: without connecting.
pub(super) fn check(settings: &Settings, offline: bool) -> anyhow::Result<Vec<CheckedRedis>> {
    let jobs = &settings.jobs;
    let servers =
        jobs.redis_shards.iter().map(|shard| &shard.endpoint).filter(|_| jobs.listen.is_some());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let check = |endpoint| {
        let mut found = match offline {
            true => unchecked_server(endpoint, &jobs.redis),
            false => runtime.block_on(check_server(endpoint, &jobs.redis)),
        };
        if found.is_split && !jobs.settings.resources.is_empty() {
            found.problem.get_or_insert_with(|| NO_RESOURCES_IN_CLUSTER.to_owned());
        }
        CheckedRedis { server: format!("{endpoint}"), found }
    };
    Ok(servers.map(check).collect())
}

impl CheckedRedis {
    pub(super) const fn has_problem(&self) -> bool {
        self.found.problem.is_some()
    }

    pub(super) fn print(&self) {
        let (server, ServerCheck { acl_line, is_mode_known, is_split, problem }) =
            (&self.server, &self.found);
        output::line(&format!("would keep jobs in Redis {server}; its user needs: {acl_line}"));
        if !is_mode_known {
            let words = cluster_acl_words();
            output::line(&format!("if it is a Redis Cluster, its user needs as well: {words}"));
        }
        if *is_split {
            output::line(&format!("not there: {NO_UNIQUE_JOBS}"));
            output::line(&format!("not there: {NO_BATCHES_OF_JOBS}"));
        }
        if let Some(problem) = problem {
            output::line(&format!("problem: jobs.store: {problem}"));
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let ServerCheck { acl_line, is_mode_known: _, is_split: _, problem } = &self.found;
        json!({"server": self.server, "acl_line": acl_line, "problem": problem})
    }
}
