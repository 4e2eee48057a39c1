//! Limits of what waits for Redis.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use weir_realtime::settings::AppSettings;
use weir_realtime::shared_log::{AppendError, SharedLog as _};
use weir_realtime_redis::RedisLogSettings;

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::rig::{Node, app, client_event, loop_until, new_event, settings};

const CONNECTIONS_MAX: usize = 10;
const BYTES: usize = 60 << 10;

#[tokio::test]
async fn publications_that_wait_for_redis_are_limited_in_bytes() {
    let redis = RedisServer::start();
    let settings = RedisLogSettings { append_bytes_max: 2 * BYTES + 1_000, ..settings() };
    let node = Node::start_with(redis.endpoint(), settings);
    node.publish("room", 1).await;
    let large = || new_event("room", "x".repeat(BYTES));
    redis.signal("STOP");
    let mut waiting: Vec<_> = (0..2).map(|_| node.log.append(vec![large()])).collect();
    for append in &mut waiting {
        assert!(append.now_or_never().is_none());
    }
    let third = node.log.append(vec![large()]).now_or_never();
    assert_eq!(third, Some(Err(AppendError::Busy)));
    redis.signal("CONT");
    for outcome in join_all(waiting).await {
        assert!(matches!(outcome, Ok(_) | Err(AppendError::Unknown)), "{outcome:?}");
    }
    node.publish("room", 2).await;
}

#[tokio::test]
async fn events_of_clients_that_get_no_reply_or_have_no_room_are_counted() {
    let redis = RedisServer::start();
    let settings = RedisLogSettings { client_events_max: 2, ..settings() };
    let node = Node::start_with(redis.endpoint(), settings);
    node.publish("room", 1).await;
    redis.signal("STOP");
    for _ in 0..8 {
        node.log.broadcast(client_event("room", "typing"));
    }
    assert_eq!(node.totals().lost_client_events, 6, "there is room for two");
    loop_until(async || (node.totals().disconnects > 0).then_some(())).await;
    let lost = node.totals().lost_client_events;
    assert!((7..=8).contains(&lost), "those that were sent got no reply: {lost}");
    redis.signal("CONT");
    node.publish("room", 2).await;
}

/// Starts a node whose app has a limit of connections, and waits until it has a part of that limit.
async fn limited_node(redis: &RedisServer) -> Node {
    let app = AppSettings { connections_max: CONNECTIONS_MAX, ..app() };
    let settings = RedisLogSettings { presence_lease: Duration::from_secs(3), ..settings() };
    let node = Node::start_with_app(redis.endpoint(), settings, app);
    node.heartbeats(1).await;
    node
}

/// Connects as often as the node allows.
fn connect_many<'a>(node: &'a Node, clients: &mut Vec<Client<'a>>) {
    for _ in 0..=CONNECTIONS_MAX {
        clients.extend(Client::try_connect(node));
    }
}

#[tokio::test]
async fn the_limit_of_connections_holds_over_all_nodes() {
    let redis = RedisServer::start();
    let (one, two) = (limited_node(&redis).await, limited_node(&redis).await);
    // The first node gives back what it does not use.
    for node in [&one, &two, &one, &two] {
        node.heartbeats(2).await;
    }
    let (mut on_one, mut on_two) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        // As fast as they can, and again as refused clients do.
        connect_many(&one, &mut on_one);
        connect_many(&two, &mut on_two);
        assert!(on_one.len() + on_two.len() <= CONNECTIONS_MAX);
        assert!(!on_one.is_empty() && !on_two.is_empty());
        one.heartbeats(1).await;
    }
    assert_eq!(on_one.len() + on_two.len(), CONNECTIONS_MAX);
    on_one.drain(..).for_each(|client| client.end());
    for _ in 0..8 {
        connect_many(&two, &mut on_two);
        two.heartbeats(1).await;
    }
    assert_eq!(on_two.len(), CONNECTIONS_MAX, "a node may use what others give back");
    assert!(Client::try_connect(&one).is_none());
    two.stop().await;
    loop_until(async || Client::try_connect(&one).map(drop)).await;
}

/// While Redis is away, the limit holds for each node.
#[tokio::test]
async fn without_redis_each_node_has_the_whole_limit() {
    let mut redis = RedisServer::start();
    let nodes = [limited_node(&redis).await, limited_node(&redis).await];
    redis.kill();
    let mut clients = [Vec::new(), Vec::new()];
    for (node, clients) in nodes.iter().zip(&mut clients) {
        loop_until(async || (node.totals().disconnects > 0).then_some(())).await;
        connect_many(node, clients);
        assert_eq!(clients.len(), CONNECTIONS_MAX);
    }
    redis.start_again();
    for node in &nodes {
        node.heartbeats(2).await;
    }
    clients[0].drain(..5).for_each(|client| client.end());
    nodes[0].heartbeats(2).await;
    assert!(Client::try_connect(&nodes[0]).is_none(), "there are 15, and 10 are allowed");
}

#[tokio::test]
async fn a_redis_that_is_full_is_named_as_such_and_ends_no_session() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    node.publish("room", 1).await;
    redis.run(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(node.try_append_all(&["room"], 2).await, Err(AppendError::Full));
    assert_eq!(node.try_append_all(&["room", "other"], 2).await, Err(AppendError::Full));
    let error = node.try_publish("room", 2).await.unwrap_err().to_string();
    assert!(error.contains("maxmemory"), "{error}");
    node.heartbeats(3).await;
    assert_eq!(node.totals().disconnects, 0);
    let late = Node::start(redis.port);
    loop_until(async || {
        let error = late.try_append_all(&["room"], 2).await;
        (error == Err(AppendError::Full)).then_some(())
    })
    .await;
    redis.run(&["CONFIG", "SET", "maxmemory", "0"]);
    late.publish("room", 3).await;
    assert_eq!([view.next_data().await, view.next_data().await], ["1", "3"]);
    assert_eq!(node.totals().disconnects, 0);
}
