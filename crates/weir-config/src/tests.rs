mod autopilot;
mod console;
mod front;
mod gems;
mod keys;
mod observe;
mod realtime;
mod shared_sockets;
mod workers;

use std::path::Path;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_base::token_bucket::Rate;
use weir_front::ForwardedHeader;
use weir_jobs::allocation::{Allocation, LaneLimits};
use weir_jobs::settings::StoreKind as JobStoreKind;

use super::*;

fn load(text: &str) -> Result<Loaded, SettingErrors> {
    let source = Source::of(Path::new("weir.toml"), text, None);
    let environment = |name: &str| match name {
        "PASSWORD" => Some("correct horse"),
        "DATABASE_URL" => Some("postgres://weir:correct-horse@db.example/weir"),
        _ => None,
    };
    parse(&source, &|name| environment(name).map(str::to_owned))
}

fn settings(text: &str) -> Settings {
    load(text).unwrap_or_else(|errors| panic!("{errors}")).settings
}

fn errors(text: &str) -> String {
    load(text).expect_err("refused").to_string()
}

/// Replaces values that depend on the machine.
fn without_numbers(text: &str) -> String {
    let word =
        |word: &str| if word.parse::<u64>().is_ok() { "N".to_owned() } else { word.to_owned() };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let settings = settings("");
    assert_eq!(settings.data_dir, Path::new("data"));
    assert_eq!(settings.jobs.listen, "127.0.0.1:7419".parse().ok());
    assert_eq!(settings.console.listen, "127.0.0.1:7420".parse().ok());
    assert_eq!(settings.jobs.settings.directory, Path::new("data/jobs"));
    assert_eq!(settings.jobs.settings.limits, weir_jobs::settings::JobServerLimits::default());
}

#[test]
fn every_kind_of_value_is_read() {
    let settings = settings(
        r#"
data_dir = "kept"
[log]
level = "debug"
[jobs]
listen = "[::1]:17419"
fsync = "everysec"
fsync_acks = true
gather_wait = "2ms"
password = { env = "PASSWORD" }
[jobs.limits]
line_bytes_max = "1MiB"
pushb_jobs_max = 5
dead_age_max = "30d"
[jobs.queues.pull]
target_latency = "5m"
concurrency = 40
fresh_lane = true
[console]
hosts = ["weir.example"]
"#,
    );
    let jobs = &settings.jobs.settings;
    assert_eq!(settings.data_dir, Path::new("kept"));
    assert_eq!(settings.log.level.as_str(), "debug");
    assert_eq!(settings.jobs.listen, "[::1]:17419".parse().ok());
    assert_eq!(jobs.fsync, weir_jobs::settings::Fsync::EverySecond);
    assert!(jobs.fsync_acks);
    assert_eq!(jobs.gather_wait, Duration::from_millis(2));
    assert_eq!(jobs.password.as_ref().expect("a password").expose(), "correct horse");
    assert_eq!(jobs.limits.line_bytes_max, 1 << 20);
    assert_eq!(jobs.limits.pushb_jobs_max, 5);
    assert_eq!(jobs.limits.dead_age_max, Duration::from_secs(30 * 86_400));
    let (name, queue) = jobs.queues.first_key_value().expect("a queue");
    assert_eq!(name.as_str(), "pull");
    assert_eq!(queue.target_latency, Some(Duration::from_secs(300)));
    assert_eq!(queue.concurrency, Some(40));
    assert!(queue.fresh_lane);
    assert_eq!(settings.console.hosts, ["weir.example"]);
}

#[test]
fn all_errors_are_reported_with_positions() {
    let text = r#"
data_dri = "x"
shutdown_deadline = 10
[jobs]
listen = "7419"
store = "embeded"
fsync = true
password = "hunter2"
[jobs.limits]
advanced.fetch_wait = "2 fortnights"
advanced.returns_max = 1000
lines_bytes_max = "1MiB"
line_bytes_max = "8GiB"
[jobs.queues."has space"]
concurrency = 0
[console]
listen = "0.0.0.0:7420"
token = { env = "ABSENT" }
[consoles]
"#;
    insta::assert_snapshot!(errors(text), @r#"
    weir.toml:2:1: data_dri is not a setting; did you mean "data_dir"?
    weir.toml:3:21: shutdown_deadline: expected a duration like "10s", not an integer
    weir.toml:5:10: jobs.listen: "7419" has no port; write for example "127.0.0.1:7419"
    weir.toml:6:9: jobs.store: "embeded" is none of "embedded", "memory", "redis"; did you mean "embedded"?
    weir.toml:7:9: jobs.fsync: expected a word, not a boolean
    weir.toml:8:12: jobs.password: a secret must not be in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:10:23: jobs.limits.advanced.fetch_wait: "2 fortnights" is not a duration; write a whole number and ms, s, m, h or d, for example "10s"
    weir.toml:11:24: jobs.limits.advanced.returns_max: must be from 0 to 255
    weir.toml:12:1: jobs.limits.lines_bytes_max is not a setting; did you mean "line_bytes_max"?
    weir.toml:13:18: jobs.limits.line_bytes_max: must be from 1KiB to 1GiB
    weir.toml:14:14: queue name has a character outside [a-zA-Z0-9._-]
    weir.toml:15:15: jobs.queues.has space.concurrency: must be from 1 to 4294967295
    weir.toml:16:1: console.password: 0.0.0.0 is not loopback, so the console needs a password: set console.password = { file = "PATH" }, or listen on 127.0.0.1
    weir.toml:18:9: console.token: the environment variable ABSENT is not set
    weir.toml:19:2: consoles is not a setting; did you mean "console"?
    "#);
}

#[test]
fn realtime_in_redis_needs_addresses_and_names_that_differ() {
    let load_broker = |broker: &str| {
        load(&format!(
            "[realtime]\nbroker = {broker}\n[[realtime.apps]]\nid = \"1\"\nkey = \"k\"\nsecret = {{ env = \"PASSWORD\" }}\nclient_events = true\n"
        ))
    };
    let loaded = load_broker(r#"{ redis = [{ url = "redis://weir@10.0.0.1" }] }"#).expect("sound");
    let shards = &loaded.settings.realtime.redis_shards;
    assert_eq!((shards.len(), &*shards[0].name), (1, "10.0.0.1:6379"));
    for (broker, error) in [
        (r#""redis""#, "lacks the address of Redis"),
        (r#"{ redis = [{ url = "redis://a" }, { url = "redis://a" }] }"#, "is given twice"),
        (
            r#"{ redis = [{ name = "x", url = "redis://a" }, { name = "x", url = "redis://b" }] }"#,
            "two servers have the name \"x\"",
        ),
        (
            r#"{ redis = [{ url = "redis://a", joining = "move" }] }"#,
            "one server at least must be without joining",
        ),
        (r#"{ redis = [{ url = "redis://a/3" }] }"#, "no databases"),
        (r#"{ redis = [{ url = "unix:///a?db=1" }] }"#, "no databases"),
    ] {
        let rejected = load_broker(broker).expect_err(broker).to_string();
        assert!(rejected.contains(error), "{broker}: {rejected}");
    }
    let several = r#"{ redis = [{ name = "x", url = "redis://a" }, { url = "redis://b" }] }"#;
    let loaded = load_broker(several).expect("sound");
    let names = loaded.settings.realtime.redis_shards.into_iter().map(|shard| shard.name);
    assert_eq!(names.collect::<Vec<_>>(), ["x", "b:6379"]);
}

#[test]
fn cron_jobs_are_checked() {
    let text = r#"
[jobs]
[[jobs.cron]]
name = "fine"
schedule = "0 3 * * mon-fri"
timezone = "Europe/Berlin"
job = { jobtype = "Vacuum", queue = "scheduler", args = [1, "a", { b = true }] }
[[jobs.cron]]
name = "fine"
schedule = "0 25 * * *"
timezone = "Mars/Olympus"
missed = "always"
job = { jobtype = "Vacuum", queue = "no queue", args = {} }
[[jobs.cron]]
"#;
    let errors = errors(text);
    for error in [
        r#"jobs.cron[1].schedule: hour: "25" is not 0 to 23"#,
        r#"jobs.cron[1].timezone: "Mars/Olympus" is no time zone of this system"#,
        "jobs.cron[1].missed: ",
        "jobs.cron[1].job.args: expected a list, not a table",
        "jobs.cron[1]: malformed job: queue name has a character outside",
        r#"jobs.cron[1].name: "fine" is the name of another one"#,
        "jobs.cron[2].name is missing",
        "jobs.cron[2].job.jobtype is missing",
    ] {
        assert!(errors.contains(error), "{error}:\n{errors}");
    }
    assert!(!errors.contains("jobs.cron[0]"), "{errors}");
}

#[test]
fn cron_jobs_in_redis_need_one_server() {
    let cron = |custom: &str| {
        format!(
            "[[jobs.cron]]\nname = \"a\"\njob = {{ jobtype = \"T\", custom = {{ {custom} }} }}\n"
        )
    };
    let one = "jobs.store = { redis = [{ url = \"redis://a\" }] }\n";
    let of_two = "jobs.store = { redis = [{ url = \"redis://a\" }, { url = \"redis://b\" }] }\n";
    assert_eq!(settings(&format!("{one}{}", cron("x = 1"))).jobs.settings.cron.len(), 1);
    assert_eq!(settings(&format!("{one}{}", cron("unique_for = 60"))).jobs.settings.cron.len(), 1);
    assert_eq!(settings(&cron("unique_for = 60")).jobs.settings.cron.len(), 1);
    insta::assert_snapshot!(errors(&format!("{of_two}{}", cron("track = 1"))), @"weir.toml:2:1: jobs.cron[0]: needs a single server in jobs.store: several do not know what the others have enqueued");
}

#[test]
fn jobs_in_redis_say_what_they_do_not_obey() {
    let text = r#"
[jobs]
store = { redis = [{ url = "redis://weir@10.0.0.1/3", password = { env = "PASSWORD" } }] }
fsync = "everysec"
redis.namespace = "shop"
limits.advanced.segment_bytes = "32MiB"
"#;
    let loaded = load(text).expect("sound");
    let jobs = &loaded.settings.jobs;
    assert_eq!(jobs.settings.store, JobStoreKind::External);
    assert_eq!(jobs.redis.namespace, "shop");
    let server = &jobs.redis_shards[0].endpoint;
    assert_eq!((server.to_string().as_str(), server.password.is_some()), ("10.0.0.1:6379/3", true));
    insta::assert_snapshot!(loaded.warnings.join("
"), @r#"
    jobs.fsync has no effect on jobs in Redis: Redis decides when data is on its disk (appendfsync)
    jobs.limits.advanced.segment_bytes has no effect on jobs in Redis: there is no segment log
    "#);
    let warnings = load(
        "[jobs.redis]
lease = \"30s\"
",
    )
    .expect("sound")
    .warnings;
    let why = "without jobs.store = { redis = [..] }";
    assert_eq!(warnings, [format!("jobs.redis.lease has no effect {why}")]);
}

#[test]
fn shards_of_the_job_store_are_different() {
    let load_store = |servers: &str| load(&format!("[jobs]\nstore = {{ redis = [{servers}] }}\n"));
    let loaded =
        load_store(r#"{ url = "redis://a/1", name = "one" }, { url = "redis://b", drain = true }"#);
    let shards = loaded.expect("sound").settings.jobs.redis_shards;
    let shown: Vec<_> = shards.iter().map(|shard| (&shard.name[..], shard.drain)).collect();
    assert_eq!(shown, [("one", false), ("b:6379", true)]);
    for (servers, problem) in [
        (r#"{ url = "redis://a" }, { url = "redis://a:6379/0" }"#, "a:6379 is given twice"),
        (r#"{ url = "redis://a" }, { url = "redis://b", name = "a:6379" }"#, "have the name"),
        (r#"{ url = "redis://a", drain = true }"#, "one server at least"),
        (r#"{ url = "redis://a", name = "" }"#, "the text is empty"),
    ] {
        let errors = load_store(servers).expect_err("contradictory").to_string();
        assert!(errors.contains(problem), "{errors}");
    }
}

#[test]
fn toml_errors_have_positions() {
    insta::assert_snapshot!(errors("[jobs\nlisten = \"127.0.0.1:1\"\nfsync = = 3\n"), @r"
    weir.toml:1:6: unclosed table, expected `]`
    weir.toml:3:9: extra `=`, expected nothing
    weir.toml:3:11: unexpected key or value, expected newline, `#`
    ");
    insta::assert_snapshot!(errors("[jobs]\nfsync = \"always\"\nfsync = \"never\"\n"), @"weir.toml:3:1: duplicate key");
}

#[test]
fn missing_secrets_are_reported() {
    let text = r#"
[jobs]
password = { file = "/nonexistent/password" }
[console]
password = { env = "A", file = "B" }
token = { vault = "x" }
"#;
    insta::assert_snapshot!(errors(text), @r#"
    weir.toml:3:12: jobs.password: cannot read /nonexistent/password: No such file or directory (os error 2)
    weir.toml:5:12: console.password: a secret has one source; write { env = "NAME" } or { file = "PATH" }
    weir.toml:6:9: console.token: a secret has no source "vault"; write { env = "NAME" } or { file = "PATH" }
    "#);
}

#[test]
fn secret_file_is_read_without_newline() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("password"), "correct horse\n").expect("written");
    let text = "[jobs]\npassword = { file = \"password\" }\n";
    let source = Source::of(&folder.path().join("weir.toml"), text, None);
    let loaded = parse(&source, &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let password = loaded.settings.jobs.settings.password.expect("a password");
    assert_eq!(password.expose(), "correct horse");
    assert_eq!(loaded.settings.data_dir, folder.path().join("data"));
    let shown = format!("{:?}", loaded.values);
    assert!(!shown.contains("horse"), "a secret is never shown");
}

#[test]
fn contradictions_are_errors_and_risks_are_warnings() {
    let text = r#"
[jobs]
listen = "127.0.0.1:7420"
[jobs.limits]
line_bytes_max = "100MiB"
advanced.buffered_bytes_max = "50MiB"
advanced.segment_bytes = "16MiB"
[jobs.tls]
cert = "/nonexistent/cert.pem"
key = "/nonexistent/key.pem"
[supervisor]
advanced.backoff_min = "1m"
advanced.alive_interval = "10s"
"#;
    insta::assert_snapshot!(errors(text), @r"
    weir.toml:1:1: console.listen: 127.0.0.1:7420 is jobs.listen already
    weir.toml:6:31: jobs.limits.advanced.buffered_bytes_max: must hold at least one line of line_bytes_max
    weir.toml:7:26: jobs.limits.advanced.segment_bytes: must be at least 1MiB above reserve_bytes
    weir.toml:8:1: jobs.tls: cannot read certificate /nonexistent/cert.pem: No such file or directory (os error 2)
    weir.toml:11:1: supervisor.advanced.backoff_max: must not be below backoff_min
    weir.toml:11:1: supervisor.unresponsive_after: must be at least 4 times alive_interval
    ");
    let text = "[jobs.limits]\nbatches_max = 20000\nadvanced.segment_bytes = \"17MiB\"\n";
    insta::assert_snapshot!(errors(text), @"weir.toml:2:15: jobs.limits.batches_max: a segment of the log has room for 18724 batches; lower it, or raise jobs.limits.advanced.segment_bytes");
    load(&format!("[jobs]\nstore = \"memory\"\n{text}")).expect("there is no log");
    let text = "[jobs]\nlisten = \"0.0.0.0:7419\"\nfsync = \"never\"\nfsync_acks = true\nallow_flush = true\n";
    insta::assert_snapshot!(load(text).expect("sound").warnings.join("\n"), @r#"
    jobs.fsync = "never": a power cut loses jobs that were acknowledged, minutes of them
    jobs.fsync_acks has no effect without jobs.fsync = "always"
    jobs.allow_flush: any client can delete every job with one command
    jobs.listen is not loopback and there is no jobs.password: every client that reaches the port can push and fetch jobs
    jobs.listen is not loopback and there is no jobs.tls: jobs travel in clear text
    "#);
}

#[test]
fn ineffective_queue_settings_are_warnings() {
    let text = r#"
[jobs]
dispatch = "strict"
[jobs.queues.both]
target_latency = "5m"
fresh_lane = true
[jobs.queues.mail]
target_latency = "5m"
[jobs.queues.push]
fresh_lane = true
weight = 3
fair_headroom = 2
tenants.big = { weight = 2 }
[jobs.queues.fair]
fair_by = "custom.tenant"
fair_headroom = 2
tenants."big.org" = { weight = 2 }
"#;
    insta::assert_snapshot!(load(text).expect("sound").warnings.join("\n"), @r#"
    jobs.queues.mail.target_latency decides only which jobs count as late, because jobs.dispatch is not "targets"; add fresh_lane = true to serve the newest first when jobs are late
    jobs.queues.push.fresh_lane has no effect without target_latency
    jobs.queues.push.fair_headroom has no effect without fair_by
    jobs.queues.push.tenants has no effect without fair_by
    jobs.queues.push.weight has no effect, because jobs.dispatch is "strict"
    "#);
    let text = "[jobs]\ndispatch = \"targets\"\n";
    insta::assert_snapshot!(load(text).expect("sound").warnings.join("\n"), @r#"jobs.dispatch = "targets" without any jobs.queues.NAME.target_latency: beyond what each queue needs for its arrivals, the queues share the workers by weight"#);
    let targets = "[jobs.queues.mail]\ntarget_latency = \"5m\"\n";
    insta::assert_snapshot!(load(targets).expect("sound").warnings.join("\n"), @r#"jobs.dispatch is "auto" and queues have a target_latency: a FETCH is served by targets, and no longer in the order in which it names its queues; set jobs.dispatch = "targets", or "strict" to keep that order"#);
    let explicit = format!("[jobs]\ndispatch = \"targets\"\n{targets}");
    assert_eq!(load(&explicit).expect("sound").warnings, [""; 0]);
}

#[test]
fn certificates_that_clients_reject_are_warnings() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text);
    for (name, host, year) in [("shop", "*.shop.example", 2100), ("old", "old.example", 2002)] {
        let mut params = rcgen::CertificateParams::new([host.to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("made");
        write(&format!("{name}.pem"), cert.pem()).expect("written");
        write(&format!("{name}.key"), key.serialize_pem()).expect("written");
    }
    let parse_with = |key: &str| {
        let text = format!(
            "[front.tls]\ncert = \"shop.pem\"\nkey = \"{key}\"\nadvanced.reload_interval = \"5s\"\n\
             [[front.tls.certificates]]\ncert = \"old.pem\"\nkey = \"old.key\"\nhosts = [\"new.example\"]\n\
             [[front.apps]]\nname = \"shop\"\nhosts = [\"www.shop.example\", \"shop.example\", \"old.example\"]\n\
             upstreams = [\"127.0.0.1:3000\"]\n"
        );
        parse(&Source::of(&folder.path().join("weir.toml"), &text, None), &|_| None)
    };
    let loaded = parse_with("shop.key").unwrap_or_else(|errors| panic!("{errors}"));
    let tls = loaded.settings.front.tls.expect("certificates");
    assert_eq!((tls.certificates.len(), tls.reload_interval), (2, Duration::from_secs(5)));
    let of_tls = loaded.warnings.into_iter().filter(|warning| warning.contains("tls"));
    let warnings = of_tls.collect::<Vec<_>>().join("\n");
    let warnings = warnings.replace(&folder.path().display().to_string(), "DIR");
    let warnings = without_numbers(&warnings);
    insta::assert_snapshot!(warnings, @r"
    front.tls: DIR/old.pem expired N days ago, so clients reject it; renew it
    front.tls: DIR/old.pem has old.example, not new.example, which is among its hosts, so clients reject it there
    front.apps[0].hosts: front.tls has no certificate for shop.example, so clients reject the connection
    front.apps[0].hosts: front.tls has no certificate for old.example, so clients reject the connection
    ");
    let errors = parse_with("old.key").expect_err("they don't fit").to_string();
    assert!(errors.contains("can't be used together"), "{errors}");
}

#[test]
fn shared_addresses_are_errors() {
    let text = "[front]\nlisten = \"127.0.0.1:7420\"\n[realtime]\nlisten = \"127.0.0.1:7419\"\n";
    insta::assert_snapshot!(errors(text), @r"
    weir.toml:1:1: console.listen: 127.0.0.1:7420 is front.listen already
    weir.toml:4:10: realtime.listen: 127.0.0.1:7419 is jobs.listen already
    ");
}

#[test]
fn segment_size_is_limited_by_the_log() {
    insta::assert_snapshot!(errors("[jobs.limits]\nadvanced.segment_bytes = \"257MiB\"\n"), @"weir.toml:2:26: jobs.limits.advanced.segment_bytes: must be from 1MiB to 256MiB");
    load("[jobs.limits]\nadvanced.segment_bytes = \"256MiB\"\n").expect("sound");
}

#[test]
fn queue_count_is_limited() {
    insta::assert_snapshot!(errors("[jobs.limits]\nadvanced.queues_max = 65537\n"), @"weir.toml:2:23: jobs.limits.advanced.queues_max: must be from 1 to 65536");
    load("[jobs.limits]\nadvanced.queues_max = 65536\n").expect("sound");
}

#[test]
fn tenants_are_a_setting_of_the_embedded_store() {
    let queue = "[jobs.queues.crawl]\nfair_by = \"/args/0/domain\"\n";
    let rules = |text: &str| {
        let allocation = Allocation::of_settings(&settings(text).jobs.settings);
        allocation.queues.into_values().find_map(|queue| queue.fair)
    };
    let text = format!("{queue}fair_headroom = 12\ntenants.\"big.org\" = {{ weight = 3 }}\n");
    let fair = rules(&text).expect("rules");
    assert_eq!((fair.by.to_string().as_str(), fair.headroom), ("/args/0/domain", 12));
    assert_eq!((fair.weights.get("big.org"), fair.tenants_max), (Some(&3), 100_000));
    assert_eq!(rules("[jobs.queues.crawl]\nweight = 1\n"), None);
    let text =
        format!("{queue}tenant_concurrency = 2\ntenants.\"big.org\" = {{ concurrency = 5 }}\n");
    let limits = rules(&text).expect("rules").limits;
    assert_eq!(limits.each, LaneLimits { concurrency: Some(2), rate: None });
    assert_eq!(limits.of["big.org"], LaneLimits { concurrency: Some(5), rate: None });
    insta::assert_snapshot!(errors("[jobs.queues.crawl]\ntenant_concurrency = 2\ntenants.a = { concurrency = 5 }\n"), @r"
    weir.toml:2:22: jobs.queues.crawl.tenant_concurrency: needs fair_by, which says what names the tenant of a job
    weir.toml:3:29: jobs.queues.crawl.tenants.a.concurrency: needs fair_by, which says what names the tenant of a job
    ");
    let text = format!(
        "{queue}rate = \"100/s\"\ntenant_rate = \"5/s burst 9\"\ntenants.a = {{ rate = \"30/m\" }}\n"
    );
    let limits = rules(&text).expect("rules").limits;
    let rate = |limits: &LaneLimits| limits.rate.map(|rate| (rate.burst(), rate.interval()));
    assert_eq!(rate(&limits.each), Some((9, Duration::from_millis(200))));
    assert_eq!(rate(&limits.of["a"]), Some((1, Duration::from_secs(2))));
    let of_queue = Allocation::of_settings(&settings(&text).jobs.settings).queues;
    let of_queue = of_queue.into_values().next().and_then(|queue| queue.rate);
    assert_eq!(of_queue.map(Rate::burst), Some(10));
    insta::assert_snapshot!(errors("[jobs.queues.crawl]\nrate = \"5 per second\"\ntenant_rate = \"5/s\"\ntenants.a = { rate = \"0/s\" }\n"), @r#"
    weir.toml:2:8: jobs.queues.crawl.rate: "5 per second" is no rate: write how many jobs may start per s, m, h or d, such as "100/s" or "30/m burst 5", where up to 5 start at once after a pause (1 to 1,000,000 jobs, at most 1,000,000 a second; a burst of at most what the rate allows in 10 years)
    weir.toml:3:15: jobs.queues.crawl.tenant_rate: needs fair_by, which says what names the tenant of a job
    weir.toml:4:22: jobs.queues.crawl.tenants.a.rate: "0/s" is no rate: write how many jobs may start per s, m, h or d, such as "100/s" or "30/m burst 5", where up to 5 start at once after a pause (1 to 1,000,000 jobs, at most 1,000,000 a second; a burst of at most what the rate allows in 10 years)
    "#);
    let one = "jobs.store = { redis = [{ url = \"redis://127.0.0.1\" }] }\n";
    let of_two = "jobs.store = { redis = [{ url = \"redis://a\" }, { url = \"redis://b\" }] }\n";
    let limits = "jobs.queues.a.rate = \"5/s\"\njobs.resources.r.rate = \"5/s\"\njobs.resources.r.queues = [\"a\"]\n";
    assert!(settings(&format!("{one}{limits}")).jobs.settings.resources.contains_key("r"));
    insta::assert_snapshot!(errors(&format!("{of_two}{limits}")), @r"
    weir.toml:2:22: jobs.queues.a.rate: needs a single server in jobs.store: several do not know what the others have started
    weir.toml:3:16: jobs.resources.r: needs a single server in jobs.store: several do not know what the others have started
    ");
    let in_redis =
        format!("jobs.store = {{ redis = [{{ url = \"redis://127.0.0.1\" }}] }}\n{queue}");
    insta::assert_snapshot!(errors(&in_redis), @"weir.toml:3:11: jobs.queues.crawl.fair_by: needs the embedded store; jobs.store is a Redis, where Sidekiq takes the jobs of a queue in their order, whatever their tenants");
    let without = "[jobs.queues.crawl]\ntenant_jobs_max = 5\ntenants.a.jobs_max = 3\n";
    insta::assert_snapshot!(errors(without), @r"
    weir.toml:2:19: jobs.queues.crawl.tenant_jobs_max: needs fair_by, which says what names the tenant of a job
    weir.toml:3:22: jobs.queues.crawl.tenants.a.jobs_max: needs fair_by, which says what names the tenant of a job
    ");
    let in_redis = "jobs.store = { redis = [{ url = \"redis://127.0.0.1\" }] }\njobs.queues.a.bytes_max = \"1MiB\"\njobs.limits.disk_max = \"1GiB\"\n";
    let in_redis = errors(in_redis);
    let has = |part: &str| assert!(in_redis.contains(part), "{in_redis}");
    has(
        "jobs.queues.a.bytes_max: needs the embedded store; jobs.store is a Redis, which counts the jobs of a queue and not their bytes: use jobs_max",
    );
    has("jobs.limits.disk_max needs the embedded store: only it has a log on the disk");
    insta::assert_snapshot!(errors("[jobs.queues.crawl]\nfair_by = \"domain\"\n"), @r#"weir.toml:2:11: jobs.queues.crawl.fair_by: "domain" is no key: write custom.NAME or a JSON pointer such as /args/0/domain, of at most 256 bytes"#);
}

#[test]
fn resources_limit_jobs_of_types_and_queues() {
    let rules = |text: &str| {
        let resources = Allocation::of_settings(&settings(text).jobs.settings).resources;
        resources.of.into_iter().next().expect("a resource")
    };
    let text = "[jobs.resources.payments]\nconcurrency = 5\nrate = \"100/s burst 10\"\ntypes = [\"Charge\", \"Refund\"]\nqueues = [\"exports\"]\n";
    let (name, limits) = rules(text);
    assert_eq!((name.as_str(), limits.concurrency), ("payments", Some(5)));
    assert_eq!(limits.rate.map(|rate| rate.to_string()).as_deref(), Some("100/s burst 10"));
    assert_eq!(limits.types.iter().collect::<Vec<_>>(), ["Charge", "Refund"]);
    assert_eq!(limits.queues.iter().map(|it| it.as_str()).collect::<Vec<_>>(), ["exports"]);
    insta::assert_snapshot!(errors("[jobs.resources.a]\ntypes = []\n[jobs.resources.b]\nconcurrency = 0\ntype = [\"A\"]\nqueues = [\"a b\"]\n[jobs.resources.c]\nrate = \"5/s\"\n"), @r#"
    weir.toml:1:17: jobs.resources.a: write concurrency or rate: a resource without a limit has no effect
    weir.toml:2:9: jobs.resources.a.types: the list is empty
    weir.toml:4:15: jobs.resources.b.concurrency: must be from 1 to 4294967295
    weir.toml:5:1: jobs.resources.b.type is not a setting; did you mean "types"?
    weir.toml:6:10: jobs.resources.b.queues: queue name has a character outside [a-zA-Z0-9._-]
    weir.toml:7:17: jobs.resources.c: write types or queues: they say which jobs use the resource
    "#);
    let many = |resources: usize, members: &str| -> String {
        let one = |number| format!("[jobs.resources.r{number}]\nconcurrency = 1\n{members}");
        (0..resources).map(one).collect()
    };
    insta::assert_snapshot!(errors(&many(9, "types = [\"A\"]\n")), @"weir.toml:1:2: jobs.resources: jobs of type A use 9 resources (r0, r1, r2, r3, r4, r5, r6, r7, r8), and a job may use 8 (jobs.limits.advanced.resources_per_job_max)");
    let of_type = many(4, "types = [\"A\"]\n");
    let of_queue = many(5, "queues = [\"q\"]\n").replace("resources.r", "resources.q");
    insta::assert_snapshot!(errors(&format!("{of_type}{of_queue}")), @"weir.toml:1:2: jobs.resources: jobs of type A in queue q use 9 resources (q0, q1, q2, q3, q4, r0, r1, r2, r3), and a job may use 8 (jobs.limits.advanced.resources_per_job_max)");
    let raised = "jobs.limits.advanced.resources_per_job_max = 9\n";
    let of_all =
        Allocation::of_settings(&settings(&format!("{raised}{of_type}{of_queue}")).jobs.settings);
    assert_eq!(of_all.resources.of.len(), 9);
    insta::assert_snapshot!(errors(&many(65, "types = [\"A\"]\n")).lines().next().unwrap_or_default(), @"weir.toml:1:2: jobs.resources: 65 resources, and at most 64 may be defined");
    let in_redis = |servers: &str| {
        format!(
            "jobs.store = {{ redis = [{servers}] }}\n[jobs.resources.a]\nconcurrency = 1\ntypes = [\"A\"]\n"
        )
    };
    let server = "{ url = \"redis://127.0.0.1\" }";
    assert_eq!(rules(&in_redis(server)).1.types.len(), 1, "one server");
    let two = in_redis(&format!("{server}, {}", server.replace("0.1", "0.2")));
    let rejected = "jobs.resources.a: needs a single server in jobs.store";
    assert!(errors(&two).contains(rejected), "{}", errors(&two));
}

#[test]
fn dispatch_by_targets_is_a_setting_of_the_embedded_store() {
    use weir_jobs::allocation::DispatchPolicy;
    let policy = |text: &str| DispatchPolicy::of_settings(&settings(text).jobs.settings);
    let target = "[jobs.queues.mail]\ntarget_latency = \"5s\"\n";
    let redis = "[jobs]\nstore = { redis = [{ url = \"redis://127.0.0.1\" }] }\n";
    assert_eq!(policy(""), DispatchPolicy::Strict);
    assert_eq!(policy(target), DispatchPolicy::Targets);
    assert_eq!(policy(&format!("{redis}{target}")), DispatchPolicy::Strict);
    assert_eq!(
        policy(&format!("jobs.dispatch = \"weighted\"\n{target}")),
        DispatchPolicy::Weighted
    );
    let text =
        "[jobs]\nstore = { redis = [{ url = \"redis://127.0.0.1\" }] }\ndispatch = \"targets\"\n";
    let error = "jobs.dispatch: \"targets\" needs the embedded store; jobs.store is a Redis";
    assert!(errors(text).contains(error), "{}", errors(text));
    assert!(errors("[jobs.queues.mail]\nweight = 0\n").contains("weight: must be from 1 to 1000"));
}

#[test]
fn hostile_files_are_rejected() {
    let deep = format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested: String = (0..10_000).map(|level| format!("a{level}.")).collect();
    for text in [
        deep.as_str(),
        &format!("{nested}x = 1"),
        "jobs = 3",
        "jobs.limits = []",
        "[jobs.queues]\nx = 1",
        "[jobs]\nlisten = 99999999999999999999999999999999",
        "[jobs.limits]\nadvanced.returns_max = -1\nline_bytes_max = 1e400",
        "\u{0}",
        "\"\" = 1",
        "[jobs.limits]\nadvanced.fetch_wait = 0x10",
    ] {
        let refused = load(text).expect_err("refused").errors;
        assert!(!refused.is_empty());
    }
}

/// An app whose workers share sockets.
const SHARED: &str = "[[front.apps]]\nname = \"shop\"\ncommand = [\"app\", \"{fd}\"]\n\
                      mode = \"sockets\"\nlisten = \"127.0.0.1:8081\"\n";

/// An app with what every app must have.
const APP: &str =
    "[[realtime.apps]]\nid = \"1\"\nkey = \"demo-key\"\nsecret = { env = \"PASSWORD\" }\n";
