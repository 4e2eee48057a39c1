//! A real Sidekiq client and Sidekiq's API on the other side.

use std::process::Command;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_jobs::model::{JobLocation, Wid, WorkerDirective};
use weir_jobs::node::NodeReport;
use weir_jobs::store::{FailOutcome, Filter, ScanRequest, Store, WorkerReport};
use weir_sidekiq::RedisEndpoint;

use super::rig::{Node, queue_name, report, run};
use crate::shared_redis::socket;

const SETUP: &str = "require 'sidekiq'; require 'sidekiq/api'; require 'json'\n\
    Sidekiq.configure_client { |config|
      config.redis = { path: ENV['REDIS_PATH'], db: ENV['REDIS_DATABASE'].to_i } }\n";

/// A node that keeps its lease while a script runs, which blocks this thread.
fn node(redis: &RedisEndpoint) -> Node {
    Node::open_in(tempfile::tempdir().unwrap(), redis, Duration::from_secs(600))
}

/// What a script in Ruby prints. `None`, and a line that says so, where there is no Sidekiq.
fn ruby(redis: &RedisEndpoint, script: &str) -> Option<String> {
    let installed = Command::new("ruby").args(["-rsidekiq", "-e", ""]).output();
    if !installed.is_ok_and(|it| it.status.success()) {
        eprintln!("skipped: there is no sidekiq (Debian: ruby-sidekiq)");
        return None;
    }
    let mut command = Command::new("ruby");
    command.args(["-e", &format!("{SETUP}{script}")]).env("REDIS_PATH", socket(redis));
    command.env("REDIS_DATABASE", redis.database.to_string());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn what_ruby_pushes_arrives_byte_for_byte() {
    run(async |redis| {
        let push = "jid = Sidekiq::Client.push('class' => 'Mailer', 'queue' => 'mail',
            'args' => [1, 2.5, nil, \"\\u00e9\\n\\\"\", { 'b' => [], 'a' => 12345678901234567890 }],
            'tags' => ['x'], 'retry' => 3)
            raw = Sidekiq.redis { |redis| redis.lindex('queue:mail', 0) }
            puts jid, raw[/\"args\":(\\[.*?\\]),\"tags\"/, 1]";
        let Some(printed) = ruby(&redis, push) else { return };
        let (jid, args) = printed.split_once('\n').unwrap();
        let node = node(&redis);
        let delivery = node.fetch("w1", "mail", Duration::ZERO).await.unwrap();
        assert_eq!(&*delivery.jid, jid);
        let text = String::from_utf8(delivery.json).unwrap();
        assert!(text.contains(&format!("\"args\":{args},\"tags\":[\"x\"]")), "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["jobtype"], &json["queue"]), (&"Mailer".into(), &"mail".into()));
        assert_eq!(json["retry"], 3);
        assert!(json["enqueued_at"].as_str().unwrap().ends_with('Z'), "{text}");
        assert_eq!(node.store.ack(&[jid]).await, Ok(vec![]));
    });
}

#[test]
fn what_ruby_schedules_is_enqueued_when_it_is_due() {
    run(async |redis| {
        let push = "class Later; include Sidekiq::Worker; sidekiq_options queue: 'late'; end
            puts Later.perform_in(1, 'x')";
        let Some(jid) = ruby(&redis, push) else { return };
        let node = node(&redis);
        let delivery = node.fetch("w1", "late", Duration::from_secs(20)).await.unwrap();
        assert_eq!(*delivery.jid, *jid);
    });
}

#[test]
fn sidekiqs_pages_see_queues_retries_and_the_dead() {
    run(async |redis| {
        let node = node(&redis);
        let job = |jid: &str, members: &str| {
            format!(
                r#"{{"jid":"{jid}","jobtype":"Mailer","args":[1,"x"],"queue":"mail",{members}}}"#
            )
        };
        node.push(&job("retry-001", r#""retry":25"#)).await.unwrap();
        assert_eq!(node.fetch_now("mail").await.as_deref(), Some("retry-001"));
        let outcome = node.store.fail(report("retry-001")).await;
        assert!(matches!(outcome, Ok(FailOutcome::Retry { .. })), "{outcome:?}");
        node.push(&job("dead-0001", r#""retry":-1"#)).await.unwrap();
        assert_eq!(node.fetch_now("mail").await.as_deref(), Some("dead-0001"));
        assert_eq!(node.store.fail(report("dead-0001")).await, Ok(FailOutcome::Dead));
        node.push(&job("sched-001", r#""at":"2090-01-01T00:00:00Z""#)).await.unwrap();
        node.push(&job("queue-001", r#""retry":25"#)).await.unwrap();
        let look = "queue = Sidekiq::Queue.new('mail').first
            retried = Sidekiq::RetrySet.new.first
            dead = Sidekiq::DeadSet.new.first
            puts JSON.generate([Sidekiq::Queue.all.map(&:name),
              [queue.jid, queue.klass, queue.args, queue['retry'], queue.latency < 60],
              [retried.jid, retried['error_class'], retried['error_message'], retried['retry_count'],
               retried.error_backtrace, retried.at > Time.now],
              [dead.jid, dead['error_class'], dead['retry']],
              Sidekiq::ScheduledSet.new.map { |job| [job.jid, job.at.year, job.item.key?('at')] }])";
        let Some(seen) = ruby(&redis, look) else { return };
        let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
        let expected = serde_json::json!([
            ["mail"],
            ["queue-001", "Mailer", [1, "x"], true, true],
            ["retry-001", "Oops", "it broke", 0, ["line 1"], true],
            ["dead-0001", "Oops", 0],
            [["sched-001", 2090, false]],
        ]);
        assert_eq!(seen, expected);
        // What an operator does there, Weir obeys.
        ruby(&redis, "Sidekiq::RetrySet.new.first.retry; Sidekiq::DeadSet.new.clear").unwrap();
        assert_eq!(node.fetch_now("mail").await.as_deref(), Some("queue-001"));
        let again = node.fetch("w1", "mail", Duration::ZERO).await.unwrap();
        let json: serde_json::Value = serde_json::from_slice(&again.json).unwrap();
        assert_eq!(
            (&json["jid"], &json["failure"]["retry_count"]),
            (&"retry-001".into(), &0.into())
        );
        assert_eq!(node.store.counts().await.dead, 0);
    });
}

/// A Sidekiq process fetches the queues that it names, so it never runs them.
#[test]
fn sidekiqs_pages_see_quarantined_jobs() {
    run(async |redis| {
        let push = "2.times { |n| Sidekiq::Client.push('class' => 'Mailer', 'queue' => 'mail',
            'args' => [n], 'jid' => \"job-0000#{n}\", 'retry' => 3) }";
        if ruby(&redis, push).is_none() {
            return;
        }
        let node = node(&redis);
        let place = JobLocation::Queue(queue_name("mail"));
        let filter = Filter::default();
        let (after, newest_first, limit) = (None, false, 1);
        let request =
            ScanRequest { place: place.clone(), after, newest_first, limit, scan_max: 1, filter };
        let first = node.store.scan(request).await.unwrap().jobs.remove(0);
        let apart = queue_name("quarantine.x.mail");
        assert_eq!(node.store.move_to(&place, &[first.key], &apart, true).await, Ok(1));
        let look = "apart = Sidekiq::Queue.new('quarantine.x.mail').first
            puts JSON.generate([Sidekiq::Queue.all.map { |it| [it.name, it.size] }.sort,
              [apart.jid, apart.klass, apart.args, apart['queue'], apart['retry'], apart.latency < 60],
              Sidekiq::Stats.new.enqueued])";
        let seen: serde_json::Value = serde_json::from_str(&ruby(&redis, look).unwrap()).unwrap();
        let expected = serde_json::json!([
            [["mail", 1], ["quarantine.x.mail", 1]],
            ["job-00000", "Mailer", [0], "quarantine.x.mail", 3, true],
            2,
        ]);
        assert_eq!(seen, expected);
        // Its buttons work as well.
        ruby(&redis, "Sidekiq::Queue.new('quarantine.x.mail').first.delete").unwrap();
        assert_eq!(node.store.counts().await.queues.iter().map(|it| it.depth).sum::<u64>(), 1);
    });
}

#[test]
fn sidekiqs_pages_see_workers_their_jobs_and_statistics() {
    run(async |redis| {
        let node = node(&redis);
        for jid in ["job-00001", "job-00002"] {
            let json = format!(r#"{{"jid":"{jid}","jobtype":"Mailer","args":[1],"queue":"mail"}}"#);
            node.push(&json).await.unwrap();
            assert_eq!(node.fetch_now("mail").await.as_deref(), Some(jid));
        }
        node.store.fail(report("job-00002")).await.unwrap();
        let worker = WorkerReport {
            wid: Wid::new("w1"),
            hostname: "web-1".to_owned(),
            pid: 4711,
            labels: vec!["python".to_owned()],
            started: Timestamp::from_millis(1_795_202_902_000),
            rss_kb: 1_000,
            queues: vec![queue_name("mail")],
            quiet: false,
            busy: 1,
        };
        let directives =
            node.store.exchange_reports(NodeReport::default(), vec![worker.clone()]).await;
        assert!(directives.is_empty(), "{directives:?}");
        let look = "process = Sidekiq::ProcessSet.new.first
            work = Sidekiq::Workers.new.map { |_, _, work| work }.first
            process.quiet!
            puts JSON.generate([process['hostname'], process['pid'], process['queues'],
              process['busy'], process.labels, work['queue'],
              (work['payload'].is_a?(String) ? JSON.parse(work['payload']) : work['payload'])['jid']])";
        let Some(seen) = ruby(&redis, look) else { return };
        assert_eq!(seen, r#"["web-1",4711,["mail"],1,["python"],"mail","job-00001"]"#);
        let directives = node.store.exchange_reports(NodeReport::default(), vec![worker]).await;
        assert_eq!(directives, [(Wid::new("w1"), WorkerDirective::Quiet)]);
        node.store.ack(&["job-00001"]).await.unwrap();
        node.store.close().await.unwrap();
        let statistics = "stats = Sidekiq::Stats.new; today = Sidekiq::Stats::History.new(1)
            puts JSON.generate([stats.processed, stats.failed, today.processed.values.first])";
        assert_eq!(ruby(&redis, statistics).unwrap(), "[2,1,2]");
    });
}
