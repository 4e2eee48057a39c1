//! Users, passwords and their files, Unix sockets, databases.

use weir_base::secret::Secret;
use weir_jobs::store::Store;
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::acl_line;

use super::rig::{open, pass_a_job, push_error, settings, until_error, until_pushed};
use crate::redis_server::RedisServer;
use crate::store::rig::run_alone;

/// Creates the user of `endpoint`, with all that the store needs.
fn create_user(redis: &RedisServer, endpoint: &RedisEndpoint, password: &str) {
    let line = acl_line(endpoint, &settings());
    let (password, mut words) = (format!(">{password}"), line.split(' ').collect::<Vec<_>>());
    words.splice(3..3, ["reset", "on", &password]);
    redis.run(&[&words]);
}

#[test]
fn a_password_file_is_read_with_each_connection() {
    let Some(redis) = RedisServer::start() else { return };
    let file = redis.folder().join("password");
    std::fs::write(&file, "hunter1\n").unwrap();
    let url = format!("redis://weir@127.0.0.1:{}/3", redis.port);
    let password = Some(weir_settings::secrets::of_file(&file).unwrap());
    let endpoint = RedisEndpoint { password, ..RedisEndpoint::parse(&url).unwrap() };
    create_user(&redis, &endpoint, "hunter1");
    run_alone(async move {
        let node = open(&endpoint);
        pass_a_job(&node, "job-00001").await;
        // A new password, as operators change it: in Redis first, then in the file.
        create_user(&redis, &endpoint, "hunter2");
        redis.run(&[&["CLIENT", "KILL", "USER", "weir"]]);
        let error = until_error(&node, "rejects that user or that password").await;
        assert!(!error.contains("hunter"), "{error}");
        std::fs::remove_file(&file).unwrap();
        until_error(&node, "its password is in this file").await;
        std::fs::write(&file, "hunter2\n").unwrap();
        until_pushed(&node, "job-00002").await;
        let shown = format!("{node:?}", node = node.store);
        assert!(!shown.contains("hunter"), "{shown}");
    });
}

#[test]
fn a_wrong_and_a_missing_password_are_named_and_not_shown() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[&["CONFIG", "SET", "requirepass", "hunter2"]]);
    run_alone(async move {
        let error = push_error(&open(&redis.endpoint())).await;
        assert!(error.contains("requires a password"), "{error}");
        let password = Some(Secret::new("hunter3"));
        let node = open(&RedisEndpoint { password, ..redis.endpoint() });
        let error = push_error(&node).await;
        assert!(error.contains("rejects that user") && !error.contains("hunter"), "{error}");
        let condition = format!("{:?}", node.store.storage().await);
        assert!(condition.contains("rejects that user") && !condition.contains("hunter"));
    });
}

#[test]
fn a_socket_and_a_database_are_used() {
    let Some(redis) = RedisServer::start() else { return };
    let url = format!("unix://{}?db=3", redis.socket().display());
    let endpoint = RedisEndpoint::parse(&url).unwrap();
    run_alone(async move {
        let node = open(&endpoint);
        pass_a_job(&node, "job-00001").await;
        let info: String = redis::cmd("INFO").arg("keyspace").query(&mut redis.client()).unwrap();
        assert!(info.contains("db3:") && !info.contains("db0:"), "{info}");
    });
}
