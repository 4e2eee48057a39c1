//! A healthy Sidekiq whose Redis is in the wrong place, away, or refuses.

use std::process::{Child, Command, Stdio};

use weir_sidekiq::READ_ONLY_ACL;

use super::follow::{find, find_in_time, shell};
use super::json;
use super::page::{Row, show};
use super::redis::{start_with_file, url};
use super::redis_server::RedisServer;
use super::sidekiq::Sidekiq;

const HEALTHY: &str = "appendonly yes\nslowlog-log-slower-than -1\nbusy-reply-threshold 100\n";
const FOREVER: &str = "while true do end";

/// A client of Redis that runs until it is dropped.
struct Busy(Child);

impl Busy {
    fn start(redis: &RedisServer, arguments: &[&str]) -> Self {
        let mut client = Command::new("redis-cli");
        client.args(["-p", &redis.port.to_string()]).args(arguments);
        client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(client.spawn().expect("redis-cli starts"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn problems_with_the_way_to_redis_are_found_and_their_actions_work() {
    let Some(mut redis) = start_with_file(HEALTHY) else { return };
    let Some(sidekiq) = Sidekiq::start(&redis, &["-c", "1", "-q", "default"]) else { return };
    redis.run(&[&["SADD", "queues", "default"]]);
    let mut rows = provoke_wrong_place(&redis);
    rows.extend(provoke_permissions(&redis));
    rows.extend(provoke_busy_server(&redis));
    rows.push(provoke_missing_replicas(&redis));
    rows.extend(provoke_replica(&redis).unwrap_or_default());
    rows.push(provoke_absence(&mut redis));
    rows.extend(provoke_few_clients());
    sidekiq.stop();
    show(&rows);
}

fn provoke_wrong_place(redis: &RedisServer) -> Vec<Row> {
    let url = url(redis);
    let (wrong, window) = (format!("{url}/1"), ["--window", "10ms"]);
    let look = |url: &str| json(&[&["--redis", url][..], &window].concat());
    let cause = "`--redis redis://127.0.0.1:6379/1` where Sidekiq is in database 0";
    let found = find(&look(&wrong), "no-sidekiq", cause, "database 0 has");
    let corrected = format!("{url}{}", found.line());
    let mut all = vec![found.healed(&look(&corrected))];

    redis.run(&[&["SELECT", "1"], &["SADD", "shop:queues", "default"], &["SELECT", "0"]]);
    let cause = "a Sidekiq with a namespace (`redis-namespace`) in that database";
    let found = find(&look(&wrong), "no-sidekiq", cause, "there are keys of one under \"shop:\"");
    let output = found.run();
    all.push(found.shown(&output, "default"));
    redis.run(&[&["SELECT", "1"], &["FLUSHDB"]]);
    all
}

/// Provokes a wrong password, and a user who may not ask everything.
fn provoke_permissions(redis: &RedisServer) -> Vec<Row> {
    let acl = READ_ONLY_ACL.replace("+zcard ", "");
    let mut user = vec!["ACL", "SETUSER", "weir", "reset", "on", ">hunter2", "~*"];
    user.extend(acl.split_whitespace());
    redis.run(&[&user]);
    let url = format!("redis://weir@127.0.0.1:{}", redis.port);
    let folder = tempfile::tempdir().expect("a folder");
    let password = folder.path().join("password").display().to_string();
    let way_in = ["--redis", &url, "--redis-password-file", &password, "--window", "10ms"];
    std::fs::write(&password, "hunter3\n").expect("written");
    let cause = "`--redis-password-file` with an old password";
    let found = find(&json(&way_in), "unreachable", cause, "password");
    std::fs::write(&password, "hunter2\n").expect("written");
    let mut all = vec![found.healed(&json(&way_in))];

    let cause = "a user of Redis who may not ask `ZCARD`";
    let found = find(&json(&way_in), "unseen", cause, "ZCARD");
    shell(&format!("redis-cli -p {} {}", redis.port, found.line()), folder.path(), &[]);
    all.push(found.healed(&json(&way_in)));
    all
}

/// Provokes a script and a function that never end.
fn provoke_busy_server(redis: &RedisServer) -> Vec<Row> {
    const LIBRARY: &str =
        "#!lua name=shop\nredis.register_function('forever', function() while true do end end)";
    let url = url(redis);
    let arguments = ["--redis", &url, "--window", "300ms"];
    redis.run(&[&["FUNCTION", "LOAD", LIBRARY]]);
    let script = (&["EVAL", FOREVER, "0"][..], "a script that never ends (`EVAL`)", "SCRIPT KILL");
    let function =
        (&["FCALL", "forever", "0"][..], "a function that never ends (`FCALL`)", "FUNCTION KILL");
    let follow = |(command, cause, names): (&[&str], &'static str, &str)| {
        let _busy = Busy::start(redis, command);
        let found = find_in_time(&arguments, "redis-refuses", cause, names);
        found.run();
        found.healed_in_time(&arguments)
    };
    vec![follow(script), follow(function)]
}

/// Provokes a Redis that rejects writes for want of replicas.
fn provoke_missing_replicas(redis: &RedisServer) -> Row {
    let url = url(redis);
    let arguments = ["--redis", &url, "--window", "10ms"];
    redis.run(&[&["CONFIG", "SET", "min-replicas-to-write", "1"]]);
    let cause = "`CONFIG SET min-replicas-to-write 1`, and no replica";
    let found = find(&json(&arguments), "redis-refuses", cause, "NOREPLICAS");
    let output = found.run();
    redis.run(&[&["CONFIG", "SET", "min-replicas-to-write", "0"]]);
    found.shown(&output, "min_slaves_good_slaves:0")
}

fn provoke_replica(master: &RedisServer) -> Option<Vec<Row>> {
    let replica = RedisServer::start()?;
    let port = master.port.to_string();
    replica.run(&[&["REPLICAOF", "127.0.0.1", &port]]);
    let look = |url: &str| json(&["--redis", url, "--window", "10ms"]);
    let url = url(&replica);
    let arguments = ["--redis", &url, "--window", "10ms"];
    let cause = "`--redis` with the address of a replica of Sidekiq's Redis";
    let found = find_in_time(&arguments, "redis-replica", cause, "it is a replica of");
    let corrected = found.line().to_owned();
    let mut all = vec![found.healed(&look(&corrected))];

    replica.run(&[
        &["CONFIG", "SET", "replica-serve-stale-data", "no"],
        &["REPLICAOF", "127.0.0.1", "1"],
    ]);
    let cause = "a replica with `replica-serve-stale-data no` that has lost its master";
    let found = find_in_time(&arguments, "redis-refuses", cause, "MASTERDOWN");
    let output = found.run();
    all.push(found.shown(&output, "master_host:127.0.0.1"));

    replica.run(&[&["CONFIG", "SET", "replica-serve-stale-data", "yes"]]);
    let cause = "`REPLICAOF` in a Redis whose Sidekiq has not heard of it";
    replica.run(&[&["REPLICAOF", "NO", "ONE"], &["FLUSHALL"], &["REPLICAOF", "127.0.0.1", "1"]]);
    let found = find_in_time(&arguments, "redis-replica", cause, "no Sidekiq process has");
    all.push(found.not_followed("its master is the address that nothing listens on"));
    Some(all)
}

/// Provokes a Redis that has ended.
fn provoke_absence(redis: &mut RedisServer) -> Row {
    let url = url(redis);
    let arguments = ["--redis", &url, "--window", "300ms"];
    redis.kill();
    let cause = "a Redis that has ended";
    let found = find(&json(&arguments), "unreachable", cause, "nothing listens there");
    redis.start_again();
    found.healed_in_time(&arguments)
}

fn provoke_few_clients() -> Option<Row> {
    let redis = RedisServer::start()?;
    let url = url(&redis);
    let mut held = redis.client();
    let one: Result<(), _> =
        ::redis::cmd("CONFIG").arg(&["SET", "maxclients", "1"]).query(&mut held);
    one.expect("set");
    let cause = "`CONFIG SET maxclients 1`, and that one connected";
    let advice = json(&["--redis", &url, "--window", "10ms"]);
    let found = find(&advice, "redis-refuses", cause, "maxclients");
    // The text says to stop a client first.
    drop(held);
    let output = found.run();
    Some(found.shown(&output, "maxclients"))
}
