//! The nodes of a Redis Cluster: which of them has which slots, and a link to each.
//!
//! The client library's cluster client sends a command again after its connection broke, also one that
//! may have been executed, such as a push. Here a command is sent again only if a server has said that
//! it was not executed (`MOVED`, `ASK`, `TRYAGAIN`, `CLUSTERDOWN`) or nothing was sent. Each node has a
//! link of its own, so a node that is away fails only the commands for its slots, and a slot that can't
//! be used for longer fails only its own.
//!
//! - `links`: how the user of a router reaches the nodes.
//! - `router`: the slots and the links. `routing` sends commands, `request` is what one node gets.
//! - `condition`: which slots are served, and the state of each node.

mod condition;
mod links;
mod request;
mod router;
mod routing;

pub use self::condition::ClusterNodeState;
pub use self::links::{NodeConnection, NodeLink, NodeLinks};
pub use self::router::ClusterRouter;
pub use self::routing::{NamedReply, SlotWait};
