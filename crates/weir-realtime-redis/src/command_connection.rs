//! The connection for commands: to one server, or to all nodes of a Redis Cluster.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisFuture, Value};
use weir_redis::cluster::ClusterConnection;

/// A connection for commands. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum CommandConnection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for CommandConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(server) => server.req_packed_command(command),
            Self::Cluster(cluster) => cluster.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(server) => server.req_packed_commands(pipeline, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        0
    }
}
