//! Doctor at the wrong place: it says so, and never that all is well.

use weir_advisor::{Severity, advise};
use weir_observe::observe;
use weir_sidekiq::RedisEndpoint;

use crate::findings::{PROCESS, push, rules, sample, serve, sources};
use crate::redis_server::RedisServer;

#[tokio::test]
async fn another_database_names_the_one_with_the_keys() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"default":1}"#).await;
    push(&redis, "default", 3, 0.5).await;
    let at = RedisEndpoint { database: 1, ..redis.endpoint() };
    let advice = advise(&observe(&sources(vec![at])).await);
    assert_eq!(rules(&advice), ["no-sidekiq"]);
    let finding = &advice.findings[0];
    assert_eq!(finding.severity, Severity::Warning, "silence would be health");
    let expected = "there are no Sidekiq keys: database 1 is empty; database 0 has 4 keys";
    assert_eq!(finding.evidence, expected);
    assert_eq!(finding.line_change().unwrap().line, "/0");
}

#[tokio::test]
async fn processes_in_another_database_are_told_with_its_number() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, "default", 3, 0.5).await;
    serve(&redis, r#"{"default":1}"#).await;
    redis.run(&[&["MOVE", "processes", "1"], &["MOVE", PROCESS, "1"]]);
    let (_, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["no-process"]);
    let finding = &advice.findings[0];
    let expected = "3 jobs wait and no Sidekiq process has a heartbeat in database 0; database 1 of \
                    the same Redis has 1 live process";
    assert_eq!((finding.evidence.as_str(), finding.next_step()), (expected, None));
}

#[tokio::test]
async fn keys_of_others_and_none_of_sidekiqs_are_said_to_be_that() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[&["CONFIG", "SET", "appendonly", "yes"], &["MSET", "a", "1", "b", "2"]]);
    let (_, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["no-sidekiq"]);
    let expected = "none of the 2 keys of database 0 is Sidekiq's; no other database has any key";
    assert_eq!(advice.findings[0].evidence, expected);
}

#[tokio::test]
async fn a_namespace_is_found_among_many_other_keys() {
    let Some(redis) = RedisServer::start() else { return };
    let fill = "for i = 1, 5000 do redis.call('SET', 'feed:' .. i, 'x') end";
    redis.run(&[
        &["CONFIG", "SET", "appendonly", "yes"],
        &["CONFIG", "SET", "slowlog-log-slower-than", "-1"],
        &["EVAL", fill, "0"],
        &["SADD", "shop:queues", "default"],
        &["LPUSH", "shop:queue:default", "{}"],
        &["SADD", "resque:queues", "default"],
    ]);
    let (_, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["no-sidekiq"]);
    let finding = &advice.findings[0];
    assert!(finding.evidence.ends_with("there are keys of one under \"shop:\""), "{finding:?}");
    assert!(finding.next_step().unwrap().ends_with(" SMEMBERS shop:queues"), "{finding:?}");
}

#[tokio::test]
async fn queues_without_any_process_are_not_well() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[
        &["CONFIG", "SET", "appendonly", "yes"],
        &["SADD", "queues", "default"],
        &["SET", "stat:processed", "1000"],
    ]);
    let (_, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["no-process"]);
    assert_eq!(advice.findings[0].severity, Severity::Warning);
    let expected = "no Sidekiq process has a heartbeat in database 0; no job is waiting yet";
    assert_eq!(advice.findings[0].evidence, expected);
}
