//! Every request that changes something: the role that it needs, and what the audit log records of it.
//!
//! Reading needs no entry: it needs the role viewer, except for [`ADMIN_PAGES`]. A change without an entry needs the role
//! admin, and a test of the whole product fails because of it.

use crate::request_body::RequestBody;
use crate::role::Role;

/// A change, by its path. All changes are POST requests.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// `/v1/..`: of the admin API, whose bodies are JSON; others: of the console, whose bodies are forms. `{id}` stands
    /// for one segment.
    pub path: &'static str,
    pub role: Role,
    /// What is done, or to what it is done: `restart`, `queue`.
    pub action: &'static str,
    /// The field that says what is done to it: `pause`.
    pub verb: Option<&'static str>,
    /// Fields that name the target; `a/b` is a member of a member. None of them has contents of jobs or events, or a
    /// secret: what is named here is recorded.
    pub target: &'static [&'static str],
    /// Returns whether the request deletes all jobs of a queue or set, which needs the role admin.
    pub empties: Option<fn(&RequestBody) -> bool>,
    /// Whether it is in the audit log.
    pub is_recorded: bool,
}

/// Pages and requests that only an admin reads.
pub const ADMIN_PAGES: [&str; 3] = ["/audit", "/users", "/v1/audit"];

/// The table.
pub const RULES: &[Rule] = &[
    // Pages of the console.
    operator("/queues/act", "queue").verb("action").target(&["name"]).empties(form_clears_queue),
    operator("/jobs/act", "jobs")
        .verb("action")
        .target(&["place", "search", "jobtype", "key"])
        .empties(form_discards_all),
    operator("/tasks/act", "task").verb("action").target(&["id"]),
    operator("/cron/act", "cron").verb("action").target(&["name"]),
    operator("/workers/act", "job worker").verb("signal").target(&["wid", "all"]),
    operator("/front/act", "app").verb("do").target(&["app", "worker", "processes"]),
    operator("/autopilot/act", "autopilot")
        .verb("action")
        .target(&["mode", "class", "jobs", "minutes"]),
    operator("/switches/act", "switch").verb("action").target(&["pattern", "for"]),
    operator("/channel/publish", "channel publish").target(&["app", "name", "event"]),
    operator("/gems/look", "gems mirror sync"),
    operator("/damage/acknowledge", "damage acknowledge"),
    operator("/demo/flood", "demo flood"),
    admin("/users/act", "session").verb("action").target(&["user"]),
    viewer("/theme"),
    viewer("/logout"),
    // The admin API: jobs.
    operator("/v1/jobs/queues/act", "queue")
        .verb("action")
        .target(&["queues"])
        .empties(json_clears_queues),
    operator("/v1/jobs/act", "jobs")
        .verb("action")
        .target(&["place", "which"])
        .empties(json_discards_all),
    operator("/v1/jobs/act/step", "jobs")
        .verb("action")
        .target(&["place", "search", "jobtype"])
        .empties(json_discards_all),
    operator("/v1/jobs/tasks", "jobs")
        .verb("action")
        .target(&["place", "search", "jobtype", "by"])
        .empties(json_discards_all),
    operator("/v1/jobs/tasks/{id}/stop", "task stop").target(&["{id}"]),
    operator("/v1/jobs/tasks/{id}/resume", "task resume").target(&["{id}"]),
    operator("/v1/jobs/cancel", "jobs cancel").target(&["jids", "jobtype"]),
    operator("/v1/jobs/cron/act", "cron").verb("action").target(&["name"]),
    operator("/v1/jobs/workers/signal", "job worker").verb("signal").target(&["wid"]),
    operator("/v1/jobs/push", "jobs push"),
    operator("/v1/jobs/import", "jobs import"),
    operator("/v1/jobs/damage/acknowledge", "damage acknowledge"),
    admin("/v1/jobs/backup-point", "backup jobs"),
    // Realtime.
    operator("/v1/realtime/publish", "channel publish").target(&["app", "channel", "event"]),
    operator("/v1/realtime/disconnect", "realtime disconnect").target(&[
        "app",
        "user",
        "socket_id",
    ]),
    admin("/v1/realtime/backup", "backup realtime"),
    // Gems.
    operator("/v1/gems/yank", "gem yank").target(&["name", "number", "platform"]),
    operator("/v1/gems/rebaseline", "gems rebaseline"),
    operator("/v1/gems/mirror/sync", "gems mirror sync").target(&["everything"]),
    admin("/v1/gems/mirror/accept", "gem accept").target(&["name", "number", "platform"]),
    admin("/v1/gems/keys", "gems key create").target(&["name", "scopes", "gems"]),
    admin("/v1/gems/keys/revoke", "gems key revoke").target(&["id"]),
    // Several parts.
    operator("/v1/switches", "switch").verb("position").target(&["of", "pattern", "for_seconds"]),
    operator("/v1/workers", "app").verb("do").target(&[
        "app",
        "worker",
        "processes",
        "signal",
        "is_on",
        "change/processes",
        "change/threads",
        "change/queues",
        "change/for_seconds",
        "change/by",
        "change/reason",
        "change/dry_run",
        "by",
    ]),
    operator("/v1/autopilot/mode", "autopilot mode").target(&["mode", "by"]),
    operator("/v1/autopilot/override", "autopilot override").target(&[
        "class",
        "jobs",
        "for_seconds",
        "by",
    ]),
    admin("/v1/restart", "restart"),
    admin("/v1/upgrade", "upgrade"),
];

const fn rule(path: &'static str, role: Role, action: &'static str) -> Rule {
    Rule { path, role, action, verb: None, target: &[], empties: None, is_recorded: true }
}

/// What every visitor may do, and what is not worth an entry.
const fn viewer(path: &'static str) -> Rule {
    Rule { is_recorded: false, ..rule(path, Role::Viewer, "") }
}

const fn operator(path: &'static str, action: &'static str) -> Rule {
    rule(path, Role::Operator, action)
}

const fn admin(path: &'static str, action: &'static str) -> Rule {
    rule(path, Role::Admin, action)
}

impl Rule {
    const fn verb(self, field: &'static str) -> Self {
        Self { verb: Some(field), ..self }
    }

    const fn target(self, fields: &'static [&'static str]) -> Self {
        Self { target: fields, ..self }
    }

    const fn empties(self, empties: fn(&RequestBody) -> bool) -> Self {
        Self { empties: Some(empties), ..self }
    }

    /// Returns whether the rule is about this path.
    #[must_use]
    pub fn is_about(&self, path: &str) -> bool {
        let mut segments = path.split('/');
        let is_same = self
            .path
            .split('/')
            .all(|known| segments.next().is_some_and(|it| known.starts_with('{') || known == it));
        is_same && segments.next().is_none()
    }

    /// Returns whether the path of an API request: its body is JSON.
    #[must_use]
    pub fn is_of_api(&self) -> bool {
        self.path.starts_with("/v1/")
    }
}

/// Returns the rule for a change at this path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.is_about(path))
}

/// Returns the role that reading this path needs.
#[must_use]
pub fn role_to_read(path: &str) -> Role {
    if ADMIN_PAGES.contains(&path) { Role::Admin } else { Role::Viewer }
}

/// Returns the role that a change at this path needs. What deletes all jobs of a queue or set needs the role admin.
#[must_use]
pub fn role_to_change(path: &str) -> Role {
    find(path).map_or(Role::Admin, |rule| rule.role)
}

fn form_clears_queue(body: &RequestBody) -> bool {
    body.value("action").as_deref() == Some("clear")
}

fn form_discards_all(body: &RequestBody) -> bool {
    let is_absent = |field| body.value(field).is_none();
    body.value("action").as_deref() == Some("discard")
        && body.value("scope").as_deref() == Some("all")
        && is_absent("search")
        && is_absent("jobtype")
}

fn json_clears_queues(body: &RequestBody) -> bool {
    matches!(body.value("action").as_deref(), Some("clear" | "remove"))
}

/// `which` is of `act`; the conditions of the others are members of the body itself.
fn json_discards_all(body: &RequestBody) -> bool {
    let is_absent = |field| body.value(field).is_none();
    let conditions =
        ["search", "jobtype", "which/matching/search", "which/matching/jobtype", "which/keys"];
    body.value("action").as_deref() == Some("discard") && conditions.into_iter().all(is_absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_one_rule() {
        for rule in RULES {
            let found = find(rule.path).expect("found");
            assert_eq!(found.path, rule.path);
            assert_eq!(RULES.iter().filter(|it| it.path == rule.path).count(), 1, "{}", rule.path);
        }
        assert_eq!(find("/v1/jobs/tasks/12/stop").map(|it| it.action), Some("task stop"));
        for other in ["/v1/jobs/tasks/12/stop/", "/v1/jobs/tasks/1/2/stop", "/queues", "", "/"] {
            assert!(find(other).is_none(), "{other}");
        }
    }

    #[test]
    fn an_unknown_change_needs_an_admin() {
        assert_eq!(role_to_change("/new/act"), Role::Admin);
        assert_eq!(role_to_change("/queues/act"), Role::Operator);
        assert_eq!(role_to_change("/theme"), Role::Viewer);
    }

    #[test]
    fn deleting_everything_is_told_from_deleting_something() {
        let form = |text: &str| form_discards_all(&RequestBody::form(text.as_bytes()));
        assert!(form("action=discard&scope=all&search=&place=dead"));
        assert!(!form("action=discard&scope=all&search=x"));
        assert!(!form("action=discard&key=1"));
        assert!(form("action=discard&scope=all&action=kill"), "the handler takes the first");
        assert!(!form("action=kill&scope=all"));
        let json = |text: &str| json_discards_all(&RequestBody::json(text.as_bytes()));
        assert!(json(r#"{"place":"dead","which":{"matching":{}},"action":"discard"}"#));
        assert!(json(r#"{"place":"dead","action":"discard","search":null}"#));
        assert!(!json(r#"{"place":"dead","which":{"keys":["1"]},"action":"discard"}"#));
        assert!(!json(r#"{"which":{"matching":{"jobtype":"A"}},"action":"discard"}"#));
        assert!(!json(r#"{"place":"dead","action":"requeue"}"#));
    }
}
