//! Users with roles, tokens with roles, and the audit log.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use weir_access::{ChangeOutcome, PasswordHash, Role, Via, rules};
use weir_base::secret::Secret;
use weir_console::settings::{ConsoleSettings, ConsoleToken, ConsoleUser};

use crate::site::{Browser, PASSWORD, Page, Site, TOKEN, job};

/// The passwords of the users; hashing takes a moment, so each is hashed once.
const USERS: [(&str, Role, &str); 3] = [
    ("ann", Role::Viewer, "the password of ann"),
    ("ben", Role::Operator, "the password of ben"),
    ("cat", Role::Admin, "the password of cat"),
];

static HASHES: LazyLock<Vec<PasswordHash>> =
    LazyLock::new(|| USERS.iter().map(|(.., password)| PasswordHash::of(password)).collect());

fn users() -> BTreeMap<String, ConsoleUser> {
    let users = USERS.iter().zip(&*HASHES);
    let user = |role, hash: &PasswordHash| ConsoleUser { password_hash: Some(hash.clone()), role };
    users.map(|((name, role, _), hash)| ((*name).to_owned(), user(*role, hash))).collect()
}

fn token_of(role: Role) -> String {
    format!("a-token-with-the-role-{role}")
}

/// A console with a user and a token for each role, and the shared password.
fn site() -> Site {
    Site::with(|settings| {
        settings.password = Some(Secret::new(PASSWORD));
        settings.token = Some(Secret::new(TOKEN));
        settings.users = users();
        let token = |role: Role| ConsoleToken { token: Secret::new(token_of(role)), role };
        settings.tokens = Role::ALL.map(|role| (format!("ci-{role}"), token(role))).into();
    })
}

/// A browser in which a user of this role is logged in.
async fn browser(site: &Site, role: Role) -> Browser {
    let mut browser = site.browser();
    let (name, _, password) = USERS.into_iter().find(|user| user.1 == role).expect("a user");
    let page = browser.log_in_as(name, password).await;
    assert_eq!(page.status, StatusCode::SEE_OTHER, "{name}");
    browser
}

/// Posts JSON with a token.
async fn post_as(site: &Site, token: &str, path: &str, json: &str) -> Page {
    let mut program = site.browser();
    let mut request = program.request(Method::POST, path);
    let headers = request.headers_mut().expect("headers");
    headers.insert("content-type", "application/json".parse().expect("a value"));
    headers.insert("authorization", format!("Bearer {token}").parse().expect("a value"));
    program.send(request, Body::from(json.to_owned())).await
}

#[tokio::test]
async fn users_log_in_with_their_own_password() {
    let site = site();
    site.browser().get("/login").await.assert_shows("name=\"user\"");
    for (name, role, password) in USERS {
        let page = browser(&site, role).await.get("/").await;
        page.assert_shows(&format!("{name} ({role})"));
        let mut stranger = site.browser();
        for (user, password) in
            [(name, PASSWORD), (name, "wrong"), ("eve", password), ("", password)]
        {
            let page = stranger.log_in_as(user, password).await;
            assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{user} {password}");
            page.assert_shows("Wrong user or password.");
            site.clock.advance(site.deps.settings.limits.login_interval);
        }
        assert!(!stranger.cookies.contains_key("weir_session"));
    }
    for admin in ["", "admin"] {
        let mut browser = site.browser();
        assert_eq!(browser.log_in_as(admin, PASSWORD).await.status, StatusCode::SEE_OTHER);
        browser.get("/").await.assert_shows("admin (admin)");
    }
}

#[tokio::test]
async fn guesses_of_hashed_passwords_are_limited_by_address() {
    let site = site();
    let mut guesser = site.browser();
    let (name, _, password) = USERS[0];
    for _ in 0..site.deps.settings.limits.login_burst {
        let page = guesser.log_in_as(name, "guess").await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED);
    }
    let page = guesser.log_in_as(name, password).await;
    assert_eq!(page.status, StatusCode::TOO_MANY_REQUESTS, "even with the right password");
    let mut other = site.browser();
    other.client = "192.0.2.7:1".parse().expect("an address");
    assert_eq!(other.log_in_as(name, password).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn each_role_may_send_the_forms_of_its_role() {
    let site = site();
    let forms = rules::RULES.iter().filter(|rule| !rule.is_of_api() && rule.path != "/logout");
    let forms: Vec<_> = forms.collect();
    assert!(forms.len() > 10);
    for role in Role::ALL {
        let mut browser = browser(&site, role).await;
        let csrf = browser.get("/").await.csrf();
        for rule in &forms {
            let page = browser.post(rule.path, &[("csrf", &csrf)]).await;
            let is_forbidden = page.status == StatusCode::FORBIDDEN;
            assert_eq!(is_forbidden, role < rule.role, "{role} {}: {}", rule.path, page.text);
            if is_forbidden {
                let needed = format!("has the role {role}, and this needs the role {}", rule.role);
                page.assert_shows(&needed);
            }
        }
        let unknown = browser.post("/unknown/act", &[("csrf", &csrf)]).await;
        let expected =
            if role == Role::Admin { StatusCode::NOT_FOUND } else { StatusCode::FORBIDDEN };
        assert_eq!(unknown.status, expected, "a change without a rule is not for everybody");
    }
}

#[tokio::test]
async fn a_token_may_do_what_its_role_allows() {
    let site = site();
    site.push([job("token-0001", "Work", "a")]).await;
    let pause = r#"{"queues":{"named":["a"]},"action":"pause"}"#;
    let clear = r#"{"queues":{"named":["a"]},"action":"clear"}"#;
    let discard = r#"{"place":"queue:a","which":{"matching":{}},"action":"discard"}"#;
    for (path, body, needed) in [
        ("/v1/jobs/queues/act", pause, Role::Operator),
        ("/v1/jobs/act", discard, Role::Admin),
        ("/v1/jobs/queues/act", clear, Role::Admin),
    ] {
        for role in Role::ALL {
            let page = post_as(&site, &token_of(role), path, body).await;
            let expected = if role < needed { StatusCode::FORBIDDEN } else { StatusCode::OK };
            assert_eq!(page.status, expected, "{role} {path} {body}: {}", page.text);
            if role < needed {
                let error: serde_json::Value = serde_json::from_str(&page.text).expect("JSON");
                let error = error["error"].as_str().expect("text");
                let expected = format!(
                    "token ci-{role} has the role {role}, and this needs the role {needed}"
                );
                assert_eq!(error, expected);
            }
        }
    }
    assert_eq!(post_as(&site, TOKEN, "/v1/jobs/queues/act", clear).await.status, StatusCode::OK);
    let wrong = post_as(&site, "a-token-that-nobody-has", "/v1/jobs/queues/act", pause).await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn only_admins_read_the_audit_log_and_the_users() {
    let site = site();
    for role in Role::ALL {
        let mut browser = browser(&site, role).await;
        let expected = if role == Role::Admin { StatusCode::OK } else { StatusCode::FORBIDDEN };
        for path in rules::ADMIN_PAGES {
            assert_eq!(browser.get(path).await.status, expected, "{role} {path}");
        }
        let page = browser.get("/").await;
        assert_eq!(page.text.contains("href=\"/audit\""), role == Role::Admin, "{role}");
        for path in ["/queues", "/retries", "/workers", "/v1/jobs/queues", "/metrics"] {
            assert_eq!(browser.get(path).await.status, StatusCode::OK, "{role} {path}");
        }
    }
}

#[tokio::test]
async fn a_page_has_no_buttons_that_its_visitor_may_not_use() {
    let site = site();
    site.push([job("buttons-0001", "Work", "a")]).await;
    let mut worker = site.faktory("w1");
    worker.ask("FETCH b");
    for role in Role::ALL {
        let mut browser = browser(&site, role).await;
        let is_operator = role >= Role::Operator;
        for (path, action) in [
            ("/queues", "/queues/act"),
            ("/queue?name=a", "/queues/act"),
            ("/workers", "/workers/act"),
            ("/job?jid=buttons-0001", "/jobs/act"),
        ] {
            let page = browser.get(path).await;
            let form = format!("action=\"{action}\"");
            assert_eq!(page.text.contains(&form), is_operator, "{role} {path}");
        }
        let jobs = browser.get("/queue?name=a").await;
        assert_eq!(jobs.text.contains("value=\"discard\""), is_operator, "{role}");
        let queues = browser.get("/queues").await;
        assert_eq!(queues.text.contains("/queues/confirm"), role == Role::Admin, "{role}");
        let confirm = browser.get("/queues/confirm?name=a").await;
        assert_eq!(confirm.text.contains("value=\"clear\""), role == Role::Admin, "{role}");
        let all = browser.get("/jobs/confirm?place=queue:a&action=discard").await;
        assert_eq!(all.text.contains("value=\"discard\""), role == Role::Admin, "{role}");
        let some = browser.get("/jobs/confirm?place=queue:a&action=discard&search=Work").await;
        assert_eq!(some.text.contains("value=\"discard\""), is_operator, "{role}");
        if role < Role::Admin {
            confirm.assert_shows(&format!("has the role {role}, and this needs the role admin."));
        }
    }
}

/// The settings of [`site`] with a change.
fn changed(site: &Site, change: impl FnOnce(&mut ConsoleSettings)) -> ConsoleSettings {
    let mut settings = site.deps.settings.clone();
    change(&mut settings);
    settings
}

#[tokio::test]
async fn a_session_ends_when_its_user_changes() {
    let site = site();
    let (mut ann, mut ben) =
        (browser(&site, Role::Viewer).await, browser(&site, Role::Operator).await);
    let mut shared = site.browser();
    shared.log_in_as("", PASSWORD).await;
    let reload = |settings: ConsoleSettings| assert_eq!(site.deps.accounts.reload(&settings), None);

    reload(changed(&site, |settings| drop(settings.users.remove("ann"))));
    assert_eq!(ann.get("/").await.status, StatusCode::SEE_OTHER, "removed");
    assert_eq!(ben.get("/").await.status, StatusCode::OK);
    let page = ann.log_in_as("ann", USERS[0].2).await;
    assert_eq!(page.status, StatusCode::UNAUTHORIZED);

    reload(changed(&site, |_| {}));
    assert_eq!(
        ann.get("/").await.status,
        StatusCode::SEE_OTHER,
        "a session that has ended stays so"
    );
    reload(changed(&site, |settings| {
        settings.users.get_mut("ben").expect("ben").role = Role::Viewer;
    }));
    assert_eq!(ben.get("/").await.status, StatusCode::SEE_OTHER, "another role");

    assert_eq!(shared.get("/").await.status, StatusCode::OK);
    reload(changed(&site, |settings| settings.password = Some(Secret::new("another password"))));
    assert_eq!(shared.get("/").await.status, StatusCode::SEE_OTHER, "another password");
    reload(changed(&site, |settings| settings.tokens.clear()));
    let page = post_as(&site, &token_of(Role::Admin), "/v1/jobs/queues/act", "{}").await;
    assert_eq!(page.status, StatusCode::UNAUTHORIZED, "a token that was removed");
}

#[tokio::test]
async fn an_admin_ends_the_sessions_of_a_user() {
    let site = site();
    let (mut ann, mut cat) =
        (browser(&site, Role::Viewer).await, browser(&site, Role::Admin).await);
    let page = cat.get("/users").await;
    for text in ["console.users.ann", "console.tokens.ci-viewer", "console.password"] {
        page.assert_shows(text);
    }
    assert!(!page.text.contains("argon2id"), "no hash is shown");
    let fields = [("user", "ann"), ("action", "end")];
    let done = cat.submit(&page, "/users/act", &fields).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER);
    let location = done.header("location").to_owned();
    cat.get(&location).await.assert_shows("1 session of ann ended.");
    assert_eq!(ann.get("/").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn changes_are_in_the_audit_log() {
    let site = site();
    site.push([job("audit-0001", "Work", "a")]).await;
    let mut ben = browser(&site, Role::Operator).await;
    let page = ben.get("/queues").await;
    ben.submit(&page, "/queues/act", &[("name", "a"), ("action", "pause")]).await;
    ben.submit(&page, "/queues/act", &[("name", "missing"), ("action", "explode")]).await;
    ben.submit(&page, "/queues/act", &[("name", "a"), ("action", "clear")]).await;
    let asked = [("place", "queue:a"), ("action", "discard"), ("key", "1|audit-0001")];
    assert_eq!(ben.submit(&page, "/jobs/act", &asked).await.status, StatusCode::OK, "a question");
    ben.submit(&page, "/theme", &[("theme", "dark")]).await;
    let push = r#"{"jid":"audit-0002","jobtype":"Secret","queue":"a","args":["hidden"]}"#;
    post_as(&site, &token_of(Role::Operator), "/v1/jobs/push", push).await;

    let entries = site.audit();
    let rows: Vec<_> = entries
        .iter()
        .map(|it| (it.user.as_str(), it.via, it.action.as_str(), it.target.as_str(), it.outcome))
        .collect();
    let expected = [
        ("token ci-operator", Via::Api, "jobs push", "", ChangeOutcome::Done),
        ("ben", Via::Console, "queue clear", "name=a", ChangeOutcome::Forbidden),
        ("ben", Via::Console, "queue explode", "name=missing", ChangeOutcome::Failed),
        ("ben", Via::Console, "queue pause", "name=a", ChangeOutcome::Done),
        ("ben", Via::Console, "log in", "", ChangeOutcome::Done),
    ];
    assert_eq!(rows, expected);
    assert!(entries.iter().all(|it| it.address.as_deref() == Some("127.0.0.1")));
    let text = serde_json::to_string(&entries).expect("JSON");
    for secret in ["hidden", USERS[1].2, ben.cookies["weir_session"].as_str(), page.csrf().as_str()]
    {
        assert!(!text.contains(secret), "{secret}");
    }

    let mut cat = browser(&site, Role::Admin).await;
    let page = cat.get("/audit?user=ben&action=queue").await;
    for text in ["queue pause", "name=missing", "forbidden", "127.0.0.1"] {
        page.assert_shows(text);
    }
    assert!(!page.text.contains("log in"), "another action");
    let json = cat.get("/v1/audit?limit=2&user=ben").await;
    let json: serde_json::Value = serde_json::from_str(&json.text).expect("JSON");
    assert_eq!(json["entries"][0]["action"], "queue clear");
    assert_eq!(json["entries"][0]["status"], 403);
    assert!(json["next"].is_u64());
}

#[tokio::test]
async fn an_audit_log_that_cannot_be_written_blocks_nobody_and_is_shown() {
    let site = site();
    site.push([job("audit-0001", "Work", "a")]).await;
    std::fs::write(site.directory().join("audit"), "in the way").expect("written");
    let mut cat = browser(&site, Role::Admin).await;
    let page = cat.get("/queues").await;
    let done = cat.submit(&page, "/queues/act", &[("name", "a"), ("action", "pause")]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER);
    std::fs::remove_file(site.directory().join("audit")).expect("removed");
    let page = cat.get("/audit").await;
    page.assert_shows("2 changes in memory only, because the log cannot be written");
    page.assert_shows("queue pause");
}

#[tokio::test]
async fn without_a_login_everyone_is_an_admin() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/users").await;
    page.assert_shows("No login is needed");
    browser.submit(&page, "/queues/act", &[("name", "a"), ("action", "clear")]).await;
    let entries = site.audit();
    assert_eq!((entries[0].user.as_str(), entries[0].role), ("anonymous", Role::Admin));
}

#[tokio::test]
async fn a_change_that_takes_too_long_is_in_the_audit_log() {
    let site = Site::with(|settings| settings.limits.request_timeout = Duration::from_millis(50));
    let mut browser = site.browser();
    let request = browser.request(Method::POST, "/queues/act");
    // The body never arrives.
    let body =
        Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let response = browser.send(request, body).await;
    assert_eq!(response.status, StatusCode::GATEWAY_TIMEOUT);
    let entry = crate::site::eventually(async || site.audit().into_iter().next()).await;
    assert_eq!((entry.outcome, entry.status), (ChangeOutcome::Unknown, None));
}
