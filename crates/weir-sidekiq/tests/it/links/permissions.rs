//! The ACL line: it suffices, and no word of it can be left out.
//!
//! That it suffices for the contract of all stores, and that each command in it is used there, is
//! tested in `contract/restricted.rs`.

use weir_base::secret::Secret;
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::{RedisStoreSettings, acl_line, check_server};

use super::rig::{open, pass_a_job, push_error, settings, until_error, until_pushed};
use crate::redis_server::RedisServer;
use crate::store::rig::run_alone;

const PASSWORD: &str = "hunter2";

/// The endpoint of user `weir`, in a database that needs `SELECT`.
fn endpoint(redis: &RedisServer) -> RedisEndpoint {
    let url = format!("redis://weir@127.0.0.1:{}/3", redis.port);
    let password = Some(Secret::new(PASSWORD));
    RedisEndpoint { password, ..RedisEndpoint::parse(&url).unwrap() }
}

/// The words of the line behind `ACL SETUSER weir`.
fn words(redis: &RedisServer, settings: &RedisStoreSettings) -> Vec<String> {
    let line = acl_line(&endpoint(redis), settings);
    let words = line.strip_prefix("ACL SETUSER weir ").expect("the user of the URL");
    words.split(' ').map(str::to_owned).collect()
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

#[tokio::test]
async fn the_error_names_each_word_that_is_left_out() {
    let Some(redis) = RedisServer::start() else { return };
    let in_a_namespace = RedisStoreSettings {
        namespace: "shop*[1]".to_owned(),
        prefix: "w?ir".to_owned(),
        push_memory: Some(std::time::Duration::from_secs(60)),
        ..settings()
    };
    for settings in [settings(), in_a_namespace] {
        let words = words(&redis, &settings);
        grant(&redis, words.iter().map(String::as_str));
        assert_eq!(check_server(&endpoint(&redis), &settings).await, Ok(()));
        assert_eq!(denials(&redis), 0);
        for word in &words {
            grant(&redis, words.iter().filter(|it| *it != word).map(String::as_str));
            let error = check_server(&endpoint(&redis), &settings).await.unwrap_err();
            let named = format!("its user weir lacks permissions: {word}; to grant");
            assert!(error.contains(&named), "without {word}: {error}");
            let line = format!("ACL SETUSER weir {}", words.join(" "));
            assert!(error.contains(&line), "without {word}: {error}");
        }
        redis.run(&[&["ACL", "LOG", "RESET"]]);
    }
    let left: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis.client()).unwrap();
    assert!(left.is_empty(), "the checks leave nothing behind: {left:?}");
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
