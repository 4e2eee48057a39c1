//! The same broken Sidekiq as versions 6.4, 7 and 8 have it in Redis: each rule that reads Redis finds the same.
//!
//! They differ in times (float seconds, from 8 on whole milliseconds), in the hash of jobs in hand (`:workers`,
//! from 7 on `:work`), and in what a heartbeat tells of queues: their order only, from 7 on weights of each
//! capsule, from 8.0.8 on capsules by name.

use weir_advisor::{Advice, Fact, Finding, Observation, Severity, advise};
use weir_observe::{Sources, observe};

use crate::findings::{now, sources};
use crate::redis_server::RedisServer;

/// As one version has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Six,
    Seven,
    /// The same, with two capsules.
    SevenInCapsules,
    /// Before 8.0.8.
    Eight,
    EightInCapsules,
}

const ALL: [Layout; 5] =
    [Layout::Six, Layout::Seven, Layout::SevenInCapsules, Layout::Eight, Layout::EightInCapsules];

const THREADS: usize = 4;

impl Layout {
    const fn has_capsules(self) -> bool {
        matches!(self, Self::SevenInCapsules | Self::EightInCapsules)
    }

    const fn is_eight(self) -> bool {
        matches!(self, Self::Eight | Self::EightInCapsules)
    }

    /// Of jobs and heartbeats; scores of sets are seconds in all of them.
    fn time(self, seconds: f64) -> String {
        if self.is_eight() { format!("{:.0}", seconds * 1_000.0) } else { format!("{seconds:.6}") }
    }

    /// Since when a job is in hand: whole.
    fn run_at(self, seconds: f64) -> String {
        if self.is_eight() { self.time(seconds) } else { format!("{seconds:.0}") }
    }

    const fn work(self) -> &'static str {
        match self {
            Self::Six => "workers",
            _ => "work",
        }
    }

    /// What a heartbeat says of its queues, in strict order.
    fn queues(self, queues: &[&str]) -> String {
        let names: Vec<_> = queues.iter().map(|queue| format!("{queue:?}")).collect();
        let names = format!(r#""queues":[{}]"#, names.join(","));
        let weights = |queues: &[&str]| {
            let weights: Vec<_> = queues.iter().map(|queue| format!("{queue:?}:0")).collect();
            format!("{{{}}}", weights.join(","))
        };
        // All that stands behind another one stays behind it.
        let (first, second) = queues.split_at(queues.len().min(2));
        let both = if second.is_empty() {
            weights(first)
        } else {
            format!("{},{}", weights(first), weights(second))
        };
        let capsule = |name: &str, threads: usize, queues: &[&str]| {
            let weights = weights(queues);
            format!(r#""{name}":{{"concurrency":{threads},"mode":"strict","weights":{weights}}}"#)
        };
        match self {
            Self::Six => names,
            Self::Seven => format!(r#"{names},"weights":[{}],"version":"7.3.9""#, weights(queues)),
            Self::SevenInCapsules => format!(r#"{names},"weights":[{both}],"version":"7.3.9""#),
            Self::Eight => format!(r#"{names},"weights":[{}],"version":"8.0.2""#, weights(queues)),
            Self::EightInCapsules => {
                let capsules = if second.is_empty() {
                    capsule("default", THREADS, first)
                } else {
                    let (one, other) = (THREADS / 2, THREADS - THREADS / 2);
                    format!("{},{}", capsule("default", one, first), capsule("rest", other, second))
                };
                format!(r#"{names},"weights":[{both}],"version":"8.1.7","capsules":{{{capsules}}}"#)
            }
        }
    }
}

/// A Redis that one version fills.
struct Filled {
    redis: RedisServer,
    layout: Layout,
    now: f64,
}

impl Filled {
    async fn start(layout: Layout) -> Option<Self> {
        let redis = RedisServer::start()?;
        let slow_log = ["CONFIG", "SET", "slowlog-log-slower-than", "-1"];
        redis.run(&[&["CONFIG", "SET", "appendonly", "yes"], &slow_log]);
        let now = now(&redis).await;
        Some(Self { redis, layout, now })
    }

    fn process(&self, identity: &str, queues: &[&str], is_quiet: bool) {
        let Self { redis, layout, now } = self;
        let started = layout.time(now - 7_200.0);
        let pid = identity.split(':').nth(1).unwrap();
        let queues = layout.queues(queues);
        let info = format!(
            r#"{{"hostname":"web","started_at":{started},"pid":{pid},"tag":"shop","concurrency":{THREADS},{queues},"labels":[],"identity":"{identity}"}}"#
        );
        let (beat, quiet) = (layout.time(*now), is_quiet.to_string());
        let threads = THREADS.to_string();
        redis.run(&[
            &["SADD", "processes", identity],
            &["HSET", identity, "info", &info, "busy", "1", "beat", &beat, "quiet", &quiet],
        ]);
        if layout.is_eight() {
            redis.run(&[&["HSET", identity, "concurrency", &threads]]);
        }
    }

    fn in_hand(&self, identity: &str, age_seconds: f64) {
        let run_at = self.layout.run_at(self.now - age_seconds);
        let payload = r#"{\"class\":\"Hang\",\"args\":[\"private\"]}"#;
        let work = format!(r#"{{"queue":"default","payload":"{payload}","run_at":{run_at}}}"#);
        let key = format!("{identity}:{}", self.layout.work());
        self.redis.run(&[&["HSET", &key, "t1", &work]]);
    }

    fn jobs(&self, queue: &str, count: usize, age_seconds: f64) {
        let at = self.layout.time(self.now - age_seconds);
        let job = format!(
            r#"{{"class":"Deliver","jid":"JID","args":["https://far.example/inbox"],"queue":"{queue}","created_at":{at},"enqueued_at":{at}}}"#
        );
        let push = "redis.call('SADD', 'queues', ARGV[2]) for i = 1, ARGV[1] do \
                    redis.call('LPUSH', 'queue:' .. ARGV[2], (string.gsub(ARGV[3], 'JID', i))) end";
        self.redis.run(&[&["EVAL", push, "0", &count.to_string(), queue, &job]]);
    }

    /// Failed ones, each with a score a second behind the last.
    fn failed(&self, set: &str, count: usize, from_seconds: f64) {
        let failed_at = self.layout.time(self.now - 9_000.0);
        let job = format!(
            r#"{{"class":"Deliver","jid":"JID","args":[],"error_class":"Net::ReadTimeout","retry_count":3,"failed_at":{failed_at},"retried_at":{failed_at}}}"#
        );
        let add = "for i = 1, ARGV[2] do redis.call('ZADD', ARGV[1], ARGV[3] + i, \
                   (string.gsub(ARGV[4], 'JID', i))) end";
        let from = format!("{:.3}", self.now + from_seconds);
        self.redis.run(&[&["EVAL", add, "0", set, &count.to_string(), &from, &job]]);
    }

    async fn sample(&self) -> (Observation, Advice) {
        let pushed_queues = ["default", "fasp"].map(str::to_owned).into();
        let sources = Sources { pushed_queues, ..sources(vec![self.redis.endpoint()]) };
        let mut observation = observe(&sources).await;
        // Whether a core is idle is another matter.
        observation.machine = Fact::NotAsked;
        assert!(!format!("{observation:?}").contains("private"), "arguments stay where they are");
        let advice = advise(&observation);
        (observation, advice)
    }
}

const BUSY: &str = "web:7:0123456789ac";
const CLOCK: &str = "web:8:0123456789ad";
const QUIET: &str = "web:9:0123456789ae";

/// All that can be wrong with a Sidekiq that runs.
async fn broken(layout: Layout) -> Option<Advice> {
    let filled = Filled::start(layout).await?;
    filled.process(BUSY, &["default", "pull", "mailer", "scheduler"], false);
    filled.in_hand(BUSY, 5_430.0);
    filled.process(CLOCK, &["scheduler"], false);
    filled.process(QUIET, &["scheduler"], true);
    filled.redis.run(&[&["SADD", "processes", "web:10:0123456789af"]]);
    // Ages in the middle of a minute: figures differ from look to look, words do not.
    filled.jobs("default", 1_500, 930.0);
    filled.jobs("pull", 20, 930.0);
    filled.jobs("mailers", 40, 3_730.0);
    filled.failed("schedule", 1, -330.0);
    filled.failed("retry", 10_500, 3_600.0);
    filled.failed("dead", 9_500, -9_600.0);
    Some(filled.sample().await.1)
}

/// Figures aside, and what depends on whether the order is known; a line is that of a capsule.
fn essence(layout: Layout, advice: &Advice) -> Vec<(String, String, Severity, String)> {
    // How busy Redis is differs from run to run.
    let is_compared = |it: &&Finding| !["starving-queue", "redis-cpu"].contains(&&*it.rule);
    let findings = advice.findings.iter().filter(is_compared);
    let plain = |text: &str| text.chars().filter(|it| !it.is_ascii_digit()).collect::<String>();
    let mut all: Vec<_> = findings
        .map(|it| {
            let change = it.line_change().filter(|_| !layout.has_capsules());
            let change = change.map(|change| change.line.clone());
            let words = [Some(it.evidence.clone()), change, it.next_step().map(str::to_owned)];
            let words: Vec<_> = words.into_iter().flatten().map(|text| plain(&text)).collect();
            (it.rule.to_string(), it.subject.clone(), it.severity, words.join("; "))
        })
        .collect();
    all.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    all
}

#[tokio::test]
async fn the_same_is_found_in_the_layouts_of_sidekiq_six_seven_and_eight() {
    let mut all = Vec::new();
    for layout in ALL {
        let Some(advice) = broken(layout).await else { return };
        all.push((layout, advice));
    }
    let rules = all[0].1.findings.iter().map(|finding| &*finding.rule);
    let mut rules: Vec<_> = rules.filter(|rule| *rule != "redis-cpu").collect();
    rules.sort_unstable();
    let expected = [
        "backlog",
        "backlog-made-of",
        "dead-flood",
        "ghost-process",
        "overdue-jobs",
        "quiet-process",
        "retry-flood",
        "scheduler",
        "starving-queue",
        "stuck-threads",
        "unserved-queue",
        "upgrade-guard",
    ];
    assert_eq!(rules, expected, "{:?}", all[0].1.findings);
    let of_six = [Layout::Six, Layout::SevenInCapsules].map(|it| essence(it, &all[0].1));
    for (layout, advice) in &all {
        // Lines have the order as it is known: only the words before them are the same in capsules.
        let starving = advice.findings.iter().find(|it| it.rule == "starving-queue");
        let starving = starving.unwrap_or_else(|| panic!("{layout:?}: {:?}", advice.findings));
        let severity = if *layout == Layout::Six { Severity::Notice } else { Severity::Critical };
        assert_eq!((starving.subject.as_str(), starving.severity), ("queue pull", severity));
        assert_eq!(starving.evidence.contains("if its order is strict"), *layout == Layout::Six);
        let expected = &of_six[usize::from(layout.has_capsules())];
        assert_eq!(essence(*layout, advice), *expected, "{layout:?}");
        // The capsule that has the misspelt name gets the right one as well, and nothing of the other. Neither of the
        // two that serve the scheduler was seen to run: nobody leaves it.
        let unserved = advice.findings.iter().find(|it| it.rule == "unserved-queue").unwrap();
        let change = unserved.line_change().unwrap();
        eprintln!("{layout:?} {change:?}");
        let expected = if layout.has_capsules() {
            "cap.queues = ['mailers', 'mailer', 'scheduler']"
        } else {
            "-q default -q pull -q mailers -q mailer -q scheduler -q fasp"
        };
        assert_eq!(change.line, expected, "{layout:?}: {change:?}");
    }
}

#[tokio::test]
async fn jobs_without_a_process_are_as_old_in_each_layout() {
    for layout in ALL {
        let Some(filled) = Filled::start(layout).await else { return };
        filled.jobs("default", 40, 3_900.0);
        let (observation, advice) = filled.sample().await;
        let finding = advice.findings.iter().find(|it| it.rule == "no-process").unwrap();
        let expected = "40 jobs wait and no Sidekiq process has a heartbeat";
        assert!(finding.evidence.starts_with(expected), "{layout:?}: {finding:?}");
        let waited = observation.jobs.known().unwrap().queue("default").unwrap().latency;
        assert_eq!(waited.as_secs() / 600, 6, "{layout:?}: an hour and some minutes, {waited:?}");
    }
}
