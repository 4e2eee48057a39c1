//! The Redis of the realtime broker: what its user needs, and whether it can be used now.

use serde_json::{Value, json};
use weir_config::Settings;
use weir_realtime_redis::{BrokerCheck, check_server, cluster_acl_words, unchecked_server};

use crate::output;

/// A Redis of `realtime.broker`.
#[derive(Debug)]
pub(super) struct CheckedBroker {
    /// Its address.
    server: String,
    found: BrokerCheck,
}

/// Checks each Redis of the broker. `offline`: without connecting.
pub(super) fn check(settings: &Settings, offline: bool) -> anyhow::Result<Vec<CheckedBroker>> {
    let realtime = &settings.realtime;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let check = |endpoint| CheckedBroker {
        server: format!("{endpoint}"),
        found: match offline {
            true => unchecked_server(endpoint, &realtime.redis),
            false => runtime.block_on(check_server(endpoint, &realtime.redis)),
        },
    };
    Ok(realtime.redis_shards.iter().map(|shard| check(&shard.endpoint)).collect())
}

impl CheckedBroker {
    pub(super) const fn has_problem(&self) -> bool {
        self.found.problem.is_some()
    }

    pub(super) fn print(&self) {
        let (server, BrokerCheck { acl_line, is_mode_known, problem }) =
            (&self.server, &self.found);
        output::line(&format!(
            "would share realtime in Redis {server}; its user needs: {acl_line}"
        ));
        if !is_mode_known {
            let words = cluster_acl_words();
            output::line(&format!("if it is a Redis Cluster, its user needs as well: {words}"));
        }
        if let Some(problem) = problem {
            output::line(&format!("problem: realtime.broker: {problem}"));
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let BrokerCheck { acl_line, is_mode_known: _, problem } = &self.found;
        json!({"server": self.server, "acl_line": acl_line, "problem": problem})
    }
}
