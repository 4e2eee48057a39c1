//! The terms of the partitions of a server, which begin when it takes over from another one.

use redis::{RedisResult, Value};
use weir_redis::cluster_slots::is_redirect;

use crate::connections::CheckedServer;
use crate::keys::Keys;
use crate::scripts;

/// Begins a new term of each partition that the server has, unless it has begun one. Partitions that other
/// nodes of a cluster have are left to those. A slot that moves while it is in use keeps its term: it
/// loses nothing.
pub(crate) async fn begin(mut server: CheckedServer, keys: &Keys) -> RedisResult<()> {
    let mut pipeline = scripts::fence(keys, &server.id);
    pipeline.ignore_errors();
    let replies: Vec<Value> = pipeline.query_async(&mut server.commands).await?;
    for reply in replies {
        if !is_redirect(&reply) {
            reply.extract_error()?;
        }
    }
    Ok(())
}
