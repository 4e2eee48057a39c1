//! `[[front.apps.priorities]]` and `[[front.apps.shed]]`: which requests take precedence, and which are rejected.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderName;
use weir_front::{AppSettings, Matcher, PriorityRule, QueueSource, ShedSettings, WatchedQueue};

use weir_settings::{Choice, DAY, HOUR, SECOND, Section, TableReader, WAIT};

pub(super) fn read(table: &mut TableReader<'_>, app: &mut AppSettings) {
    table.each("priorities", |table| app.priorities.extend(priority(table)));
    table.each("shed", |table| app.shed.extend(shed(table)));
}

/// Which requests a rule is about.
#[derive(Debug, Section)]
#[section(restart)]
struct MatcherTable {
    /// The rule is about this path and all below it. None: all paths.
    path: Option<String>,
    /// The rule is about requests with this header field: "NAME" or "NAME: VALUE". None: with or
    /// without.
    header: Option<String>,
}

#[derive(Debug, Section)]
#[section(restart, path = "front.apps.priorities")]
struct PriorityTable {
    #[setting(flatten)]
    matcher: MatcherTable,
    /// Whether such requests wait before or behind all others. The first matching rule applies.
    #[setting(choice)]
    priority: Rank,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Choice)]
enum Rank {
    #[default]
    High,
    Low,
}

#[derive(Debug, Section)]
#[section(restart, path = "front.apps.shed")]
struct ShedTable {
    #[setting(flatten)]
    matcher: MatcherTable,
    /// Required. The queue of jobs that such requests feed: of Weir's job server, or of the Sidekiq
    /// whose Redis is in observe.redis.
    #[setting(required_text)]
    queue: String,
    /// Whose queue that is: "weir" (the job server's), "sidekiq" (the observed Sidekiq's), or "auto": the
    /// job server's if it has a queue of that name, otherwise Sidekiq's.
    #[setting(choice)]
    source: QueueSource,
    /// They are rejected while the queue's first job has waited for longer than this.
    #[setting(range = WAIT, default = Duration::from_secs(300))]
    over: Duration,
    /// Nothing is rejected while the latest figure of the queue is older than this, such as when Redis
    /// is unreachable.
    #[setting(range = SECOND..=HOUR, default = SECOND.saturating_mul(15))]
    stale_after: Duration,
    /// The status of the response.
    #[setting(range = 400..=599, default = 503)]
    status: u16,
    /// Time after which clients should retry (Retry-After).
    #[setting(range = SECOND..=DAY, default = Duration::from_secs(60))]
    retry_after: Duration,
}

fn priority(table: &mut TableReader<'_>) -> Option<PriorityRule> {
    let mut rule = PriorityTable::default();
    rule.read(table);
    let matcher = rule.matcher.parse(table)?;
    Some(PriorityRule { matcher, is_high: rule.priority == Rank::High })
}

fn shed(table: &mut TableReader<'_>) -> Option<ShedSettings> {
    let mut rule = ShedTable::default();
    rule.read(table);
    let ShedTable { matcher, queue, source, over, stale_after, status, retry_after } = rule;
    let (matcher, status) = (matcher.parse(table), StatusCode::from_u16(status).ok()?);
    Some(ShedSettings {
        matcher: matcher?,
        queue: WatchedQueue { source, name: queue },
        latency_max: over,
        stale_after,
        status,
        retry_after,
    })
}

impl MatcherTable {
    /// Parses the rule's matcher. None: an error was reported.
    fn parse(self, table: &mut TableReader<'_>) -> Option<Matcher> {
        let Self { path, header } = self;
        if path.is_none() && header.is_none() {
            table.error("a rule needs a path or a header".to_owned());
            return None;
        }
        if path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            table.error_at("path", "write a path like \"/inbox\"");
        }
        let path = path.map(|path| path.trim_end_matches('/').to_owned());
        let Some(text) = header else { return Some(Matcher { path, header: None }) };
        let header = parse_header(&text);
        if header.is_none() {
            table.error_at("header", "write \"NAME\" or \"NAME: VALUE\"");
        }
        Some(Matcher { path, header })
    }
}

fn parse_header(text: &str) -> Option<(HeaderName, Option<String>)> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name, Some(value.trim().to_owned())),
        None => (text, None),
    };
    Some((name.trim().parse().ok()?, value))
}
