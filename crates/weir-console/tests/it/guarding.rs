//! Who may see and do what.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode};

use crate::site::{PASSWORD, Site, TOKEN};

#[tokio::test]
async fn a_stranger_sees_only_the_login_page() {
    let site = Site::guarded();
    let mut browser = site.browser();
    for path in
        ["/", "/queues", "/retries", "/job?jid=x", "/events", "/chart?series=dead&seconds=1"]
    {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{path}");
        assert!(page.header("location").starts_with("/login?next="), "{path}");
    }
    let page = browser.post("/queues/act", &[("name", "a"), ("action", "clear")]).await;
    assert_eq!(page.status, StatusCode::UNAUTHORIZED);
    for path in ["/v1/overview", "/metrics"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(page.header("www-authenticate"), "Bearer");
    }
    assert_eq!(browser.get("/health").await.text, "ok\n");
    browser.get("/login").await.assert_shows("type=\"password\"");
}

#[tokio::test]
async fn a_login_opens_a_session_that_ends_on_logout() {
    let site = Site::guarded();
    let mut browser = site.browser();
    let response = browser.log_in().await;
    assert_eq!((response.status, response.header("location")), (StatusCode::SEE_OTHER, "/retries"));
    let cookie = response.header("set-cookie").to_owned();
    for part in ["weir_session=", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let page = browser.get("/").await;
    assert_eq!(page.status, StatusCode::OK);
    let response = browser.submit(&page, "/logout", &[]).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.get("/").await.status, StatusCode::SEE_OTHER);

    browser.log_in().await;
    assert_eq!(browser.get("/").await.status, StatusCode::OK);
    site.clock.advance(site.deps.settings.session_idle_max);
    assert_eq!(browser.get("/").await.status, StatusCode::SEE_OTHER, "idle for too long");
}

#[tokio::test]
async fn the_cookie_of_an_ended_session_is_rejected() {
    let site = Site::guarded();
    let mut browser = site.browser();
    browser.log_in().await;
    let mut thief = browser.clone();
    let page = browser.get("/").await;
    browser.submit(&page, "/logout", &[]).await;
    assert_eq!(thief.get("/").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn login_attempts_are_limited_by_address() {
    let site = Site::guarded();
    let mut guesser = site.browser();
    let page = guesser.get("/login").await;
    let burst = site.deps.settings.limits.login_burst;
    for _ in 0..burst {
        let response = guesser.submit(&page, "/login", &[("password", "guess")]).await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED);
    }
    let refused = guesser.submit(&page, "/login", &[("password", PASSWORD)]).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "even with the right password");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!(guesser.cookies.is_empty());

    let mut owner = site.browser();
    owner.client = "192.0.2.7:1".parse().unwrap();
    assert_eq!(owner.log_in().await.status, StatusCode::SEE_OTHER, "another address is not slowed");

    site.clock.advance(Duration::from_secs(wait));
    let response = guesser.submit(&page, "/login", &[("password", PASSWORD)]).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER, "after the wait it said");
}

#[tokio::test]
async fn every_form_needs_the_csrf_token_of_its_session() {
    let site = Site::guarded();
    let (mut one, mut other) = (site.browser(), site.browser());
    one.log_in().await;
    other.log_in().await;
    let foreign = other.get("/queues").await.csrf();
    let forms = [
        ("/queues/act", vec![("name", "a"), ("action", "pause")]),
        ("/jobs/act", vec![("place", "dead"), ("action", "requeue"), ("key", "1|x")]),
        ("/workers/act", vec![("all", "1"), ("signal", "quiet")]),
        ("/theme", vec![("theme", "dark")]),
        ("/logout", vec![]),
    ];
    for (path, fields) in forms {
        for token in [None, Some(""), Some("wrong"), Some(foreign.as_str())] {
            let mut sent = fields.clone();
            sent.extend(token.map(|token| ("csrf", token)));
            let response = one.post(path, &sent).await;
            assert_eq!(response.status, StatusCode::FORBIDDEN, "{path} {token:?}");
        }
        assert_eq!(one.get(path).await.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    assert_eq!(one.get("/").await.status, StatusCode::OK, "still logged in");
}

#[tokio::test]
async fn redirects_stay_on_this_host_and_headers_are_not_split() {
    let site = Site::open();
    let mut browser = site.browser();
    let csrf = browser.get("/queues").await.csrf();
    let theme = format!("csrf={csrf}&theme=dark");
    let referers = [
        ("http://127.0.0.1:7420/dead?search=a%0d%0ab", "/dead?search=a%0d%0ab"),
        ("http://127.0.0.1:7420//evil.example/x", "/"),
        ("http://127.0.0.1:7420/\\evil.example", "/"),
        ("http://127.0.0.1:7420", "/"),
        ("evil", "/"),
    ];
    for (referer, expected) in referers {
        let request = browser.request(Method::POST, "/theme").header("referer", referer);
        let response = browser.send(request, Body::from(theme.clone())).await;
        assert_eq!(response.header("location"), expected, "{referer}");
    }
    let split = "dead\r\nset-cookie: a=b";
    let fields = [
        ("csrf", csrf.as_str()),
        ("place", "dead"),
        ("action", "requeue"),
        ("search", split),
        ("order", split),
    ];
    let response = browser.post("/jobs/act", &fields).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER);
    let location = response.header("location");
    assert!(location.starts_with("/dead?search=dead%0D%0Aset-cookie"), "{location}");
    assert!(response.headers.get("set-cookie").is_none());
}

#[tokio::test]
async fn a_session_cookie_behind_tls_is_secure() {
    for secure in [false, true] {
        let site = Site::with(|settings| {
            settings.password = Some(weir_base::secret::Secret::new(PASSWORD));
            settings.cookie_secure = secure;
        });
        let mut browser = site.browser();
        let cookie = browser.log_in().await.header("set-cookie").to_owned();
        assert_eq!(cookie.ends_with("; Secure"), secure, "{cookie}");
        let page = browser.get("/").await;
        let theme = browser.submit(&page, "/theme", &[("theme", "dark")]).await;
        assert_eq!(theme.header("set-cookie").ends_with("; Secure"), secure);
    }
}

#[tokio::test]
async fn without_a_password_forms_still_need_a_token() {
    let site = Site::open();
    site.push([crate::site::job("unguarded-1", "Work", "a")]).await;
    let mut browser = site.browser();
    let refused = browser.post("/queues/act", &[("name", "a"), ("action", "pause")]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let page = browser.get("/queues").await;
    let done = browser.submit(&page, "/queues/act", &[("name", "a"), ("action", "pause")]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn an_unknown_host_is_rejected_everywhere() {
    let site = Site::with(|settings| settings.hosts = vec!["weir.example".to_owned()]);
    let mut browser = site.browser();
    browser.host = "evil.example:7420".to_owned();
    for path in ["/", "/login", "/v1/overview", "/metrics", "/events", "/assets/console.css"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::MISDIRECTED_REQUEST, "{path}");
        assert!(page.text.contains("console.hosts"), "{}", page.text);
    }
    for host in ["localhost:7420", "[::1]:7420", "weir.example", "10.1.2.3:7420"] {
        browser.host = host.to_owned();
        assert_eq!(browser.get("/").await.status, StatusCode::OK, "{host}");
    }
    browser.host = String::new();
    assert_eq!(browser.get("/").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_form_from_another_site_is_rejected_even_with_the_token() {
    let site = Site::open();
    let mut browser = site.browser();
    let csrf = browser.get("/queues").await.csrf();
    let body = format!("csrf={csrf}&name=a&action=pause");
    for (name, value) in [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")] {
        let request = browser.request(Method::POST, "/queues/act").header(name, value);
        let response = browser.send(request, Body::from(body.clone())).await;
        assert_eq!(response.status, StatusCode::FORBIDDEN, "{name}");
    }
}

#[tokio::test]
async fn the_api_accepts_the_token_or_a_session_with_csrf_token() {
    let site = Site::guarded();
    let mut program = site.browser();
    program.host = "weir.internal".to_owned();
    let with_token = |request: axum::http::request::Builder, token: &str| {
        request.header("authorization", format!("Bearer {token}"))
    };
    for (token, expected) in [(TOKEN, StatusCode::OK), ("wrong", StatusCode::MISDIRECTED_REQUEST)] {
        let request = with_token(program.request(Method::GET, "/v1/overview"), token);
        let response = program.send(request, Body::empty()).await;
        assert_eq!(response.status, expected, "{token}");
    }
    program.host = "127.0.0.1".to_owned();
    let request = with_token(program.request(Method::GET, "/v1/overview"), "wrong");
    assert_eq!(program.send(request, Body::empty()).await.status, StatusCode::UNAUTHORIZED);
    let request = with_token(program.request(Method::GET, "/"), TOKEN);
    let response = program.send(request, Body::empty()).await;
    assert_eq!(
        response.status,
        StatusCode::SEE_OTHER,
        "the token is for programs, pages for people"
    );

    let mut person = site.browser();
    person.log_in().await;
    assert_eq!(person.get("/v1/overview").await.status, StatusCode::OK);
    assert_eq!(person.get("/metrics").await.text, "weir_up 1\n");
    let act = r#"{"queues":"all","action":"pause"}"#;
    let request = |person: &crate::site::Browser| {
        let mut request = person.request(Method::POST, "/v1/queues/act");
        request.headers_mut().unwrap().insert("content-type", "application/json".parse().unwrap());
        request
    };
    let refused = person.send(request(&person), Body::from(act)).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let csrf = person.get("/").await.csrf();
    let allowed = request(&person).header("x-csrf-token", csrf);
    assert_eq!(person.send(allowed, Body::from(act)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_wrong_token_is_rejected_although_no_password_is_set() {
    let site = Site::with(|settings| {
        settings.token = Some(weir_base::secret::Secret::new(TOKEN));
    });
    let program = site.browser();
    for (token, expected) in [(TOKEN, StatusCode::OK), ("wrong", StatusCode::UNAUTHORIZED)] {
        let request = program.request(Method::GET, "/v1/overview");
        let request = request.header("authorization", format!("Bearer {token}"));
        assert_eq!(program.clone().send(request, Body::empty()).await.status, expected, "{token}");
    }
}

#[tokio::test]
async fn metrics_can_be_opened_by_a_setting() {
    let site = Site::with(|settings| {
        settings.password = Some(weir_base::secret::Secret::new(PASSWORD));
        settings.metrics_without_login = true;
    });
    let mut prometheus = site.browser();
    prometheus.host = "weir.internal:7420".to_owned();
    assert_eq!(prometheus.get("/metrics").await.text, "weir_up 1\n");
    assert_eq!(prometheus.get("/v1/overview").await.status, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let site = Site::guarded();
    let mut browser = site.browser();
    for path in ["/", "/login", "/health", "/v1/overview", "/assets/console.css", "/nowhere"] {
        let page = browser.get(path).await;
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{path}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(page.header("x-frame-options"), "DENY", "{path}");
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(page.header("referrer-policy"), "same-origin", "{path}");
        assert!(!page.header("cache-control").is_empty(), "{path}");
    }
    assert_eq!(browser.get("/login").await.header("cache-control"), "no-store");
    assert!(browser.get("/assets/console.css").await.header("cache-control").contains("immutable"));
}

#[tokio::test]
async fn a_form_over_the_size_limit_is_rejected() {
    let site = Site::with(|settings| settings.limits.body_bytes_max = 1_000);
    let mut browser = site.browser();
    let page = browser.get("/queues").await;
    let long = "x".repeat(2_000);
    let response = browser.submit(&page, "/queues/act", &[("name", &long)]).await;
    assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE);
    response.assert_shows("console.limits.advanced.body_bytes_max");
}

#[tokio::test]
async fn pages_have_no_inline_script_or_style() {
    let site = Site::open();
    site.push([crate::site::job("inline-0001", "Work", "default")]).await;
    let mut browser = site.browser();
    let paths = [
        "/",
        "/queues",
        "/queue?name=default",
        "/retries",
        "/scheduled",
        "/dead",
        "/workers",
        "/tasks",
        "/job?jid=inline-0001",
        "/nowhere",
        "/jobs/confirm?place=dead&action=discard",
        "/queues/confirm?name=default",
        "/workers/confirm",
    ];
    for path in paths {
        let page = browser.get(path).await;
        assert!(!page.text.contains("<style") && !page.text.contains(" style="), "{path}");
        assert!(!page.text.contains("javascript:") && !page.text.contains(" onclick"), "{path}");
        let scripts = page.text.matches("<script").count();
        assert_eq!(scripts, page.text.matches("<script type=\"module\" src=\"/assets/").count());
    }
}
