//! Each finding provoked for real.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use weir_advisor::{Advice, Fact, Observation, Severity, advise};
use weir_base::secret::Secret;
use weir_observe::{Sources, observe};
use weir_sidekiq::{READ_ONLY_ACL, RedisEndpoint, SampleLimits, SampleScope};

use crate::redis_server::RedisServer;

pub(crate) const PROCESS: &str = "web:7:0123456789ac";

pub(crate) fn sources(redis: Vec<RedisEndpoint>) -> Sources {
    let window = Duration::from_millis(300);
    let (postgres, pgbouncer, services, pushed_queues) = (None, None, Vec::new(), Vec::new());
    let (limits, proc, pooler) = (SampleLimits::default(), Some(PathBuf::from("/proc")), None);
    Sources { redis, limits, postgres, services, pooler, pgbouncer, pushed_queues, window, proc }
}

pub(crate) async fn sample(redis: &RedisServer) -> (Observation, Advice) {
    let observation = observe(&sources(vec![redis.endpoint()])).await;
    let advice = advise(&observation);
    (observation, advice)
}

pub(crate) fn rules(advice: &Advice) -> Vec<&str> {
    advice.findings.iter().map(|finding| &*finding.rule).collect()
}

/// Seconds by Redis' clock.
pub(crate) async fn now(redis: &RedisServer) -> f64 {
    redis.sample(SampleScope::Changes, &SampleLimits::default()).await.at.as_secs_f64()
}

pub(crate) async fn push(redis: &RedisServer, queue: &str, jobs: usize, age_seconds: f64) {
    let at = now(redis).await - age_seconds;
    let job = |number: usize| {
        format!(
            r#"{{"class":"A","jid":"{number}","args":["https://far.example/"],"enqueued_at":{at:.3}}}"#
        )
    };
    let jobs: Vec<String> = (0..jobs).map(job).collect();
    let key = format!("queue:{queue}");
    let words: Vec<&str> =
        ["LPUSH", &key].into_iter().chain(jobs.iter().map(String::as_str)).collect();
    redis.run(&[&["SADD", "queues", queue], &words]);
}

pub(crate) async fn serve(redis: &RedisServer, weights: &str) {
    let info = format!(
        r#"{{"hostname":"web","pid":7,"concurrency":5,"queues":[],"weights":[{weights}],"version":"7.3.9"}}"#
    );
    let beat = format!("{:.3}", now(redis).await);
    redis.run(&[
        &["CONFIG", "SET", "appendonly", "yes"],
        &["SADD", "processes", PROCESS],
        &["HSET", PROCESS, "info", &info, "busy", "1", "beat", &beat, "quiet", "false"],
    ]);
}

#[tokio::test]
async fn a_healthy_system_gives_none() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"default":8,"mailers":2}"#).await;
    push(&redis, "default", 3, 0.5).await;
    redis.run(&[&["SADD", "queues", "mailers"]]);
    let (observation, advice) = sample(&redis).await;
    assert_eq!(advice.findings, []);
    let jobs = observation.jobs.known().unwrap();
    assert_eq!((jobs.backlog(), jobs.processes.len()), (3, 1));
    assert!(observation.machine.known().is_some());
}

#[tokio::test]
async fn a_misspelt_queue_is_the_verdict() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"default":8,"mailer":2}"#).await;
    push(&redis, "mailers", 40, 3_700.0).await;
    let (_, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["unserved-queue"]);
    let line = advice.verdict.to_string();
    assert!(line.contains("40 jobs wait, the oldest for 1 h 1 min"), "{line}");
    assert!(line.contains("did you mean \"mailers\"?"), "{line}");
    assert!(line.contains("next: in all queues of web:7:"), "{line}");
}

#[tokio::test]
async fn mail_behind_pushes_starves_and_the_backlog_is_counted() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"push":0,"mailers":0}"#).await;
    push(&redis, "push", 1_500, 900.0).await;
    push(&redis, "mailers", 10, 900.0).await;
    let (_, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["starving-queue", "backlog", "redis-cpu", "backlog-made-of"]);
    assert_eq!(advice.findings[1].next_step(), Some("weir sidekiq set-aside push"));
    assert!(advice.findings[3].evidence.contains("100 % are for far.example"));
}

#[tokio::test]
async fn long_jobs_that_hold_all_threads_are_told_in_a_window_that_is_shorter_than_they_are() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"critical":10,"imports":1}"#).await;
    push(&redis, "imports", 1_500, 900.0).await;
    push(&redis, "critical", 20, 90.0).await;
    let started = now(&redis).await - 30.0;
    let job = r#"{\"class\":\"Import\",\"args\":[]}"#;
    let work = format!(r#"{{"queue":"imports","run_at":{started:.0},"payload":"{job}"}}"#);
    let key = format!("{PROCESS}:work");
    let threads: Vec<String> = (0..5).map(|thread| format!("t{thread}")).collect();
    let fields = threads.iter().flat_map(|thread| [thread.as_str(), work.as_str()]);
    let words: Vec<&str> = ["HSET", &key].into_iter().chain(fields).collect();
    redis.run(&[&words, &["HSET", PROCESS, "busy", "5"]]);
    let (_, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["starving-queue", "backlog", "redis-cpu", "backlog-made-of"]);
    let finding = &advice.findings[0];
    assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Warning, "queue critical"));
    let expected = "jobs of imports hold all 5 threads that serve it, the oldest for ";
    assert!(finding.evidence.contains(expected), "{finding:?}");
    let line = &finding.line_change().unwrap().line;
    assert_eq!(line, "bundle exec sidekiq -c 5 -q critical");
    assert_eq!(advice.findings[1].next_step(), Some("weir plan"), "no set-aside");
}

#[tokio::test]
async fn ghosts_quiet_processes_and_overdue_jobs_are_found() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"default":1}"#).await;
    let due = format!("{:.3}", now(&redis).await - 300.0);
    redis.run(&[
        &["SADD", "processes", "web:9:0123456789ae"],
        &["HSET", PROCESS, "quiet", "true"],
        &["ZADD", "retry", &due, r#"{"class":"A","args":[]}"#],
        &["ZADD", "dead", &due, r#"{"class":"A","args":[]}"#],
    ]);
    let (_, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["overdue-jobs", "ghost-process", "quiet-process"]);
    assert_eq!(advice.findings[2].severity, Severity::Notice, "since when is not known");
}

#[tokio::test]
async fn the_message_of_an_error_is_told_without_its_password() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"default":1}"#).await;
    let later = format!("{:.3}", now(&redis).await + 3_600.0);
    let job = r#"{"class":"Import","error_class":"PG::ConnectionBad","error_message":"postgres://shop:hunter2@db/shop refused\nDETAIL: x"}"#;
    let fill =
        "for i = 1, 200 do redis.call('ZADD', 'retry', ARGV[1], ARGV[2] .. string.rep(' ', i)) end";
    redis.run(&[&["EVAL", fill, "0", &later, job]]);
    let (observation, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["retry-flood"]);
    let expected = "200 failed jobs wait for a retry; 100 % of a sample with PG::ConnectionBad (for \
                    example: postgres://***@db/shop refused), most often Import";
    assert_eq!(advice.findings[0].evidence, expected);
    assert!(!format!("{observation:?}").contains("hunter2"));
}

#[tokio::test]
async fn times_in_milliseconds_are_told_from_times_in_seconds() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"default":1}"#).await;
    let now = now(&redis).await;
    let schedule = |seconds: f64, job: &str| {
        redis.run(&[&[
            "ZADD",
            "schedule",
            &format!("{seconds:.3}"),
            &format!("{{\"class\":\"{job}\"}}"),
        ]]);
    };
    schedule(now + 3_600.0, "A");
    assert_eq!(sample(&redis).await.1.findings, []);
    schedule(now + 20.0 * 31_557_600.0, "B");
    let (_, advice) = sample(&redis).await;
    assert_eq!(
        (rules(&advice), advice.findings[0].severity),
        (vec!["far-scheduled"], Severity::Notice)
    );
    schedule((now + 3_600.0) * 1_000.0, "C");
    let (observation, advice) = sample(&redis).await;
    let finding = &advice.findings[0];
    assert_eq!(finding.severity, Severity::Warning, "{finding:?}");
    assert_eq!(finding.evidence, "2 of 3 scheduled jobs are due in more than ten years");
    assert!(finding.consequence.contains("the times of 1 are within ten years"), "{finding:?}");
    let far = observation.jobs.known().unwrap().scheduled.far_ahead;
    let mut count = ::redis::cmd("ZCOUNT");
    let count = count.arg("schedule").arg(far.after_unix_seconds).arg("+inf");
    assert_eq!(count.query::<u64>(&mut redis.client()).unwrap(), 2);
}

#[tokio::test]
async fn a_redis_that_evicts_and_keeps_nothing_is_found() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[
        &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"],
        &["CONFIG", "SET", "maxmemory", "100mb"],
    ]);
    let (_, advice) = sample(&redis).await;
    assert_eq!(rules(&advice), ["no-sidekiq", "redis-eviction", "redis-persistence"]);
}

#[tokio::test]
async fn a_user_without_rights_gives_unknown_with_the_rule_that_is_missing() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"default":1}"#).await;
    let rules = READ_ONLY_ACL.replace("+slowlog|get ", "").replace("+zcard ", "");
    let mut user = vec!["ACL", "SETUSER", "weir", "reset", "on", ">hunter2", "~*"];
    user.extend(rules.split_whitespace());
    redis.run(&[&user]);
    let (username, password) = (Some("weir".to_owned()), Some(Secret::new("hunter2")));
    let endpoint = RedisEndpoint { username, password, ..redis.endpoint() };
    let advice = advise(&observe(&sources(vec![endpoint])).await);
    let told: Vec<_> = advice
        .findings
        .iter()
        .map(|finding| {
            let change = finding.line_change().unwrap();
            (finding.severity, finding.subject.as_str(), change.line.as_str())
        })
        .collect();
    let expected = [
        (Severity::Unknown, "Redis' slow log", "ACL SETUSER weir +slowlog|get +zcard"),
        (
            Severity::Unknown,
            "the scheduled set, the retry set and the dead set",
            "ACL SETUSER weir +slowlog|get +zcard",
        ),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_shard_that_is_away_leaves_the_other_redis_known_and_the_jobs_unknown() {
    let Some(redis) = RedisServer::start() else { return };
    let away = RedisEndpoint::parse("redis://127.0.0.1:1").unwrap();
    let observation = observe(&sources(vec![redis.endpoint(), away])).await;
    assert!(observation.jobs.missing().unwrap().reason.contains("127.0.0.1:1"));
    assert!(observation.redis[0].known().is_some());
    assert!(matches!(observation.redis[1], Fact::Unknown(_)));
    let findings = advise(&observation).findings;
    assert_eq!(findings[0].rule, "unreachable");
    assert!(!findings.iter().any(|finding| finding.rule == "unseen"), "it is said once");
}

#[tokio::test]
async fn processes_of_this_machine_tell_their_cores_and_others_do_not() {
    let Some(redis) = RedisServer::start() else { return };
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mut sidekiq = Command::new("sleep").arg0("sidekiq 6.4.1 shop").arg("60").spawn().unwrap();
    let info = |host: &str, pid: u32| {
        format!(r#"{{"hostname":"{}","pid":{pid},"concurrency":1}}"#, host.trim())
    };
    // The ID of the second one is that of this test: that Sidekiq is in a container.
    let [local, contained, remote] = ["a:1:0123456789ab", "b:1:0123456789ab", "c:1:0123456789ab"];
    redis.run(&[
        &["SADD", "processes", local, contained, remote],
        &["HSET", local, "info", &info(&here, sidekiq.id())],
        &["HSET", contained, "info", &info(&here, std::process::id())],
        &["HSET", remote, "info", &info("elsewhere.example", sidekiq.id())],
    ]);
    let (observation, _) = sample(&redis).await;
    sidekiq.kill().unwrap();
    sidekiq.wait().unwrap();
    let processes = &observation.jobs.known().unwrap().processes;
    let known: Vec<_> = processes.iter().map(|it| it.cores_used.known().is_some()).collect();
    assert_eq!(known, [true, false, false]);
    let signals: Vec<_> = processes.iter().map(|it| it.signal("TTIN")).collect();
    assert_eq!(signals[0].as_deref(), Some(format!("kill -TTIN {}", sidekiq.id()).as_str()));
    assert_eq!(signals[1], None, "here, that is another program");
}

#[tokio::test]
async fn keys_that_were_evicted_are_counted() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[
        &["CONFIG", "SET", "maxmemory-policy", "allkeys-random"],
        &["CONFIG", "SET", "maxmemory", "4mb"],
        &["EVAL", "for i = 1, 6000 do redis.call('SET', 'k' .. i, string.rep('x', 1000)) end", "0"],
        &["SET", "one-more", "x"],
    ]);
    let (observation, advice) = sample(&redis).await;
    assert!(observation.redis[0].known().unwrap().info.evicted_keys > 0);
    let evicting = advice.findings.iter().find(|finding| finding.rule == "redis-eviction").unwrap();
    assert_eq!(evicting.severity, Severity::Critical);
}

#[tokio::test]
async fn what_a_limit_cuts_off_is_said() {
    let Some(redis) = RedisServer::start() else { return };
    serve(&redis, r#"{"a":1,"b":1,"c":1}"#).await;
    redis.run(&[&["SADD", "queues", "a", "b", "c"]]);
    let mut few = sources(vec![redis.endpoint()]);
    few.limits.queues_max = 2;
    let observation = observe(&few).await;
    assert_eq!(observation.cut, ["queues_max (2)"]);
    assert_eq!(rules(&advise(&observation)), ["unseen"]);
}
