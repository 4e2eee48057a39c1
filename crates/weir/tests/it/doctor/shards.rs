//! Two Redis servers with a Sidekiq each.

use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, push};
use super::{code, json, run};
use crate::process::output_of;
use crate::weir::program;

#[test]
fn each_shard_has_its_own_findings_and_commands() {
    let (Some(one), Some(other)) = (RedisServer::start(), RedisServer::start()) else { return };
    make_healthy(&one);
    make_healthy(&other);
    let Some(_default) = Sidekiq::start(&one, &["-c", "1", "-q", "default"]) else { return };
    let Some(_push) = Sidekiq::start(&other, &["-c", "1", "-q", "push"]) else { return };
    push(&other, "default", "Wait", 40, 3_700.0);
    push(&other, "push", "Wait", 400, 900.0);
    let urls = [&one, &other].map(|it| format!("redis://127.0.0.1:{}", it.port));
    let arguments = ["--redis", &urls[0], "--redis", &urls[1], "--window", "300ms"];
    let advice = json(&arguments);
    let said = |rule: &str, word: &str| {
        let findings = advice["findings"].as_array().expect("findings");
        let finding = findings.iter().find(|it| it["rule"] == rule);
        let finding = finding.unwrap_or_else(|| panic!("{rule}: {advice:#}"));
        finding[word].as_str().expect("a word").to_owned()
    };
    let shard = format!("127.0.0.1:{}", other.port);
    assert_eq!(said("unserved-queue", "subject"), format!("queue default of Redis {shard}"));
    assert_eq!(said("unserved-queue", "shard"), shard);
    let steps = "once the other change to its queues is made, a process must serve push_backlog";
    assert!(said("backlog", "consequence").contains(steps), "{advice:#}");
    // A plan is one Sidekiq's.
    let output = output_of(program().arg("plan").args(&arguments[..4]));
    assert_eq!(code(&output), 64, "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("run it once for each --redis"), "{error}");
    let plan =
        ["plan", "--redis", &urls[1], "--window", "10ms", "--cores", "4", "--memory", "8GiB"];
    let output = output_of(program().args(plan));
    assert_eq!(code(&output), 0, "{output:?}");
    let text = String::from_utf8(run(&arguments).stdout).expect("text");
    assert!(text.contains(&format!("CRITICAL  queue default of Redis {shard}")), "{text}");

    let with_one_away = [&arguments[..], &["--redis", "redis://127.0.0.1:1"]].concat();
    let output = run(&with_one_away);
    assert_eq!(code(&output), 1);
    let text = String::from_utf8(output.stdout).expect("text");
    for expected in
        [&format!("CRITICAL  queue default of Redis {shard}"), "CRITICAL  Redis 127.0.0.1:1"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
