//! Servers that can't store jobs: replicas, nodes of a cluster, servers that are loading, versions
//! that are too old.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::check_server;

use super::rig::{open, pass_a_job, push_error, settings, until_error, until_pushed};
use crate::redis_server::RedisServer;
use crate::store::rig::run_alone;

#[test]
fn a_primary_that_becomes_a_replica_is_not_used() {
    let (Some(redis), Some(other)) = (RedisServer::start(), RedisServer::start()) else { return };
    run_alone(async move {
        let node = open(&redis.endpoint());
        pass_a_job(&node, "job-00001").await;
        redis.run(&[&["REPLICAOF", "127.0.0.1", &other.port.to_string()]]);
        let expected = format!("is a replica of 127.0.0.1:{}", other.port);
        let error = until_error(&node, &expected).await;
        assert!(error.contains("redis+sentinel://"), "{error}");
        redis.run(&[&["REPLICAOF", "NO", "ONE"]]);
        until_pushed(&node, "job-00002").await;
    });
}

#[test]
fn a_node_of_a_cluster_without_slots_is_named() {
    let cluster = |_: &std::path::Path, _| ["--cluster-enabled", "yes"].map(str::to_owned).to_vec();
    let Some(redis) = RedisServer::start_with(cluster) else { return };
    run_alone(async move {
        let error = push_error(&open(&redis.endpoint())).await;
        assert!(error.contains("node of a Redis Cluster that has no slots"), "{error}");
    });
}

#[test]
fn a_server_that_is_loading_is_named_until_it_is_ready() {
    let Some(source) = RedisServer::start() else { return };
    let fill = "for i = 1, 3000 do redis.call('SET', 'k' .. i, 'x') end";
    source.run(&[&["EVAL", fill, "0"], &["SAVE"]]);
    let Some(redis) = RedisServer::start_loading(&source.folder().join("dump.rdb")) else { return };
    run_alone(async move {
        let node = open(&redis.endpoint());
        let error = push_error(&node).await;
        assert!(error.contains("is still loading its data from disk"), "{error}");
        until_pushed(&node, "job-00001").await;
    });
}

/// A server that replies to `INFO` with `info`, and to all else with `+OK`.
fn serve(info: &'static str) -> RedisEndpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // It ends with its client, which ends with this test.
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        drop(reply_to_all(client, info));
    });
    RedisEndpoint::parse(&format!("redis://127.0.0.1:{port}")).unwrap()
}

fn reply_to_all(client: TcpStream, info: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(client.try_clone()?);
    let mut client = client;
    let line = |lines: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        lines.read_line(&mut line).map(|_| line.trim_end().to_owned())
    };
    loop {
        let header = line(&mut lines)?;
        let Some(count) = header.strip_prefix('*').and_then(|it| it.parse().ok()) else {
            return Ok(());
        };
        let mut words: Vec<Vec<u8>> = Vec::new();
        for _ in 0..count {
            let length: usize = line(&mut lines)?[1..].parse().unwrap();
            let mut word = vec![0; length + 2];
            lines.read_exact(&mut word)?;
            words.push(word[..length].to_vec());
        }
        match words[0].as_slice() {
            b"INFO" => write!(client, "${}\r\n{info}\r\n", info.len())?,
            b"GET" => client.write_all(b"$-1\r\n")?,
            _ => client.write_all(b"+OK\r\n")?,
        }
    }
}

#[tokio::test]
async fn an_old_version_is_refused_by_its_number_and_a_valkey_is_not() {
    let old = serve("redis_version:6.0.16\r\nrole:master\r\n");
    let error = check_server(&old, &settings()).await.problem.unwrap();
    assert!(error.contains("is version 6.0.16") && error.contains("6.2 or later"), "{error}");
    assert!(error.contains(&old.to_string()), "{error}");
    let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nrole:master";
    assert_eq!(check_server(&serve(valkey), &settings()).await.problem, None);
    assert_eq!(check_server(&serve("redis_version:6.2.0\r\n"), &settings()).await.problem, None);
}
