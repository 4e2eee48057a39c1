//! `weir sidekiq set-aside` on a real Sidekiq.

use std::process::Output;

use super::code;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, push};
use crate::process::{output_of, wait_until};
use crate::weir::program;

/// Each holds a thread for 20 ms: with two threads all take a minute. `WEIR_SIDEKIQ_JOBS=200000` and
/// `--nocapture` for the figures of the documentation.
const JOBS: u64 = 6_000;

fn set_aside(redis: &RedisServer, more: &[&str]) -> Output {
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let arguments = ["sidekiq", "set-aside", "pull", "--redis", &url];
    output_of(program().args(arguments).args(more))
}

fn number(redis: &RedisServer, command: &[&str]) -> u64 {
    let (name, arguments) = command.split_first().expect("a command");
    let mut command = ::redis::cmd(name);
    arguments.iter().for_each(|argument| {
        command.arg(argument);
    });
    let number: Option<u64> = command.query(&mut redis.client()).expect("a number");
    number.unwrap_or_default()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn jobs() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a measurement by hand sets the size")]
    std::env::var("WEIR_SIDEKIQ_JOBS").map_or(JOBS, |jobs| jobs.parse().expect("a number"))
}

#[test]
fn set_aside_backlog_loses_no_job() {
    let Some(redis) = RedisServer::start() else { return };
    let jobs = jobs();
    for start in (0..jobs).step_by(5_000) {
        push(&redis, "pull", "Nap", usize::try_from((jobs - start).min(5_000)).unwrap(), 9.0);
    }
    let refused = set_aside(&redis, &["--yes"]);
    assert_eq!(code(&refused), 2);
    assert!(error(&refused).contains("no process serves pull"), "{}", error(&refused));
    let why = format!("find the cause with `weir doctor --redis redis://127.0.0.1:{}`", redis.port);
    assert!(error(&refused).contains(&why), "{}", error(&refused));

    let Some(without) = Sidekiq::start(&redis, &["-c", "2", "-q", "pull"]) else { return };
    let refused = set_aside(&redis, &["--yes"]);
    assert_eq!(code(&refused), 2);
    let way = format!("add it as the last queue of {}: `-q pull", without.identity);
    assert!(error(&refused).contains(&way), "{}", error(&refused));
    without.stop();

    let queues = ["-c", "2", "-q", "pull", "-q", "pull_backlog"];
    let with = Sidekiq::start(&redis, &queues).expect("it started before");
    let unasked = set_aside(&redis, &[]);
    assert!(
        code(&unasked) == 2 && error(&unasked).contains("confirm with --yes"),
        "{}",
        error(&unasked)
    );
    assert_eq!(number(&redis, &["EXISTS", "queue:pull_backlog"]), 0);

    let nothing = set_aside(&redis, &["--undo", "--yes"]);
    assert_eq!(code(&nothing), 0, "{}", error(&nothing));
    assert!(text(&nothing).contains("pull_backlog is empty"), "{}", text(&nothing));

    let done = set_aside(&redis, &["--yes"]);
    assert_eq!(code(&done), 0, "{}", error(&done));
    let back = format!(
        "undo with: weir sidekiq set-aside --undo --redis redis://127.0.0.1:{} pull",
        redis.port
    );
    assert!(text(&done).contains(&back), "{}", text(&done));
    push(&redis, "pull", "Mark", 1, 0.0);
    wait_until("a new job runs", || number(&redis, &["EXISTS", "marked"]) == 1);
    let behind = number(&redis, &["LLEN", "queue:pull_backlog"]);
    assert!(behind > jobs / 10, "{behind} of {jobs} were still to do");

    let again = set_aside(&redis, &["--yes"]);
    assert!(code(&again) == 2 && error(&again).contains("of an earlier run"), "{}", error(&again));
    assert_eq!(code(&set_aside(&redis, &["--undo", "--yes"])), 0);
    assert_eq!(number(&redis, &["EXISTS", "queue:pull_backlog"]), 0);
    with.stop();
    let (waiting, done) =
        (number(&redis, &["LLEN", "queue:pull"]), number(&redis, &["GET", "napped"]));
    assert_eq!(waiting + done, jobs, "{waiting} wait, {done} are done");
}
