//! The ACL line: it suffices, and no word of it can be left out.
//!
//! That it suffices for the contract of all stores, and that each command in it is used there, is
//! tested in `contract/restricted.rs`.

use weir_base::secret::Secret;
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::{RedisStoreSettings, acl_line, check_server};

use super::rig::{open, pass_a_job, push_error, settings, until_error, until_pushed};
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;
use crate::store::rig::run_alone;

const PASSWORD: &str = "hunter2";

/// The endpoint of user `weir`, in a database that needs `SELECT`.
fn endpoint(redis: &RedisServer) -> RedisEndpoint {
    endpoint_in(redis, "/3")
}

fn endpoint_in(redis: &RedisServer, database: &str) -> RedisEndpoint {
    let url = format!("redis://weir@127.0.0.1:{}{database}", redis.port);
    let password = Some(Secret::new(PASSWORD));
    RedisEndpoint { password, ..RedisEndpoint::parse(&url).unwrap() }
}

/// The words of a line behind `ACL SETUSER weir`.
fn words_of(line: &str) -> Vec<String> {
    let words = line.strip_prefix("ACL SETUSER weir ").expect("the user of the URL");
    words.split(' ').map(str::to_owned).collect()
}

fn words(redis: &RedisServer, settings: &RedisStoreSettings) -> Vec<String> {
    words_of(&acl_line(&endpoint(redis), settings))
}

/// Gives the user these permissions and no others.
fn grant<'w>(redis: &RedisServer, words: impl Iterator<Item = &'w str>) {
    let password = format!(">{PASSWORD}");
    let start = ["ACL", "SETUSER", "weir", "reset", "on", &password];
    let words: Vec<&str> = words.collect();
    redis.run(&[&[&start[..], &words[..]].concat()]);
}

/// Denied commands that Redis has logged.
fn denials(redis: &RedisServer) -> usize {
    let log: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(&mut redis.client()).unwrap();
    log.len()
}

/// Checks that the words of `line` suffice on these servers, and that the error names each one that is
/// left out.
async fn each_word_is_needed(
    servers: &[RedisServer],
    endpoint: &RedisEndpoint,
    line: &str,
    settings: &RedisStoreSettings,
) {
    let words = words_of(line);
    let without = |left_out: Option<&String>| {
        let left = || words.iter().filter(|it| Some(*it) != left_out).map(String::as_str);
        servers.iter().for_each(|redis| grant(redis, left()));
    };
    without(None);
    let found = check_server(endpoint, settings).await;
    assert_eq!((found.problem, found.acl_line.as_str()), (None, line));
    assert_eq!(servers.iter().map(denials).sum::<usize>(), 0);
    for word in &words {
        without(Some(word));
        let found = check_server(endpoint, settings).await;
        let error = found.problem.unwrap_or_else(|| panic!("{word} is not needed"));
        let named = format!("its user weir lacks permissions: {word}; to grant");
        assert!(error.contains(&named), "without {word}: {error}");
        assert!(error.contains(line), "without {word}: {error}");
        assert_eq!(found.acl_line, line, "without {word}");
    }
    for redis in servers {
        redis.run(&[&["ACL", "LOG", "RESET"]]);
        let left: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis.client()).unwrap();
        assert!(left.is_empty(), "the checks leave nothing behind: {left:?}");
    }
}

#[tokio::test]
async fn the_error_names_each_word_that_is_left_out() {
    let Some(redis) = RedisServer::start() else { return };
    let in_a_namespace = RedisStoreSettings {
        namespace: "shop*[1]".to_owned(),
        prefix: "w?ir".to_owned(),
        push_memory: Some(std::time::Duration::from_secs(60)),
        ..settings()
    };
    let servers = [redis];
    for settings in [settings(), in_a_namespace] {
        let endpoint = endpoint(&servers[0]);
        let line = acl_line(&endpoint, &settings);
        each_word_is_needed(&servers, &endpoint, &line, &settings).await;
    }
}

#[tokio::test]
async fn the_error_names_each_word_that_is_left_out_on_a_cluster() {
    let Some(cluster) = RedisCluster::start() else { return };
    let endpoint = endpoint_in(&cluster.masters[0], "");
    let settings = settings();
    // A user without any permission is told all of them.
    cluster.masters.iter().for_each(|redis| grant(redis, [].into_iter()));
    let line = check_server(&endpoint, &settings).await.acl_line;
    assert!(line.contains(" +asking +cluster|slots "), "{line}");
    cluster.masters.iter().for_each(|redis| redis.run(&[&["ACL", "LOG", "RESET"]]));
    each_word_is_needed(&cluster.masters, &endpoint, &line, &settings).await;
}

#[tokio::test]
async fn each_node_of_a_cluster_is_checked() {
    let Some(cluster) = RedisCluster::start() else { return };
    let endpoint = endpoint_in(&cluster.masters[0], "");
    cluster.masters.iter().for_each(|redis| grant(redis, [].into_iter()));
    let words = words_of(&check_server(&endpoint, &settings()).await.acl_line);
    cluster.masters.iter().for_each(|redis| grant(redis, words.iter().map(String::as_str)));
    for redis in &cluster.masters {
        redis.run(&[&["ACL", "SETUSER", "weir", "-zadd"]]);
        let error = check_server(&endpoint, &settings()).await.problem.unwrap();
        let named = format!("Redis 127.0.0.1:{} can't be used", redis.port);
        assert!(error.contains(&named) && error.contains("lacks permissions: +zadd;"), "{error}");
        redis.run(&[&["ACL", "SETUSER", "weir", "+zadd"]]);
    }
    assert_eq!(check_server(&endpoint, &settings()).await.problem, None);
}

#[test]
fn a_permission_that_is_taken_away_is_named_and_jobs_pass_when_it_is_back() {
    let Some(redis) = RedisServer::start() else { return };
    let words = words(&redis, &settings());
    grant(&redis, words.iter().map(String::as_str));
    run_alone(async move {
        let node = open(&endpoint(&redis));
        pass_a_job(&node, "job-00001").await;
        redis.run(&[&["ACL", "SETUSER", "weir", "-lpush"]]);
        let first = push_error(&node).await;
        // Redis does not name the command that a script was denied.
        assert!(first.contains("its user lost a permission"), "{first}");
        let error = until_error(&node, "lacks permissions: +lpush; to grant").await;
        assert!(error.contains("ACL SETUSER weir ~queues"), "{error}");
        redis.run(&[&["ACL", "SETUSER", "weir", "+lpush"]]);
        until_pushed(&node, "job-00002").await;
    });
}
