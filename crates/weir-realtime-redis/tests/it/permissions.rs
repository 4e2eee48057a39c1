//! The ACL line: it suffices, and no word of it can be left out.

use weir_base::secret::Secret;
use weir_realtime::shared_log::SharedLog as _;
use weir_realtime_redis::{acl_line, check_server};
use weir_redis::RedisEndpoint;

use crate::redis_server::RedisServer;
use crate::rig::{Node, client_event, key, settings};

const PASSWORD: &str = "hunter2";

fn endpoint(redis: &RedisServer) -> RedisEndpoint {
    let url = format!("redis://weir@127.0.0.1:{}", redis.port);
    let password = Some(Secret::new(PASSWORD));
    RedisEndpoint { password, ..RedisEndpoint::parse(&url).unwrap() }
}

/// The words of the line behind `ACL SETUSER weir`.
fn words(endpoint: &RedisEndpoint) -> Vec<String> {
    let line = acl_line(endpoint, &settings());
    let words = line.strip_prefix("ACL SETUSER weir ").expect("the user of the URL");
    words.split(' ').map(str::to_owned).collect()
}

/// Gives the user these permissions and no others.
fn grant<'w>(redis: &RedisServer, words: impl Iterator<Item = &'w String>) {
    let password = format!(">{PASSWORD}");
    let start = ["ACL", "SETUSER", "weir", "reset", "on", &password];
    let words: Vec<&str> = words.map(String::as_str).collect();
    redis.run(&[&start[..], &words].concat());
}

fn denials(redis: &RedisServer) -> usize {
    let redis::Value::Array(log) = redis.run(&["ACL", "LOG"]) else { panic!("a list") };
    log.len()
}

#[tokio::test]
async fn the_words_of_the_line_suffice_for_all_that_a_node_does() {
    let redis = RedisServer::start();
    let endpoint = endpoint(&redis);
    grant(&redis, words(&endpoint).iter());
    let (one, two) = (Node::start_at(endpoint.clone()), Node::start_at(endpoint));
    let mut view = two.watch("room").await;
    one.publish("room", 1).await;
    one.publish_all(&["room", "other"], 2).await;
    assert_eq!([view.next_data().await, view.next_data().await], ["1", "2"]);
    one.log.terminate("1".into(), "7".into()).await.unwrap();
    one.log.broadcast(client_event("room", "3"));
    assert_eq!(view.next().await.data, "3");
    // A comparison of a channel, as after a hole.
    let _late = one.watch("room").await;
    assert_eq!(one.hub.held_channel(&key("room")).unwrap().position.unwrap().offset, 2);
    two.heartbeats(2).await;
    assert_eq!(denials(&redis), 0, "{:?}", redis.run(&["ACL", "LOG"]));
}

#[tokio::test]
async fn the_error_names_each_word_that_is_left_out() {
    let redis = RedisServer::start();
    let endpoint = endpoint(&redis);
    let (words, line) = (words(&endpoint), acl_line(&endpoint, &settings()));
    grant(&redis, words.iter());
    let found = check_server(&endpoint, &settings()).await;
    assert_eq!((found.problem, found.acl_line.as_str()), (None, line.as_str()));
    for word in &words {
        grant(&redis, words.iter().filter(|it| *it != word));
        let error = check_server(&endpoint, &settings()).await.problem;
        let error = error.unwrap_or_else(|| panic!("{word} is not needed"));
        let named = format!("its user weir lacks permissions: {word}; to grant");
        assert!(error.contains(&named) && error.contains(&line), "without {word}: {error}");
    }
    let redis::Value::Array(left) = redis.run(&["KEYS", "*"]) else { panic!("a list") };
    assert_eq!(left, [], "the checks leave nothing behind");
}
