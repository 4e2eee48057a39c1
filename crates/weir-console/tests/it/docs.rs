//! The documentation under /docs.

use std::collections::BTreeSet;

use axum::http::StatusCode;

use crate::site::Site;

#[tokio::test]
async fn every_page_is_served_in_the_frame() {
    let site = Site::open();
    let mut browser = site.browser();
    for path in weir_docs::library().pages() {
        let address = weir_docs::site::Site::Console.address("", path);
        let page = browser.get(&address).await;
        assert_eq!(page.status, StatusCode::OK, "{address}");
        page.assert_shows("action=\"/docs\"");
        page.assert_shows("<a href=\"/docs\" aria-current=\"page\">Docs");
        page.assert_shows("action=\"/theme\"");
        assert!(page.text.contains("<h1"), "{address}");
        let ids = page.values(" id=\"");
        let unique: BTreeSet<&String> = ids.iter().collect();
        assert_eq!(ids.len(), unique.len(), "{address}: two elements have the same id");
    }
}

#[tokio::test]
async fn the_first_page_lists_all_pages() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/docs").await;
    for section in weir_docs::library().sections() {
        page.assert_shows(&format!("<h2>{}</h2>", section.title));
    }
    page.assert_shows("<a href=\"/docs/reference/settings\">Settings</a>: every setting");
    assert_eq!(browser.get("/docs/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_page_lists_its_headings_and_its_section() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/docs/reference/settings").await;
    page.assert_shows("<title>Settings · Weir</title>");
    page.assert_shows("<a href=\"#jobslimits\">[jobs.limits]</a>");
    page.assert_shows("<td id=\"jobs.limits.connections_max\">");
    page.assert_shows("<a href=\"/docs/reference/settings\" aria-current=\"page\">Settings</a>");
    page.assert_shows("<a href=\"/docs/restarts\">more</a>");
    let same = browser.get("/docs/reference/settings.md").await;
    assert_eq!(same.status, StatusCode::OK, "messages name the file");
}

#[tokio::test]
async fn search_leads_to_headings_and_settings() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/docs?q=connections_max").await;
    assert_eq!(page.status, StatusCode::OK);
    page.assert_shows("value=\"connections_max\"");
    page.assert_shows("href=\"/docs/reference/settings#jobs.limits.connections_max\"");
    let first = browser.get("/docs?q=surviving+backl").await;
    let hits = first.text.split("<ol class=\"hits\">").nth(1).unwrap_or_default();
    let address = hits.split("href=\"").nth(1).and_then(|rest| rest.split('"').next());
    assert_eq!(address, Some("/docs/surviving-a-backlog#surviving-a-backlog"));
    page.assert_shows("<mark>connections_max</mark>");
    browser.get("/docs?q=xyzzyx").await.assert_shows("Nothing contains all of these words.");
}

#[tokio::test]
async fn queries_are_escaped_and_bounded() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/docs?q=%3Cscript%3Ealert(1)%3C/script%3E%E2%80%AE").await;
    assert_eq!(page.status, StatusCode::OK);
    page.assert_shows("&#60;script&#62;alert(1)");
    assert!(!page.text.contains("<script>alert") && !page.text.contains('\u{202e}'));
    let long = "job+".repeat(2_000);
    let page = browser.get(&format!("/docs?q={long}")).await;
    assert_eq!(page.status, StatusCode::OK);
    page.assert_shows("The best 50 of");
    assert!(page.text.len() < 60_000, "{}", page.text.len());
}

#[tokio::test]
async fn an_unknown_page_is_a_404_with_a_search() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/docs/realtime-webhook").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    page.assert_shows("The documentation has no page <code>realtime-webhook</code>");
    page.assert_shows("value=\"realtime webhook\"");
    page.assert_shows("href=\"/docs/realtime-webhooks#");
    for path in ["/docs/..%2fREADME", "/docs/SUMMARY", "/docs/%3Cscript%3Ealert(1)", "/docs/a/b/c"]
    {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        assert!(!page.text.contains("<script>alert"), "{path}");
    }
}

#[tokio::test]
async fn the_documentation_needs_a_login_like_all_pages() {
    let site = Site::guarded();
    let mut browser = site.browser();
    for path in ["/docs", "/docs/realtime", "/docs?q=job"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{path}");
        assert!(page.header("location").starts_with("/login"), "{path}");
    }
    browser.log_in().await;
    assert_eq!(browser.get("/docs/realtime").await.status, StatusCode::OK);
}
