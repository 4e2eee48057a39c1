//! Sends commands to the nodes that have their keys.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, Pipeline, RedisResult, Value};

use super::condition::is_usable;
use super::request::SlotRequest;
use super::router::ClusterRouter;
use crate::cluster_slots::{NodeAddress, Redirect, is_redirect, is_wait, name_of};
use crate::node_away::{away, away_of, is_away};
use crate::slots::slot_of_command;

/// How often a command is sent at most. With the waits this is two seconds, in which a slot may move or
/// a node learn its state.
const ATTEMPTS_MAX: u32 = 8;
/// The first wait after `TRYAGAIN` or `CLUSTERDOWN`. Each further one is twice as long.
const RETRY_WAIT: Duration = Duration::from_millis(8);

/// What a command does while its slot can't be used (`TRYAGAIN`, `CLUSTERDOWN`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotWait {
    /// It waits for up to two seconds, and fails then.
    Retry,
    /// It fails at once: its user has something else to do meanwhile.
    Fail,
}

/// The address of a server, and its reply.
pub type NamedReply = (String, RedisResult<Value>);

impl SlotWait {
    /// Waits before a further attempt. Returns whether there is one.
    async fn pause(self, attempt: u32) -> bool {
        let goes_on = self == Self::Retry && attempt + 1 < ATTEMPTS_MAX;
        if goes_on {
            tokio::time::sleep(RETRY_WAIT * 2_u32.pow(attempt)).await;
        }
        goes_on
    }
}

impl ClusterRouter {
    /// Sends a command to the node that has its keys. One without keys goes to any node, and a script
    /// that is loaded to all.
    ///
    /// # Errors
    /// Returns the error of a connection. Then the command may have been executed. Errors of a server, and
    /// that of a node to which nothing was sent, are values.
    pub async fn send(&self, command: &Cmd, wait: SlotWait) -> RedisResult<Value> {
        let Some(slot) = slot_of_command(command) else {
            let mut replies = self.send_to_all(command).await.into_iter().map(|(_, reply)| reply);
            let first = replies.next().unwrap_or_else(|| Ok(away("the cluster has no nodes")));
            return replies.find(is_usable).unwrap_or(first);
        };
        let reply = self.send_to_owner(slot, SlotRequest::Command(command), wait).await;
        self.note_state(&reply);
        reply
    }

    /// Sends a command to each node. The replies of nodes that are away are errors.
    pub async fn send_to_all(&self, command: &Cmd) -> Vec<NamedReply> {
        let nodes = self.map().nodes.clone();
        let request = SlotRequest::Command(command);
        let sending = nodes.iter().map(|(address, node)| async move {
            (name_of(address), request.send_to(&**node, false).await)
        });
        join_all(sending).await
    }

    /// Sends the commands of a pipeline to the nodes that have their keys, those of one slot in order. A
    /// node that is away replies with an error to its commands. The keys of a transaction are in one slot.
    ///
    /// # Errors
    /// As [`send`](Self::send); only of a transaction.
    pub async fn send_pipeline(
        &self,
        pipeline: &Pipeline,
        wait: SlotWait,
    ) -> RedisResult<Vec<Value>> {
        if pipeline.is_transaction() {
            return self.send_transaction(pipeline, wait).await;
        }
        let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
        let mut parts: BTreeMap<Option<NodeAddress>, Vec<usize>> = BTreeMap::new();
        for (place, command) in commands.iter().enumerate() {
            let owner = slot_of_command(command).and_then(|slot| self.owner_of(slot));
            parts.entry(owner).or_default().push(place);
        }
        let sending =
            parts.into_iter().map(|(node, places)| self.send_part(node, &commands, places, wait));
        let mut values: Vec<_> = join_all(sending).await.into_iter().flatten().collect();
        values.sort_unstable_by_key(|(place, _)| *place);
        Ok(values.into_iter().map(|(_, value)| value).collect())
    }

    /// Sends a transaction. An error of its commands, of which none was executed then, is its error.
    async fn send_transaction(
        &self,
        pipeline: &Pipeline,
        wait: SlotWait,
    ) -> RedisResult<Vec<Value>> {
        let slot = pipeline.cmd_iter().find_map(slot_of_command).unwrap_or_default();
        let reply = self.send_to_owner(slot, SlotRequest::Transaction(pipeline), wait).await?;
        Ok(vec![reply.extract_error()?])
    }

    /// Sends a request to the node that has the slot.
    async fn send_to_owner(
        &self,
        slot: u16,
        request: SlotRequest<'_>,
        wait: SlotWait,
    ) -> RedisResult<Value> {
        let (mut target, mut is_asking) = (self.owner_of(slot), false);
        let mut reply = Ok(away("no node of the cluster has the slot of this key"));
        for attempt in 0..ATTEMPTS_MAX {
            let Some(node) = target.clone() else {
                self.refresh().await;
                target = self.owner_of(slot);
                if target.is_none() && !wait.pause(attempt).await {
                    break;
                }
                continue;
            };
            let link = self.node(&node);
            reply = request.send_to(&*link, is_asking).await;
            is_asking = false;
            match Redirect::of(&reply, &node.0) {
                Some(Redirect::Moved(owner)) => {
                    self.note_owner(slot, &owner);
                    self.refresh().await;
                    target = Some(owner);
                }
                Some(Redirect::Ask(owner)) => (target, is_asking) = (Some(owner), true),
                Some(Redirect::Wait) => {
                    let goes_on = wait.pause(attempt).await;
                    self.refresh().await;
                    if !goes_on {
                        break;
                    }
                    target = self.owner_of(slot);
                }
                None if link.absence_text().is_some() => {
                    self.refresh().await;
                    // Another node may have taken its place. What was sent is not sent again.
                    let owner = self.owner_of(slot);
                    if !is_away(&reply) || owner == target {
                        break;
                    }
                    target = owner;
                }
                None => break,
            }
        }
        reply
    }

    /// Sends some commands of a pipeline to a node, and then again those that were not executed. Returns
    /// the places of all and the replies.
    async fn send_part(
        &self,
        node: Option<NodeAddress>,
        commands: &[&Cmd],
        places: Vec<usize>,
        wait: SlotWait,
    ) -> Vec<(usize, Value)> {
        let replies = match &node {
            Some(node) => self.send_first(node, commands, &places).await,
            None => None,
        };
        let mut replies = replies.into_iter().flatten();
        let mut values = Vec::with_capacity(places.len());
        let mut left: BTreeMap<Option<u16>, Vec<usize>> = BTreeMap::new();
        for place in places {
            match replies.next() {
                Some(value) if !is_redirect(&value) => values.push((place, value)),
                _ => left.entry(slot_of_command(commands[place])).or_default().push(place),
            }
        }
        let sending = left.into_values().map(|places| self.send_again(commands, places, wait));
        values.extend(join_all(sending).await.into_iter().flatten());
        values
    }

    /// Sends some commands to a node. `None`: nothing was sent.
    async fn send_first(
        &self,
        node: &NodeAddress,
        commands: &[&Cmd],
        places: &[usize],
    ) -> Option<Vec<Value>> {
        let link = self.node(node);
        if link.absence_text().is_some() {
            return None;
        }
        let mut connection = link.connection().await.ok()?;
        let mut part = Pipeline::with_capacity(places.len());
        for place in places {
            part.add_command(commands[*place].clone());
        }
        match connection.req_packed_commands(&part, 0, places.len()).await {
            Ok(values) if values.len() == places.len() => Some(values),
            Ok(_) => None,
            Err(error) => {
                self.refresh().await;
                Some(places.iter().map(|_| away_of(&error)).collect())
            }
        }
    }

    /// Sends commands of one slot again, in order. If the slot can't be used, they wait together: after one
    /// has failed, the others get its error without being sent.
    async fn send_again(
        &self,
        commands: &[&Cmd],
        places: Vec<usize>,
        wait: SlotWait,
    ) -> Vec<(usize, Value)> {
        let mut values = Vec::with_capacity(places.len());
        let mut rejection = None;
        for place in places {
            let value = match &rejection {
                Some(rejection) => Value::clone(rejection),
                None => self.send(commands[place], wait).await.unwrap_or_else(|it| away_of(&it)),
            };
            rejection = rejection.or_else(|| is_wait(&value).then(|| value.clone()));
            values.push((place, value));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::cluster::{NodeConnection, NodeLink, NodeLinks};
    use crate::cluster_slots::SlotRange;

    #[derive(Debug)]
    struct AbsentNode;

    impl NodeLink for AbsentNode {
        fn connection(&self) -> BoxFuture<'_, Result<NodeConnection, String>> {
            Box::pin(async { Err("away".to_owned()) })
        }

        fn absence_text(&self) -> Option<String> {
            Some("away".to_owned())
        }

        fn absence_lasts(&self) -> Option<Duration> {
            Some(Duration::ZERO)
        }
    }

    /// The seed has these slots.
    #[derive(Debug)]
    struct Links(Value);

    impl NodeLinks for Links {
        fn link(&self, _: &NodeAddress) -> Arc<dyn NodeLink> {
            Arc::new(AbsentNode)
        }

        fn seed_host(&self) -> &str {
            "seed"
        }

        fn read_slots(&self) -> BoxFuture<'_, Option<Value>> {
            Box::pin(async { Some(self.0.clone()) })
        }
    }

    #[tokio::test]
    async fn nodes_that_all_have_other_addresses_are_found_through_the_url() {
        let reply = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$3\r\nnew\r\n:7001\r\n";
        let links = Box::new(Links(redis::parse_redis_value(reply.as_bytes()).unwrap()));
        let old = SlotRange { first: 0, last: 16_383, node: ("old".to_owned(), 7001) };
        let router = ClusterRouter::new(links, vec![old]);
        router.probe().await;
        assert_eq!(router.owner_name(0).as_deref(), Some("new:7001"));
    }
}
