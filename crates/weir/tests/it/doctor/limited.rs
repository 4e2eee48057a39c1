//! `weir sidekiq limited`: what an autopilot that is gone has left, and what one limits now.

use std::process::Output;
use std::time::Duration;

use weir_sidekiq::{LimitedQueue, LimitedQueues, RedisConnection, RedisEndpoint, SampleLimits};

use super::code;
use super::redis_server::RedisServer;
use super::sidekiq::push;
use crate::process::{output_of, wait_until};
use crate::weir::program;

const JOBS: usize = 1_200;
/// Jobs that a step moves.
const STEP: u64 = 500;

fn limited(redis: &RedisServer, more: &[&str]) -> Output {
    let url = format!("redis://127.0.0.1:{}", redis.port);
    output_of(program().args(["sidekiq", "limited", "--redis", &url]).args(more))
}

fn text(output: &Output) -> String {
    assert_eq!(code(output), 0, "{}", error(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Moves jobs as an autopilot does that is then killed.
fn move_jobs(redis: &RedisServer, class: &str, lease: Duration) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let endpoint = RedisEndpoint::parse(&format!("redis://127.0.0.1:{}", redis.port));
        let endpoint = endpoint.expect("an address");
        let connection = RedisConnection::open(&endpoint, &SampleLimits::default()).await;
        let mut queues = LimitedQueues::new(connection.expect("connected"));
        let of_class = LimitedQueue::of("default", class).expect("a name");
        queues.move_jobs(&of_class, lease).await.expect("moved")
    })
}

fn length(redis: &RedisServer, queue: &str) -> usize {
    let key = format!("queue:{queue}");
    ::redis::cmd("LLEN").arg(key).query(&mut redis.client()).expect("a length")
}

#[test]
fn jobs_that_nobody_limits_any_more_are_listed_and_moved_back() {
    let Some(redis) = RedisServer::start() else { return };
    assert_eq!(text(&limited(&redis, &[])), "no job type is limited\n");
    assert_eq!(text(&limited(&redis, &["--end"])), "0 jobs moved back\n");
    push(&redis, "default", "Import", JOBS, 9.0);
    for _ in 0..2 {
        assert_eq!(move_jobs(&redis, "Import", Duration::from_millis(1)), STEP);
    }
    push(&redis, "default", "Mail", 1, 9.0);
    wait_until("the lease is over", || {
        text(&limited(&redis, &[])).contains("; not limited any more")
    });
    let shown = text(&limited(&redis, &[]));
    assert!(
        shown.starts_with("default_limited_Import: 1,000 jobs of Import from default"),
        "{shown}"
    );
    let unasked = limited(&redis, &["--end"]);
    assert!(error(&unasked).contains("confirm with --yes"), "{}", error(&unasked));
    assert_eq!(text(&limited(&redis, &["--end", "--yes"])), "1,000 jobs moved back\n");
    assert_eq!(
        (length(&redis, "default"), length(&redis, "default_limited_Import")),
        (JOBS + 1, 0)
    );
    // One that is limited now stays, unless it is forced.
    assert_eq!(move_jobs(&redis, "Import", Duration::from_secs(600)), STEP);
    let kept = limited(&redis, &["--end", "--yes"]);
    assert!(error(&kept).contains("turn it off (weir autopilot off)"), "{}", error(&kept));
    assert_eq!(text(&kept), "0 jobs moved back\n");
    let shown: serde_json::Value =
        serde_json::from_str(&text(&limited(&redis, &["--json"]))).expect("JSON");
    assert_eq!((&shown[0]["jobs"], &shown[0]["limited"]), (&500.into(), &true.into()));
    assert_eq!(text(&limited(&redis, &["--end", "--force", "--yes"])), "500 jobs moved back\n");
    assert_eq!(length(&redis, "default"), JOBS + 1);
}
