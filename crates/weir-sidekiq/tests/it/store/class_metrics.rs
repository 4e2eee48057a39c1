//! Counts and durations by class, where Sidekiq's page of metrics reads them.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};
use weir_jobs::settings::JobServerSettings;
use weir_jobs::store::Store;
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::{ClassMetricsLayout, RedisStoreOptions};

use super::rig::{Node, options, report, run};
use crate::shared_redis::{client, socket};

/// Longer than any test.
const LEASE: Duration = Duration::from_secs(600);
const MINUTE: Duration = Duration::from_secs(60);

type Fields = BTreeMap<String, u64>;

/// A node that writes `layout`, after `change`.
fn node(
    redis: &RedisEndpoint,
    layout: ClassMetricsLayout,
    change: impl FnOnce(&mut JobServerSettings),
) -> Node {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = JobServerSettings::default();
    change(&mut settings);
    let mut options: RedisStoreOptions = options(redis, &directory, LEASE);
    options.settings.class_metrics = layout;
    Node::with(directory, &options, &settings)
}

/// Runs two jobs of a class, one of another that fails, and one that carries another class. Then
/// the node leaves, which writes all that it has counted.
async fn work(node: &Node) {
    for (jid, class, more) in [
        ("job-00001", "Ns::Mailer", ""),
        ("job-00002", "Ns::Mailer", ""),
        ("job-00003", "Broken", ""),
        ("job-00004", "ActiveJob::Wrapper", r#","wrapped":"Inner""#),
        ("job-00005", "odd|class", ""),
    ] {
        let json = format!(r#"{{"jid":"{jid}","jobtype":"{class}","args":[],"queue":"q"{more}}}"#);
        node.push(&json).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some(jid));
        if class == "Broken" {
            node.store.fail(report(jid)).await.unwrap();
        } else {
            assert_eq!(node.store.ack(&[jid]).await, Ok(vec![]));
        }
    }
    node.store.close().await.unwrap();
}

/// The fields of the hashes whose names match, summed: a minute may end meanwhile.
fn counts(redis: &mut redis::Connection, pattern: &str) -> Fields {
    let mut sums = Fields::new();
    for key in keys(redis, pattern) {
        let fields: Fields = redis::cmd("HGETALL").arg(&key).query(redis).unwrap();
        for (field, count) in fields {
            *sums.entry(field).or_default() += count;
        }
    }
    sums
}

fn keys(redis: &mut redis::Connection, pattern: &str) -> Vec<String> {
    redis::cmd("KEYS").arg(pattern).query(redis).unwrap()
}

fn expected(fields: &Fields) -> bool {
    let of = |field: &str| fields.get(field).copied();
    let counted = [
        ("Ns::Mailer|p", Some(2)),
        ("Ns::Mailer|f", None),
        ("Broken|p", Some(1)),
        ("Broken|f", Some(1)),
        ("Broken|ms", None),
        ("Inner|p", Some(1)),
        ("ActiveJob::Wrapper|p", None),
    ];
    counted.iter().all(|(field, count)| of(field) == *count) && of("Ns::Mailer|ms").is_some()
}

/// The runs in a histogram.
fn timed(redis: &mut redis::Connection, key: &str) -> u64 {
    let mut command = redis::cmd("BITFIELD_RO");
    command.arg(key);
    for bucket in 0..26 {
        command.arg("GET").arg("u16").arg(format!("#{bucket}"));
    }
    command.query::<Vec<u64>>(redis).unwrap().iter().sum()
}

/// The minutes in which a test that began at `from` may have written.
fn minutes_since(from: Timestamp) -> [String; 2] {
    [from, Clock::system().now()].map(weir_jobs::stamp::rfc3339)
}

#[test]
fn sidekiq_7_finds_counts_and_histograms() {
    run(async |redis| {
        let from = Clock::system().now();
        let node = node(&redis, ClassMetricsLayout::Auto, |_| {});
        work(&node).await;
        assert!(node.scrape().contains("limit_hits_total{limit=\"metrics_classes_max\"} 1"));
        let mut client = client(&redis);
        let found = counts(&mut client, "j|20*");
        assert!(expected(&found), "{found:?}");
        assert!(keys(&mut client, "h|*").is_empty());
        let names = minutes_since(from).map(|at| {
            let minute: u8 = at[14..16].parse().unwrap();
            format!("Ns::Mailer-{}-{}:{minute}", &at[8..10], &at[11..13])
        });
        assert!(keys(&mut client, "Broken-*").is_empty(), "a failure has no duration");
        let histograms = keys(&mut client, "Ns::Mailer-*");
        assert!(histograms.iter().all(|key| names.contains(key)), "{histograms:?} {names:?}");
        let timed: u64 = histograms.iter().map(|key| timed(&mut client, key)).sum();
        assert_eq!(timed, 2);
        for key in keys(&mut client, "j|*").into_iter().chain(histograms) {
            let kept: i64 = redis::cmd("TTL").arg(&key).query(&mut client).unwrap();
            assert!((28_000..=28_800).contains(&kept), "{key}: {kept}");
        }
    });
}

#[test]
fn sidekiq_8_finds_minutes_and_ten_minutes() {
    run(async |redis| {
        let mut client = client(&redis);
        let info = r#"{"hostname":"web","pid":7,"version":"8.0.9","queues":["q"]}"#;
        let identity = "web:7:0123456789ab";
        redis::cmd("SADD").arg("processes").arg(identity).exec(&mut client).unwrap();
        redis::cmd("HSET").arg(identity).arg("info").arg(info).exec(&mut client).unwrap();
        let node = node(&redis, ClassMetricsLayout::Auto, |_| {});
        work(&node).await;
        assert!(keys(&mut client, "j|20??????|*").is_empty(), "the keys of Sidekiq 7");
        let minutes = counts(&mut client, "j|??????|*:??");
        let tens = counts(&mut client, "j|??????|*:?");
        assert!(expected(&minutes) && minutes == tens, "{minutes:?} {tens:?}");
        assert!(!keys(&mut client, "h|Inner-*").is_empty());
        let ten = keys(&mut client, "j|??????|*:?").remove(0);
        let kept: i64 = redis::cmd("TTL").arg(&ten).query(&mut client).unwrap();
        assert!(kept > 259_000, "{kept}");
    });
}

#[test]
fn a_ghost_decides_nothing_and_off_writes_nothing() {
    run(async |redis| {
        let mut client = client(&redis);
        redis::cmd("SADD").arg("processes").arg("gone:1:0123456789ab").exec(&mut client).unwrap();
        work(&node(&redis, ClassMetricsLayout::Off, |_| {})).await;
        assert!(keys(&mut client, "j|*").is_empty());
        work(&node(&redis, ClassMetricsLayout::Auto, |_| {})).await;
        assert!(!keys(&mut client, "j|20??????|*").is_empty());
        assert!(keys(&mut client, "h|*").is_empty());
    });
}

#[test]
fn classes_beyond_the_limit_are_left_out_and_a_key_of_another_type_spoils_no_other_class() {
    run(async |redis| {
        let mut client = client(&redis);
        // This minute and those that may follow.
        let now = Clock::system().now();
        for later in 0..3 {
            let time = weir_jobs::stamp::rfc3339(now + MINUTE * later);
            let minute: u8 = time[14..16].parse().unwrap();
            let key = format!("Ns::Mailer-{}-{}:{minute}", &time[8..10], &time[11..13]);
            redis::cmd("LPUSH").arg(key).arg("x").exec(&mut client).unwrap();
        }
        let node =
            node(&redis, ClassMetricsLayout::Sidekiq7, |it| it.limits.metrics_classes_max = 2);
        work(&node).await;
        let found = counts(&mut client, "j|*");
        let classes: Vec<&str> =
            found.keys().filter_map(|field| field.strip_suffix("|p")).collect();
        assert_eq!(classes, ["Broken", "Ns::Mailer"]);
        assert!(node.scrape().contains("limit_hits_total{limit=\"metrics_classes_max\"} 2"));
    });
}

/// Reads with Sidekiq's own classes what a node wrote. `WEIR_SIDEKIQ_LIBS` has, for each version and
/// separated by spaces, the folders `lib` of Sidekiq, redis-client and connection_pool, with colons
/// between them.
#[test]
fn sidekiqs_own_query_reads_what_a_node_wrote() {
    #[expect(clippy::disallowed_methods, reason = "`make long` names the versions by it")]
    let versions = std::env::var("WEIR_SIDEKIQ_LIBS");
    let Ok(versions) = versions else {
        eprintln!("skipped: WEIR_SIDEKIQ_LIBS names no Sidekiq 7 or 8");
        return;
    };
    for libraries in versions.split_whitespace() {
        run(async |redis| {
            let version = ruby(&redis, libraries, "puts Sidekiq::VERSION");
            let mut client = client(&redis);
            let info = format!(r#"{{"hostname":"web","pid":7,"version":"{version}"}}"#);
            let identity = "web:7:0123456789ab";
            redis::cmd("SADD").arg("processes").arg(identity).exec(&mut client).unwrap();
            redis::cmd("HSET").arg(identity).arg("info").arg(info).exec(&mut client).unwrap();
            work(&node(&redis, ClassMetricsLayout::Auto, |_| {})).await;
            let seen = ruby(&redis, libraries, QUERY);
            let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
            let expected = serde_json::json!({
                "top": [["Broken", 1, 1], ["Inner", 1, 0], ["Ns::Mailer", 2, 0]],
                "one": [2, 0, true, 2],
                "long": if version.starts_with('7') { serde_json::Value::Null } else { 2.into() },
            });
            assert_eq!(seen, expected, "Sidekiq {version}");
            eprintln!("Sidekiq {version} reads what a node wrote");
        });
    }
}

const QUERY: &str = "query = Sidekiq::Metrics::Query.new
    top = query.top_jobs.job_results.map { |name, it| [name, it.totals['p'], it.totals['f']] }
    one = query.for_job('Ns::Mailer').job_results['Ns::Mailer']
    timed = one.hist.values.sum { |histogram| histogram.sum }
    long = if Sidekiq::VERSION.to_i > 7
      query.top_jobs(hours: 1).job_results['Ns::Mailer'].totals['p']
    end
    puts JSON.generate(top: top.sort,
      one: [one.totals['p'], one.totals['f'], one.totals.key?('ms'), timed], long: long)";

/// Sidekiq 8 asks for Ruby 3.2. The classes that are used here run on 3.1, Debian 12's, as well.
const SETUP: &str = "require 'set'; require 'json'
    if RUBY_VERSION < '3.2'
      Object.send(:remove_const, :RUBY_VERSION); RUBY_VERSION = '3.2.0'
    end
    require 'sidekiq'; require 'sidekiq/metrics/query'
    Sidekiq.configure_client { |config|
      config.redis = { path: ENV['REDIS_PATH'], db: ENV['REDIS_DATABASE'].to_i } }\n";

fn ruby(redis: &RedisEndpoint, libraries: &str, script: &str) -> String {
    let mut command = Command::new("ruby");
    command.args(libraries.split(':').flat_map(|library| ["-I", library]));
    command.args(["-e", &format!("{SETUP}{script}")]).env("REDIS_PATH", socket(redis));
    command.env("REDIS_DATABASE", redis.database.to_string());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Sidekiq logs there, too.
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.lines().last().unwrap_or_default().to_owned()
}
