//! Several Redis servers: each is a Sidekiq of its own.

use weir_advisor::{Advice, Finding, Severity, advise};
use weir_observe::observe;
use weir_sidekiq::RedisEndpoint;

use crate::findings::{push, rules, serve, sources};
use crate::redis_server::RedisServer;

async fn advice(shards: &[RedisEndpoint]) -> Advice {
    advise(&observe(&sources(shards.to_vec())).await)
}

fn of<'a>(advice: &'a Advice, rule: &str) -> &'a Finding {
    let found = advice.findings.iter().find(|finding| finding.rule == rule);
    found.unwrap_or_else(|| panic!("{rule}: {:?}", advice.findings))
}

#[tokio::test]
async fn a_queue_served_on_one_shard_is_unserved_on_the_other_and_one_that_is_away_hides_nothing() {
    let (Some(one), Some(other)) = (RedisServer::start(), RedisServer::start()) else { return };
    serve(&one, r#"{"default":1}"#).await;
    serve(&other, r#"{"mailers":1}"#).await;
    push(&one, "default", 3, 0.5).await;
    push(&other, "default", 40, 3_700.0).await;
    let both = [one.endpoint(), other.endpoint()];
    let seen = advice(&both).await;
    assert_eq!(rules(&seen), ["unserved-queue"]);
    let unserved = of(&seen, "unserved-queue");
    let shard = format!("127.0.0.1:{}", other.port);
    assert_eq!(unserved.subject, format!("queue default of Redis {shard}"));
    assert_eq!((unserved.severity, unserved.shard.as_ref()), (Severity::Critical, Some(&shard)));
    assert!(unserved.evidence.starts_with("40 jobs wait"), "those of the other: {unserved:?}");

    let away = RedisEndpoint::parse("redis://127.0.0.1:1").unwrap();
    let seen = advice(&[away, one.endpoint(), other.endpoint()]).await;
    assert_eq!(rules(&seen), ["unreachable", "unserved-queue"]);
    assert_eq!(of(&seen, "unreachable").subject, "Redis 127.0.0.1:1");
    assert_eq!(of(&seen, "unserved-queue").subject, format!("queue default of Redis {shard}"));
}

#[tokio::test]
async fn jobs_on_a_shard_without_a_process_are_not_the_other_ones() {
    let (Some(one), Some(other)) = (RedisServer::start(), RedisServer::start()) else { return };
    serve(&one, r#"{"default":1}"#).await;
    other.run(&[&["CONFIG", "SET", "appendonly", "yes"]]);
    push(&other, "default", 4, 0.5).await;
    let seen = advice(&[one.endpoint(), other.endpoint()]).await;
    assert_eq!(rules(&seen), ["no-process"]);
    let expected = format!("Sidekiq of Redis 127.0.0.1:{}", other.port);
    assert_eq!(of(&seen, "no-process").subject, expected);
}
