//! `[[front.apps.priorities]]` and `[[front.apps.shed]]`: what goes first, and what is refused.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderName;
use weir_front::{AppSettings, Matcher, PriorityRule, ShedSettings};

use super::super::keys::{Key, Keys, WAIT};
use weir_settings::DAY;

pub(super) fn read(keys: &mut Keys<'_>, app: &mut AppSettings) {
    keys.each("priorities", |keys| app.priorities.extend(priority(keys)));
    keys.each("shed", |keys| app.shed.extend(shed(keys)));
}

fn priority(keys: &mut Keys<'_>) -> Option<PriorityRule> {
    let matcher = matcher(keys);
    let mut is_high = true;
    keys.choice_of(
        Key::fixed("priority", "Whether such requests wait before all others or behind them. The first rule that fits counts."),
        &[("high", true), ("low", false)],
        &mut is_high,
    );
    Some(PriorityRule { matcher: matcher?, is_high })
}

fn shed(keys: &mut Keys<'_>) -> Option<ShedSettings> {
    let matcher = matcher(keys);
    let mut queue = String::new();
    let mut over = Duration::from_secs(300);
    let mut status = 503_u16;
    let mut retry_after = Duration::from_secs(60);
    keys.required_text(
        Key::fixed(
            "queue",
            "Required. The queue of jobs (of this Weir) for whose sake such requests are refused.",
        ),
        &mut queue,
    );
    keys.duration(
        Key::fixed(
            "over",
            "They are refused while the queue's first job has waited for longer than this.",
        ),
        WAIT,
        &mut over,
    );
    keys.number(Key::fixed("status", "What they are answered with."), 400..=599, &mut status);
    keys.duration(
        Key::fixed("retry_after", "When clients are asked to come back."),
        Duration::from_secs(1)..=DAY,
        &mut retry_after,
    );
    let status = StatusCode::from_u16(status).ok()?;
    Some(ShedSettings { matcher: matcher?, queue, over, status, retry_after })
}

/// Which requests a rule is about. None: a mistake was reported.
fn matcher(keys: &mut Keys<'_>) -> Option<Matcher> {
    let (mut path, mut header) = (None, None);
    keys.optional_text(
        Key::fixed("path", "The rule is about this path and all below it. None: all paths."),
        &mut path,
    );
    keys.optional_text(
        Key::fixed("header", "The rule is about requests with this header field: \"NAME\" or \"NAME: VALUE\". None: with or without."),
        &mut header,
    );
    if path.is_none() && header.is_none() {
        keys.error("a rule needs a path or a header: which requests is it about?".to_owned());
        return None;
    }
    if path.as_ref().is_some_and(|path| !path.starts_with('/')) {
        keys.error_at("path", "write a path like \"/inbox\"");
    }
    let path = path.map(|path| path.trim_end_matches('/').to_owned());
    let Some(text) = header else { return Some(Matcher { path, header: None }) };
    let header = parse_header(&text);
    if header.is_none() {
        keys.error_at("header", "write \"NAME\" or \"NAME: VALUE\"");
    }
    Some(Matcher { path, header })
}

fn parse_header(text: &str) -> Option<(HeaderName, Option<String>)> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name, Some(value.trim().to_owned())),
        None => (text, None),
    };
    Some((name.trim().parse().ok()?, value))
}
