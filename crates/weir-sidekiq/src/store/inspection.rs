//! Checks a Redis for `weir check`, before the store uses it.

use super::keys::StoreKeys;
use super::lease::{LAYOUT, layout_error};
use super::link::RedisLink;
use super::permissions::Permissions;
use super::settings::RedisStoreSettings;
use crate::endpoint::RedisEndpoint;

/// Returns the command that grants the user of the store all that it needs with these settings:
/// `ACL SETUSER weir ~queues .. +time ..`.
#[must_use]
pub fn acl_line(endpoint: &RedisEndpoint, settings: &RedisStoreSettings) -> String {
    Permissions::of_store(endpoint, settings).line()
}

/// Connects as the store does, and checks the version and the role of the server, the permissions
/// of the user, and the layout of Weir's keys.
///
/// # Errors
/// Returns an error in words for operators if the store could not be used.
pub async fn check_server(
    endpoint: &RedisEndpoint,
    settings: &RedisStoreSettings,
) -> Result<(), String> {
    let link = RedisLink::of_store(endpoint, settings);
    let mut connection = link.connection().await.map_err(|error| error.to_string())?;
    let key = StoreKeys::new(&settings.namespace, &settings.prefix).layout();
    let found: Result<Option<String>, _> =
        redis::cmd("GET").arg(&key).query_async(&mut connection).await;
    let found = found.map_err(|error| link.failed(&error).to_string())?;
    match found.filter(|found| found != LAYOUT) {
        Some(found) => Err(layout_error(&key, &found)),
        None => Ok(()),
    }
}
