//! Checks a Redis for `weir check`, before the store uses it.

use weir_redis::RedisEndpoint;

use super::keys::StoreKeys;
use super::lease::layout_error;
use super::link::RedisLink;
use super::permissions::Permissions;
use super::settings::RedisStoreSettings;

/// What a check of a Redis has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCheck {
    /// The command that grants the user of the store all that it needs: [`acl_line`], with the words
    /// for a cluster if the Redis is one.
    pub acl_line: String,
    /// Whether it is known if the Redis is a cluster.
    pub is_mode_known: bool,
    /// Whether each step may use the keys of one slot only, so that limits can't hold over several queues:
    /// [`NO_RESOURCES_IN_CLUSTER`].
    pub is_split: bool,
    /// Why the store could not be used, in words for operators.
    pub problem: Option<String>,
}

/// Why `jobs.resources` can't be kept where [`ServerCheck::is_split`].
pub const NO_RESOURCES_IN_CLUSTER: &str = "jobs.resources needs a Redis that is no cluster and no proxy before several servers, or the embedded store: here, each step uses the keys of one queue only";

/// Returns the command that grants the user of the store all that it needs with these settings on a
/// Redis without cluster mode: `ACL SETUSER weir ~queues .. +time ..`.
#[must_use]
pub fn acl_line(endpoint: &RedisEndpoint, settings: &RedisStoreSettings) -> String {
    Permissions::of_store(endpoint, settings).line()
}

/// Returns the words that the user needs in addition on each node of a Redis Cluster.
#[must_use]
pub fn cluster_acl_words() -> String {
    Permissions::cluster_words()
}

/// Returns what is known of a Redis that was not reached.
#[must_use]
pub fn unchecked_server(endpoint: &RedisEndpoint, settings: &RedisStoreSettings) -> ServerCheck {
    known(None, endpoint, settings)
}

fn known(
    line: Option<String>,
    endpoint: &RedisEndpoint,
    settings: &RedisStoreSettings,
) -> ServerCheck {
    let is_mode_known = line.is_some();
    let acl_line = line.unwrap_or_else(|| acl_line(endpoint, settings));
    ServerCheck { acl_line, is_mode_known, is_split: false, problem: None }
}

/// Connects as the store does, and checks the version and the role of the server, the permissions
/// of the user, and the layout of Weir's keys. Of a Redis Cluster, checks each master.
pub async fn check_server(endpoint: &RedisEndpoint, settings: &RedisStoreSettings) -> ServerCheck {
    let link = RedisLink::of_store(endpoint, settings);
    let problem = find_problem(&link, settings).await.err();
    let is_split = link.is_split();
    ServerCheck { is_split, problem, ..known(link.acl_line(), endpoint, settings) }
}

async fn find_problem(link: &RedisLink, settings: &RedisStoreSettings) -> Result<(), String> {
    let mut connection = link.connection().await.map_err(|error| error.to_string())?;
    link.check_nodes().await?;
    let key = StoreKeys::new(&settings.namespace, &settings.prefix).layout();
    let found: Result<Option<String>, _> =
        redis::cmd("GET").arg(&key).query_async(&mut connection).await;
    let found = found.map_err(|error| link.failed(&error).to_string())?;
    found.and_then(|found| layout_error(&key, &found)).map_or(Ok(()), Err)
}
