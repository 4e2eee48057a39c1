//! Redis rejects what concerns members only, or does not respond at all: what else works goes on.

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::json;
use weir_base::secret::Secret;
use weir_realtime::settings::AppSettings;
use weir_realtime::shared_log::{AppendError, SharedLog as _};
use weir_realtime_redis::{RedisLogSettings, acl_line};
use weir_redis::RedisEndpoint;

use crate::client::Client;
use crate::layouts::connections;
use crate::redis_server::RedisServer;
use crate::rig::{Node, app, loop_until, new_event, settings, until_suspended};

const ROOM: &str = "presence-room";
const APPENDS_MAX: usize = 4;

/// A user with all permissions that a node needs.
fn endpoint(redis: &RedisServer) -> RedisEndpoint {
    const PASSWORD: &str = "hunter2";
    let url = format!("redis://weir@127.0.0.1:{}", redis.port);
    let password = Some(Secret::new(PASSWORD));
    let endpoint = RedisEndpoint { password, ..RedisEndpoint::parse(&url).unwrap() };
    let line = acl_line(&endpoint, &settings());
    let words = line.strip_prefix("ACL SETUSER weir ").expect("the user of the URL");
    let password = format!(">{PASSWORD}");
    let start = ["ACL", "SETUSER", "weir", "on", &password];
    redis.run(&[&start[..], &words.split(' ').collect::<Vec<_>>()].concat());
    endpoint
}

/// The users of the room, as a node knows them.
fn users(node: &Node) -> Vec<String> {
    let page = node.hub.members("1", ROOM, None, 100);
    let mut users: Vec<String> = page
        .map(|page| page.members.iter().map(|member| member.user_id.to_string()).collect())
        .unwrap_or_default();
    users.sort();
    users
}

/// Users that Redis counts, each with the number of its nodes.
fn stored_users(redis: &RedisServer) -> usize {
    let names: Vec<String> = redis::from_redis_value(redis.run(&["KEYS", "*:users:1:*"])).unwrap();
    names
        .iter()
        .map(|name| redis::from_redis_value::<usize>(redis.run(&["HLEN", name])).unwrap())
        .sum()
}

/// Denies commands to the user in a moment at which users join and leave, and allows them again.
async fn deny_presence(denied: &[&str]) {
    let redis = RedisServer::start();
    let endpoint = endpoint(&redis);
    let (one, two) = (Node::start_at(endpoint.clone()), Node::start_at(endpoint));
    let mut view = two.watch("other").await;
    one.publish("other", 0).await;
    let join = async |node, user| {
        let client = Client::connect(node);
        client.join(ROOM, user, &json!({})).await;
        client
    };
    let (ada, bob) = (join(&one, "ada").await, join(&two, "bob").await);
    let eve = join(&one, "eve").await;
    loop_until(async || [&one, &two].iter().all(|node| users(node).len() == 3).then_some(())).await;
    let rules = |sign| denied.iter().map(|word| format!("{sign}{word}")).collect::<Vec<_>>();
    let set = |rules: Vec<String>| {
        let words = rules.iter().map(String::as_str);
        redis.run(&["ACL", "SETUSER", "weir"].into_iter().chain(words).collect::<Vec<_>>());
    };
    set(rules('-'));
    // Members of their own node at once.
    let cleo = join(&one, "cleo").await;
    let dan = join(&two, "dan").await;
    until_suspended(&one, true).await;
    until_suspended(&two, true).await;
    eve.leave(ROOM);
    assert_eq!(view.next_data().await, "0");
    for number in 1..50 {
        one.publish("other", number).await;
        assert_eq!(view.next_data().await, number.to_string());
    }
    let events = one.log.append(vec![new_event("new", "1".to_owned())]).await;
    assert!(events.is_ok(), "{events:?}");
    set(rules('+'));
    until_suspended(&one, false).await;
    until_suspended(&two, false).await;
    let expected = ["ada", "bob", "cleo", "dan"];
    loop_until(async || [&one, &two].iter().all(|node| users(node) == expected).then_some(()))
        .await;
    loop_until(async || (stored_users(&redis) == 4).then_some(())).await;
    for node in [&one, &two] {
        assert_eq!(node.totals().disconnects, 0, "{denied:?}");
    }
    for client in [&ada, &bob, &cleo, &dan] {
        assert!(client.is_open());
        client.leave(ROOM);
    }
    loop_until(async || (stored_users(&redis) == 0).then_some(())).await;
}

#[tokio::test]
async fn members_that_redis_rejects_stop_no_events_and_are_exact_afterwards() {
    deny_presence(&["sadd"]).await;
}

#[tokio::test]
async fn members_that_redis_has_stored_in_part_are_exact_afterwards() {
    deny_presence(&["exists", "srem"]).await;
}

/// A key that somebody else has written.
#[tokio::test]
async fn a_key_of_members_with_another_type_stops_no_events() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("other").await;
    let ada = Client::connect(&node);
    ada.join(ROOM, "ada", &json!({})).await;
    loop_until(async || (stored_users(&redis) == 1).then_some(())).await;
    let names: Vec<String> = redis::from_redis_value(redis.run(&["KEYS", "*:users:1:*"])).unwrap();
    redis.run(&["SET", &names[0], "x"]);
    let bob = Client::connect(&node);
    bob.join(ROOM, "bob", &json!({})).await;
    until_suspended(&node, true).await;
    for number in 0..50 {
        node.publish("other", number).await;
        assert_eq!(view.next_data().await, number.to_string());
    }
    redis.run(&["DEL", &names[0]]);
    until_suspended(&node, false).await;
    loop_until(async || (stored_users(&redis) == 2).then_some(())).await;
    assert_eq!(node.totals().disconnects, 0);
}

/// Other nodes end the lease of a session that stores nothing, and a later version may have come meanwhile.
#[tokio::test]
async fn a_session_without_members_has_no_part_of_limits_and_notices_a_later_layout() {
    let redis = RedisServer::start();
    let app = AppSettings { connections_max: 10, ..app() };
    let node = Node::start_with_app(endpoint(&redis), settings(), app);
    node.publish("other", 1).await;
    loop_until(async || (connections(&node) < 10).then_some(())).await;
    redis.run(&["ACL", "SETUSER", "weir", "-sadd"]);
    let ada = Client::connect(&node);
    ada.join(ROOM, "ada", &json!({})).await;
    until_suspended(&node, true).await;
    loop_until(async || (connections(&node) == 9).then_some(())).await;
    node.publish("other", 2).await;
    assert_eq!(node.totals().disconnects, 0);
    redis.run(&["SET", "weir:realtime:{afj}:layout", "3"]);
    loop_until(async || node.try_publish("other", 3).await.is_err().then_some(())).await;
    assert!(ada.is_open());
}

/// What waits for a Redis that does not respond is limited. The rest is refused at once, clients stay connected and
/// others come, and everything is as before when it responds again.
#[tokio::test]
async fn a_paused_redis_refuses_what_exceeds_the_limit_and_keeps_the_clients() {
    let redis = RedisServer::start();
    let start = || {
        let settings = RedisLogSettings { appends_max: APPENDS_MAX, ..settings() };
        Node::start_with(redis.endpoint(), settings)
    };
    let (one, two) = (start(), start());
    let mut view = two.watch("room").await;
    one.publish("room", 0).await;
    assert_eq!(view.next_data().await, "0");
    let (ada, bob) = (Client::connect(&one), Client::connect(&two));
    ada.join(ROOM, "ada", &json!({})).await;
    bob.join(ROOM, "bob", &json!({})).await;
    loop_until(async || [&one, &two].iter().all(|node| users(node).len() == 2).then_some(())).await;
    redis.signal("STOP");
    let append = || one.log.append(vec![new_event("room", "paused".to_owned())]);
    let mut waiting: Vec<_> = (0..APPENDS_MAX).map(|_| append()).collect();
    for append in &mut waiting {
        assert!(append.now_or_never().is_none());
    }
    for _ in 0..100 {
        assert_eq!(append().now_or_never(), Some(Err(AppendError::Busy)));
    }
    for outcome in join_all(waiting).await {
        assert!(matches!(outcome, Err(AppendError::Unknown | AppendError::Away)), "{outcome:?}");
    }
    assert_eq!(append().await, Err(AppendError::Away));
    loop_until(async || (two.totals().disconnects > 0).then_some(())).await;
    // A storm: clients come and go meanwhile.
    for number in 0..20 {
        let client = Client::connect(if number % 2 == 0 { &one } else { &two });
        client.subscribe("room").await;
        client.subscribe(&format!("new-{number}")).await;
        client.join(ROOM, &format!("user-{number}"), &json!({})).await;
        client.end();
    }
    assert!(ada.is_open() && bob.is_open());
    redis.signal("CONT");
    one.publish("room", 1).await;
    two.publish("room", 2).await;
    while view.next().await.data != "2" {}
    let limit = "weir_realtime_redis_limit_hits_total{limit=\"appends_max\"}";
    assert_eq!(one.metric(limit), Some("100".to_owned()));
    let expected = ["ada", "bob"];
    loop_until(async || [&one, &two].iter().all(|node| users(node) == expected).then_some(()))
        .await;
    loop_until(async || (stored_users(&redis) == 2).then_some(())).await;
    assert!(ada.is_open() && bob.is_open());
}

/// Publications that were not sent before the connection failed are known not to be published.
#[tokio::test]
async fn a_publication_that_was_not_sent_is_known_not_to_be_published() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    node.publish("room", 0).await;
    redis.signal("STOP");
    let append = || node.log.append(vec![new_event("room", "1".to_owned())]);
    let mut sent = append();
    assert!((&mut sent).now_or_never().is_none());
    // The first one is on its way.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let waiting = append();
    let (sent, waiting) = futures_util::join!(sent, waiting);
    assert_eq!((sent, waiting), (Err(AppendError::Unknown), Err(AppendError::Away)));
    redis.signal("CONT");
    node.publish("room", 2).await;
}

/// Each of these is a command of its own in the same round trip, also if the server has lost the script.
#[tokio::test]
async fn publications_that_are_sent_together_are_all_published_after_a_loss_of_the_scripts() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    node.publish("room", 0).await;
    assert_eq!(view.next_data().await, "0");
    redis.run(&["SCRIPT", "FLUSH"]);
    let append = |number: u64| node.log.append(vec![new_event("room", number.to_string())]);
    let positions: Vec<_> = join_all((1..100).map(append)).await;
    for (position, number) in positions.iter().zip(1..) {
        assert_eq!(
            position.as_ref().unwrap()[0].offset,
            number + 1,
            "in the order of their sending"
        );
    }
    for number in 1..100 {
        assert_eq!(view.next_data().await, number.to_string());
    }
}
