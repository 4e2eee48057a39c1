//! The terms of the partitions of a server, which begin when it takes over from another one.

use redis::{Pipeline, RedisResult, Value};
use weir_redis::cluster_slots::Redirect;

use crate::command_connection::CommandConnection;
use crate::connections::CheckedServer;
use crate::keys::Keys;
use crate::partition::Partition;
use crate::scripts;

/// Begins a new term of each partition that the server has, unless it has begun one. Partitions that other
/// nodes of a cluster have are left to those. A slot that moves while it is in use keeps its term: it
/// loses nothing. Returns what identifies the data of each partition of the server.
///
/// Without a term that should begin, a server that lacks events would give their offsets to others: so each
/// other error of a partition is one of the session, also that of a slot that can't be used yet.
pub(crate) async fn begin(
    mut server: CheckedServer,
    keys: &Keys,
    cluster: &mut CommandConnection,
) -> RedisResult<Vec<(Partition, String)>> {
    let fence = |partition| scripts::fence(keys, &server.id, partition);
    let mut pipeline = Pipeline::with_capacity(Partition::all().count());
    for partition in Partition::all() {
        pipeline.add_command(fence(partition));
    }
    let replies: Vec<Value> = pipeline.ignore_errors().query_async(&mut server.commands).await?;
    let mut ids = Vec::with_capacity(replies.len());
    for (partition, reply) in Partition::all().zip(replies) {
        let id = match Redirect::of(&Ok(reply.clone()), "") {
            Some(Redirect::Moved(_)) => continue,
            // The slot is still the server's, but the key of the term has been moved already.
            Some(Redirect::Ask(_)) => fence(partition).query_async(cluster).await?,
            _ => redis::from_redis_value(reply.extract_error()?)?,
        };
        ids.push((partition, id));
    }
    Ok(ids)
}
