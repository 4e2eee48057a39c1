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
        let id = match Term::of(reply)? {
            Term::OfAnotherNode => continue,
            Term::Asked => fence(partition).query_async(cluster).await?,
            Term::Begun(id) => id,
        };
        ids.push((partition, id));
    }
    Ok(ids)
}

/// What a server says of the term of a partition.
#[derive(Debug, PartialEq, Eq)]
enum Term {
    /// It has begun, or had before. The id of the partition's data.
    Begun(String),
    /// Another node of the cluster has the partition.
    OfAnotherNode,
    /// The slot is still the server's, but the key of the term has been moved already.
    Asked,
}

impl Term {
    fn of(reply: Value) -> RedisResult<Self> {
        match Redirect::of(&Ok(reply.clone()), "") {
            Some(Redirect::Moved(_)) => Ok(Self::OfAnotherNode),
            Some(Redirect::Ask(_)) => Ok(Self::Asked),
            Some(Redirect::Wait) | None => {
                Ok(Self::Begun(redis::from_redis_value(reply.extract_error()?)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(reply: &str) -> RedisResult<Term> {
        Term::of(redis::parse_redis_value(format!("{reply}\r\n").as_bytes()).unwrap())
    }

    /// A master that was restarted rejects commands for a while, and may lack events.
    #[test]
    fn a_slot_that_can_not_be_used_yet_is_an_error() {
        for reply in [
            "-CLUSTERDOWN The cluster is down",
            "-CLUSTERDOWN Hash slot not served",
            "-TRYAGAIN Multiple keys request during rehashing of slot",
            "-LOADING Redis is loading the dataset in memory",
        ] {
            assert!(term(reply).is_err(), "{reply}");
        }
        assert_eq!(term("-MOVED 7 10.0.0.1:6379").unwrap(), Term::OfAnotherNode);
        assert_eq!(term("-ASK 7 10.0.0.1:6379").unwrap(), Term::Asked);
        assert_eq!(term("+00000000000000ab").unwrap(), Term::Begun("00000000000000ab".into()));
    }
}
