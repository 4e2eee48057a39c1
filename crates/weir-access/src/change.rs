//! A request that changes something, as the table of rules sees it.

use axum::body::{Body, HttpBody};
use axum::extract::Request;

use crate::request_body::RequestBody;
use crate::role::Role;
use crate::rules::{self, Rule};

/// Bodies up to this size are read before the request is passed on. Larger ones (imports) are not read, and count as
/// what needs the higher role.
pub const INSPECTED_BYTES_MAX: u64 = 1 << 20;

/// Characters of a target in the audit log.
const TARGET_CHARACTERS_MAX: usize = 300;

const VERB_CHARACTERS_MAX: usize = 32;

/// A change that someone requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Such as `queue pause`.
    pub action: String,
    /// Such as `name=default`.
    pub target: String,
    /// The role that it needs.
    pub role: Role,
    /// Whether it is in the audit log.
    pub is_recorded: bool,
}

/// Why a request cannot be passed on: its body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body of the request ended early")]
pub struct BodyError;

/// Reads what a request to change something says, and returns the request as it was.
///
/// # Errors
/// The body ended early.
pub async fn read(request: Request) -> Result<(Request, Change), BodyError> {
    let path = request.uri().path().to_owned();
    let Some(rule) = rules::find(&path) else {
        return Ok((request, Change::unknown(&path)));
    };
    let has_fields = rule.verb.is_some() || !rule.target.is_empty() || rule.empties.is_some();
    let is_small =
        request.body().size_hint().upper().is_some_and(|bytes| bytes <= INSPECTED_BYTES_MAX);
    if !has_fields || !is_small {
        let change = Change::new(rule, &path, &RequestBody::Unknown);
        return Ok((request, change));
    }
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.map_err(|_| BodyError)?;
    let fields =
        if rule.is_of_api() { RequestBody::json(&bytes) } else { RequestBody::form(&bytes) };
    let change = Change::new(rule, &path, &fields);
    Ok((Request::from_parts(parts, Body::from(bytes)), change))
}

/// Returns the role that a console's form with these fields needs.
#[must_use]
pub fn role_of_form(path: &str, fields: &[(&str, &str)]) -> Role {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let body = RequestBody::Form(fields.collect());
    rules::find(path).map_or(Role::Admin, |rule| Change::new(rule, path, &body).role)
}

impl Change {
    fn new(rule: &Rule, path: &str, body: &RequestBody) -> Self {
        let verb = rule.verb.and_then(|field| body.value(field)).filter(|verb| is_word(verb));
        let action = match verb {
            Some(verb) => format!("{} {verb}", rule.action),
            None => rule.action.to_owned(),
        };
        let value = |field: &'static str| match field {
            "{id}" => path_segment(rule, path, field),
            field => body.text(field),
        };
        let name = |field: &'static str| {
            field.rsplit('/').next().unwrap_or(field).trim_matches(['{', '}'])
        };
        let fields = rule.target.iter().filter_map(|field| Some((name(field), value(field)?)));
        let target: Vec<String> = fields.map(|(name, value)| format!("{name}={value}")).collect();
        let empties = rule.empties.is_some_and(|empties| match body {
            RequestBody::Unknown => true,
            body => empties(body),
        });
        Self {
            action,
            target: shortened(&target.join(" ")),
            role: if empties { Role::Admin } else { rule.role },
            is_recorded: rule.is_recorded,
        }
    }

    /// The begin of a session: it changes nothing else, and is recorded.
    #[must_use]
    pub fn login() -> Self {
        let (action, target) = ("log in".to_owned(), String::new());
        Self { action, target, role: Role::Viewer, is_recorded: true }
    }

    /// A change that no rule is about.
    fn unknown(path: &str) -> Self {
        Self {
            action: "unknown".to_owned(),
            target: shortened(path),
            role: Role::Admin,
            is_recorded: true,
        }
    }
}

fn is_word(verb: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b' ' | b':' | b'.');
    verb.len() <= VERB_CHARACTERS_MAX && verb.bytes().all(is_plain)
}

fn path_segment(rule: &Rule, path: &str, name: &str) -> Option<String> {
    let mut segments = rule.path.split('/').zip(path.split('/'));
    segments.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

/// Limits the length, and replaces control characters, which could forge lines of a terminal.
fn shortened(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(TARGET_CHARACTERS_MAX)
        .map(|it| if it.is_control() { char::REPLACEMENT_CHARACTER } else { it })
        .collect();
    if text.chars().nth(TARGET_CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(path: &str, body: &str) -> Request {
        Request::post(path).body(Body::from(body.to_owned())).unwrap()
    }

    async fn change(path: &str, body: &str) -> (String, String, Role) {
        let (request, change) = read(request(path, body)).await.unwrap();
        let passed = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
        assert_eq!(passed, body.as_bytes(), "the handler gets the body");
        (change.action, change.target, change.role)
    }

    fn row(action: &str, target: &str, role: Role) -> (String, String, Role) {
        (action.to_owned(), target.to_owned(), role)
    }

    #[tokio::test]
    async fn forms_and_json_say_what_is_done_to_what() {
        let form = change("/queues/act", "csrf=secret&name=a&action=pause").await;
        assert_eq!(form, row("queue pause", "name=a", Role::Operator));
        let body = r#"{"queues":{"named":["a","b"]},"action":"pause"}"#;
        let json = change("/v1/jobs/queues/act", body).await;
        assert_eq!(json, row("queue pause", "queues=a, b", Role::Operator));
        let json = change("/v1/jobs/queues/act", r#"{"queues":"all","action":"clear"}"#).await;
        assert_eq!(json, row("queue clear", "queues=all", Role::Admin));
        let task = change("/v1/jobs/tasks/7/stop", "{}").await;
        assert_eq!(task, row("task stop", "id=7", Role::Operator));
        let set = r#"{"do":"set","app":"web","change":{"processes":3,"reason":"late"}}"#;
        let set = change("/v1/workers", set).await;
        assert_eq!(set, row("app set", "app=web processes=3 reason=late", Role::Operator));
        assert_eq!(change("/v1/restart", "").await, row("restart", "", Role::Admin));
        assert_eq!(change("/new", "x=y").await, row("unknown", "/new", Role::Admin));
    }

    #[tokio::test]
    async fn contents_and_secrets_are_not_recorded() {
        let publish = r#"{"app":"1","channel":"c","event":"e","data":"hidden"}"#;
        let (_, target, _) = change("/v1/realtime/publish", publish).await;
        assert_eq!(target, "app=1 channel=c event=e");
        let (_, target, _) = change("/queues/act", "csrf=hidden&name=a&action=pause").await;
        assert_eq!(target, "name=a");
        let (_, target, _) = change("/v1/jobs/push", r#"{"jid":"1","args":["hidden"]}"#).await;
        assert_eq!(target, "");
    }

    #[tokio::test]
    async fn hostile_fields_are_cut_and_cannot_forge_a_line() {
        let long = "x".repeat(100_000);
        let (action, target, _) =
            change("/queues/act", &format!("name={long}&action=a%0Ab%1B[31m")).await;
        assert_eq!((action.as_str(), target.chars().count()), ("queue", 301));
        let (_, target, _) = change("/queues/act", "name=a%0Aforged&action=pause").await;
        assert_eq!(target, "name=a\u{fffd}forged");
    }

    #[tokio::test]
    async fn a_body_that_is_not_read_needs_the_higher_role() {
        let large = "x".repeat(usize::try_from(INSPECTED_BYTES_MAX).unwrap() + 1);
        let (_, target, role) = change("/jobs/act", &large).await;
        assert_eq!((target.as_str(), role), ("", Role::Admin));
        let (action, _, role) = change("/v1/jobs/import", &large).await;
        assert_eq!((action.as_str(), role), ("jobs import", Role::Operator));
    }

    proptest! {
        #[test]
        fn any_body_is_read(body in prop::collection::vec(any::<u8>(), 0..200), index in 0..100_usize) {
            let rule = &rules::RULES[index % rules::RULES.len()];
            for body in [RequestBody::form(&body), RequestBody::json(&body)] {
                let change = Change::new(rule, rule.path, &body);
                prop_assert!(change.role >= rule.role);
                prop_assert!(!change.target.contains(char::is_control));
            }
        }
    }
}
