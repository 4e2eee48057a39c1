//! The Redis of the realtime broker: what its user needs, and whether it can be used now.

use serde_json::{Value, json};
use weir_config::Settings;
use weir_realtime_redis::{BrokerCheck, acl_line, check_server};

use crate::output;

/// The Redis of `realtime.broker`.
#[derive(Debug)]
pub(super) struct CheckedBroker {
    /// Its address.
    server: String,
    found: BrokerCheck,
}

/// Checks the Redis, if there is one. `offline`: without connecting.
pub(super) fn check(settings: &Settings, offline: bool) -> anyhow::Result<Option<CheckedBroker>> {
    let realtime = &settings.realtime;
    let Some(endpoint) = &realtime.redis_server else { return Ok(None) };
    let found = if offline {
        BrokerCheck { acl_line: acl_line(endpoint, &realtime.redis), problem: None }
    } else {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(check_server(endpoint, &realtime.redis))
    };
    Ok(Some(CheckedBroker { server: endpoint.to_string(), found }))
}

impl CheckedBroker {
    pub(super) const fn has_problem(&self) -> bool {
        self.found.problem.is_some()
    }

    pub(super) fn print(&self) {
        let (server, BrokerCheck { acl_line, problem }) = (&self.server, &self.found);
        output::line(&format!(
            "would share realtime in Redis {server}; its user needs: {acl_line}"
        ));
        if let Some(problem) = problem {
            output::line(&format!("problem: realtime.broker: {problem}"));
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let BrokerCheck { acl_line, problem } = &self.found;
        json!({"server": self.server, "acl_line": acl_line, "problem": problem})
    }
}
