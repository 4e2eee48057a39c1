//! A set-up with nothing wrong is met with silence.

use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, push};
use super::{code, run};

#[test]
fn healthy_system_has_no_findings() {
    let Some(redis) = RedisServer::start() else { return };
    let settings = ["shared_buffers=128MB", "effective_cache_size=384MB"];
    let Some(postgres) = PostgresServer::start(&settings) else { return };
    make_healthy(&redis);
    let queues = ["-c", "5", "-q", "default", "-q", "mailers", "-q", "scheduler"];
    let Some(_sidekiq) = Sidekiq::start(&redis, &queues) else { return };
    push(&redis, "default", "Wait", 3, 1.0);
    let (redis, postgres) = (format!("redis://127.0.0.1:{}", redis.port), postgres.url("postgres"));
    let sources = ["--redis", &redis, "--postgres", &postgres, "--postgres-memory", "512MiB"];
    let more = ["--pushes", "default,mailers,scheduler", "--pool", "web=2x5", "--pgbouncer", "0"];
    let arguments = [&sources[..], &more, &["--window", "300ms"]].concat();
    let output = run(&arguments);
    let said = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((code(&output), said.0.as_ref(), said.1.as_ref()), (0, "", ""));
    let monitored = run(&[&arguments[..], &["--nagios"]].concat());
    assert_eq!(code(&monitored), 0);
    let line = String::from_utf8_lossy(&monitored.stdout).into_owned();
    assert!(line.starts_with("WEIR OK - nothing is wrong | findings=0 backlog=0"), "{line}");
}
