//! The pages of limits, cron jobs and batches.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use weir_jobs::cron::CronSettings;
use weir_jobs::model::QueueName;
use weir_jobs::settings::{
    JobServerSettings, QueueSettings, ResourceSettings, StoreKind, TenantSettings,
};

use crate::site::{Site, job};

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}";
const SHOWN: &str = "&#60;script&#62;alert(1)&#60;/script&#62;\\u202e";

/// Applies other settings of the job server.
async fn reload(site: &Site, change: impl FnOnce(&mut JobServerSettings)) {
    let mut settings = JobServerSettings { store: StoreKind::Memory, ..Default::default() };
    settings.limits.fetch_wait = std::time::Duration::from_millis(50);
    change(&mut settings);
    assert!(site.handle().reload(settings).await.expect("a reload").is_empty());
}

fn queue(settings: &mut JobServerSettings, name: &str, queue: QueueSettings) {
    let name = QueueName::parse(name, &settings.limits).expect("a name");
    settings.queues.insert(name, queue);
}

fn of_tenant(jid: &str, tenant: &str) -> String {
    serde_json::json!({"jid": jid, "jobtype": "Crawl", "queue": "crawl", "args": [tenant]})
        .to_string()
}

#[tokio::test]
async fn without_limits_the_page_says_how_to_set_one() {
    let site = Site::open();
    let page = site.browser().get("/limits").await;
    assert_eq!(page.status, StatusCode::OK);
    page.assert_shows("No queue and no resource has a limit");
    page.assert_shows("[jobs.queues.NAME]");
    page.assert_shows("<noscript><meta http-equiv=\"refresh\"");
}

#[tokio::test]
async fn limits_are_shown_with_what_they_hold_back() {
    let site = Site::open();
    reload(&site, |settings| {
        let tenants = BTreeMap::from([("slow".to_owned(), TenantSettings::default())]);
        let crawl = QueueSettings {
            fair_by: Some("/args/0".parse().expect("a path")),
            tenant_concurrency: Some(1),
            jobs_max: Some(50),
            tenants,
            ..QueueSettings::default()
        };
        queue(settings, "crawl", crawl);
        let resource = ResourceSettings {
            concurrency: Some(1),
            types: vec!["Charge".to_owned()],
            ..ResourceSettings::default()
        };
        settings.resources.insert("payments".to_owned(), resource);
    })
    .await;
    site.push((0..3).map(|n| of_tenant(&format!("crawl-{n:03}"), HOSTILE))).await;
    site.push((0..2).map(|n| job(&format!("charge-{n:03}"), "Charge", "money"))).await;
    let mut worker = site.faktory("worker-one");
    assert!(worker.ask("FETCH crawl").contains("crawl-000"));
    assert!(worker.ask("FETCH money").contains("charge-000"));
    assert_eq!(worker.ask("FETCH crawl money"), "", "both limits are reached");
    let mut browser = site.browser();
    let page = browser.get("/limits").await;
    for text in [
        "<a href=\"/queue?name=crawl\">crawl</a>",
        "data-label=\"Waiting\">2 / 50<",
        "data-label=\"Blocked by\">2 by concurrency<",
        "<h2>Shared resources</h2>",
        "data-label=\"In use\">1 / 1<",
        "data-label=\"Used by\">types Charge<",
        "<h2>Tenants at a limit</h2>",
        SHOWN,
        "href=\"/limits\"",
    ] {
        page.assert_shows(text);
    }
    assert!(!page.text.contains("<script>alert"));
    let section = browser.get("/live/limits").await;
    section.assert_shows("2 by concurrency");
    assert!(!section.text.contains("<html"));
}

fn cron(name: &str) -> CronSettings {
    let mut cron = CronSettings { name: name.to_owned(), ..CronSettings::default() };
    cron.job.jobtype = "Vacuum".to_owned();
    cron.job.queue = "chores".to_owned();
    cron
}

#[tokio::test]
async fn cron_jobs_are_run_paused_and_resumed() {
    let site = Site::open();
    let mut browser = site.browser();
    browser.get("/cron").await.assert_shows("There are no cron jobs");
    reload(&site, |settings| settings.cron = vec![cron("vacuum"), cron(HOSTILE)]).await;
    let page = browser.get("/cron").await;
    for text in ["vacuum", "0 0 * * * UTC", "<a href=\"/type?name=Vacuum\">", " UTC (in ", SHOWN] {
        page.assert_shows(text);
    }
    assert!(!page.text.contains("<script>alert"));
    for (action, shown) in [
        ("run", "The job of vacuum is enqueued."),
        ("pause", "vacuum is paused: its times pass without a job."),
        ("resume", "vacuum is resumed."),
    ] {
        let fields = [("name", "vacuum"), ("action", action)];
        let response = browser.submit(&page, "/cron/act", &fields).await;
        assert_eq!(response.status, StatusCode::SEE_OTHER, "{action}: {}", response.text);
        let after = browser.get(response.header("location")).await;
        after.assert_shows(shown);
        let has_resume = after.text.contains("value=\"resume\"");
        assert_eq!(has_resume, action == "pause", "{action}");
    }
    let queues = site.handle().queues().await.expect("queues");
    assert_eq!((queues[0].name.as_str(), queues[0].depth), ("chores", 1));
}

#[tokio::test]
async fn only_forms_of_the_console_act_on_cron_jobs_and_unknown_ones_are_errors() {
    let site = Site::open();
    reload(&site, |settings| settings.cron = vec![cron("vacuum")]).await;
    let mut browser = site.browser();
    let fields = [("name", "vacuum"), ("action", "run")];
    let forged = browser.post("/cron/act", &fields).await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    let page = browser.get("/cron").await;
    for (name, action) in [("nobody", "run"), ("vacuum", "explode")] {
        let fields = [("name", name), ("action", action)];
        let response = browser.submit(&page, "/cron/act", &fields).await;
        assert!(response.status.is_client_error(), "{name} {action}: {}", response.status);
    }
    assert_eq!(site.handle().overview().await.expect("an overview").enqueued, 0);
}

#[tokio::test]
async fn batches_are_shown_with_their_jobs_and_callbacks() {
    let site = Site::open();
    let mut browser = site.browser();
    let empty = browser.get("/batches").await;
    empty.assert_shows("There are no batches.");
    empty.assert_shows("BATCH NEW");
    let mut client = site.faktory("worker-one");
    let done = serde_json::json!({"jobtype": "Done", "args": []});
    let definition = serde_json::json!({"description": HOSTILE, "success": done});
    let bid = client.ask(&format!("BATCH NEW {definition}"));
    for number in 0..3 {
        let job = serde_json::json!({
            "jid": format!("batch-{number:03}"), "jobtype": "Part", "queue": "parts", "args": [],
            "custom": {"bid": bid},
        });
        assert_eq!(client.ask(&format!("PUSH {job}")), "+OK");
    }
    browser.get("/batches").await.assert_shows(">open<");
    assert_eq!(client.ask(&format!("BATCH COMMIT {bid}")), "+OK");
    assert!(client.ask("FETCH parts").contains("batch-000"));
    assert_eq!(client.ask(r#"ACK {"jid":"batch-000"}"#), "+OK");
    assert!(client.ask("FETCH parts").contains("batch-001"));
    assert_eq!(client.ask(r#"FAIL {"jid":"batch-001","errtype":"E","message":"m"}"#), "+OK");
    let page = browser.get("/batches").await;
    for text in [
        bid.as_str(),
        "1 batch<",
        ">running<",
        "data-label=\"Jobs\">3<",
        "data-label=\"Succeeded\">1<",
        "data-label=\"Pending\">2<",
        "data-label=\"Failed\">1<",
        "data-label=\"Callback: complete\">none<",
        "data-label=\"Callback: success\">pending<",
        SHOWN,
    ] {
        page.assert_shows(text);
    }
    assert!(!page.text.contains("<script>alert"));
    assert!(client.ask("FETCH parts").contains("batch-002"));
    assert_eq!(client.ask(r#"ACK {"jid":"batch-002"}"#), "+OK");
    browser.get("/live/batches").await.assert_shows("<span class=\"tag warning\">waiting</span>");
}

#[tokio::test]
async fn demo_flood_is_offered_while_a_demo_is_connected() {
    let site = Site::open();
    let mut browser = site.browser();
    let without = browser.get("/").await;
    assert!(!without.text.contains("/demo/flood"));
    let refused = browser.submit(&without, "/demo/flood", &[]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    refused.assert_shows("demo is connected; start one with");
    let mut demo = site.faktory_with(",\"wid\":\"demo-0001\",\"labels\":[\"demo-label\"]");
    assert_eq!(demo.ask("BEAT {\"wid\":\"demo-0001\"}"), "+OK");
    let page = browser.get("/").await;
    page.assert_shows("action=\"/demo/flood\"");
    page.assert_shows("href=\"/docs/dispatch#fresh-lane\"");
    browser.get("/docs/dispatch").await.assert_shows("id=\"fresh-lane\"");
    let forged = browser.post("/demo/flood", &[]).await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    let response = browser.submit(&page, "/demo/flood", &[]).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", response.text);
    browser.get(response.header("location")).await.assert_shows("The flood begins");
    assert!(demo.ask("FETCH floods").contains("flood-0001"));
}
