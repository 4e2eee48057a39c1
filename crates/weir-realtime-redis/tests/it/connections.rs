//! TLS, Unix sockets, users with passwords in files, Sentinel, and servers that can't be used.

use weir_realtime::shared_log::SharedLog as _;
use weir_realtime_redis::{acl_line, check_server};
use weir_redis::{RedisEndpoint, TlsFiles};

use crate::authority::Authority;
use crate::redis_server::{RedisServer, free_port};
use crate::rig::{Node, loop_until, settings};

/// Publishes an event through one node and receives it at another.
async fn pass_an_event(endpoint: &RedisEndpoint) {
    let (one, two) = (Node::start_at(endpoint.clone()), Node::start_at(endpoint.clone()));
    let mut view = two.watch("room").await;
    one.publish("room", 1).await;
    assert_eq!(view.next_data().await, "1");
}

async fn problem(endpoint: &RedisEndpoint) -> String {
    check_server(endpoint, &settings()).await.problem.expect("a problem")
}

#[tokio::test]
async fn events_pass_through_tls_with_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, port) = (Authority::write(folder.path()), free_port());
    let mut arguments = authority.arguments();
    arguments.extend(["--tls-port".to_owned(), port.to_string()]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let _redis = RedisServer::start_with(&arguments);
    let plain = RedisEndpoint::parse(&format!("rediss://127.0.0.1:{port}")).unwrap();
    let with = |tls: TlsFiles| RedisEndpoint { tls, ..plain.clone() };
    pass_an_event(&with(authority.client_files())).await;
    let problem = async |tls| problem(&with(tls)).await;
    assert!(problem(TlsFiles::default()).await.contains("not trusted here"));
    let anonymous = TlsFiles { client: None, ..authority.client_files() };
    let error = problem(anonymous).await;
    assert!(error.contains("certificate"), "{error}");
}

#[tokio::test]
async fn events_pass_through_a_socket() {
    let redis = RedisServer::start();
    let url = format!("unix://{}", redis.socket().display());
    pass_an_event(&RedisEndpoint::parse(&url).unwrap()).await;
}

/// Users may have connected to it before.
#[tokio::test]
async fn a_node_that_reaches_redis_late_carries_out_earlier_terminations() {
    let redis = RedisServer::start();
    let one = Node::start(redis.port);
    let socket = redis.folder().join("late.sock");
    let url = format!("unix://{}", socket.display());
    let two = Node::start_at(RedisEndpoint::parse(&url).unwrap());
    loop_until(async || one.log.terminate("1".into(), "7".into()).await.ok()).await;
    std::os::unix::fs::symlink(redis.socket(), socket).unwrap();
    loop_until(async || (two.totals().terminations == 1).then_some(())).await;
    assert_eq!(one.totals().terminations, 0, "its own");
}

#[tokio::test]
async fn a_password_file_is_read_with_each_connection() {
    let redis = RedisServer::start();
    let file = redis.folder().join("password");
    let url = format!("redis://weir@127.0.0.1:{}", redis.port);
    std::fs::write(&file, "hunter1\n").unwrap();
    let password = Some(weir_settings::secrets::of_file(&file).unwrap());
    let endpoint = RedisEndpoint { password, ..RedisEndpoint::parse(&url).unwrap() };
    let create_user = |password: &str| {
        let (line, password) = (acl_line(&endpoint, &settings()), format!(">{password}"));
        let mut words: Vec<&str> = line.split(' ').collect();
        words.splice(3..3, ["reset", "on", &password]);
        redis.run(&words);
    };
    create_user("hunter1");
    let node = Node::start_at(endpoint.clone());
    let mut view = node.watch("room").await;
    node.publish("room", 1).await;
    create_user("hunter2");
    redis.run(&["CLIENT", "KILL", "USER", "weir"]);
    loop_until(async || {
        let error = check_server(&endpoint, &settings()).await.problem?;
        assert!(!error.contains("hunter"), "{error}");
        error.contains("rejects that user or that password").then_some(())
    })
    .await;
    std::fs::write(&file, "hunter2\n").unwrap();
    node.publish("room", 2).await;
    assert_eq!([view.next_data().await, view.next_data().await], ["1", "2"]);
}

#[tokio::test]
async fn a_primary_that_sentinels_name_later_is_used_although_the_old_one_still_runs() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let sentinel = RedisServer::start_sentinel(old.port);
    let url = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/mymaster", sentinel.port);
    let endpoint = RedisEndpoint::parse(&url).unwrap();
    let node = Node::start_at(endpoint);
    let mut view = node.watch("room").await;
    node.publish("room", 1).await;
    assert_eq!(view.next_data().await, "1");
    let port = new.port.to_string();
    sentinel.run(&["SENTINEL", "REMOVE", "mymaster"]);
    sentinel.run(&["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &port, "1"]);
    loop_until(async || {
        node.publish("room", 2).await;
        new.info("keyspace").contains("db0:").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_that_can_not_be_used_is_named_with_the_reason() {
    let primary = RedisServer::start();
    let replica = RedisServer::start_replica(&primary);
    let error = problem(&replica.endpoint()).await;
    let expected = format!("is a replica of 127.0.0.1:{}", primary.port);
    assert!(error.contains(&expected), "{error}");
    let away = RedisEndpoint::parse("redis://127.0.0.1:1").unwrap();
    assert!(problem(&away).await.contains("nothing listens there"));
    primary.run(&["CONFIG", "SET", "requirepass", "hunter2"]);
    assert!(problem(&primary.endpoint()).await.contains("requires a password"));
}

#[tokio::test]
async fn a_server_that_becomes_a_replica_is_left() {
    let (redis, other) = (RedisServer::start(), RedisServer::start());
    let node = Node::start(redis.port);
    node.publish("room", 1).await;
    redis.run(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    loop_until(async || {
        let error = node.try_publish("room", 2).await.err()?.to_string();
        error.contains("does not respond").then_some(())
    })
    .await;
    redis.run(&["REPLICAOF", "NO", "ONE"]);
    node.publish("room", 2).await;
}
