//! A queue's own page: its figures, who fetches it, its charts, its jobs from both ends.

use axum::http::StatusCode;
use weir_base::shutdown::ShutdownToken;
use weir_console::sampler::Sampler;

use crate::site::{Site, TIMEOUT, eventually, job};

#[tokio::test]
async fn a_queue_page_lists_the_workers_that_fetch_it() {
    let site = Site::open();
    site.push((0..3).map(|n| job(&format!("who-{n:04}"), "Work", "alpha"))).await;
    let mut browser = site.browser();
    let page = browser.get("/queue?name=alpha").await;
    page.assert_shows("No worker fetches it.");
    page.assert_shows("<h1>Queue alpha");
    page.assert_shows("<dt>In <span>last 10 s</span></dt>");
    page.assert_shows("<dt>Out <span>last 10 s</span></dt>");

    let (mut one, mut two) = (site.faktory("worker-one"), site.faktory("worker-two"));
    one.ask("FETCH alpha beta");
    two.ask("FETCH alpha");
    let page = browser.get("/queue?name=alpha").await;
    page.assert_shows("2 workers fetch it.");
    page.assert_shows("this and 1 other queue");
    page.assert_shows("this queue only");
    let queues = browser.get("/queues").await;
    queues.assert_shows("data-label=\"Workers\">2<");
    let workers = browser.get("/workers").await;
    workers.assert_shows("<a href=\"/queue?name=beta\">beta</a>");

    browser.submit(&workers, "/workers/act", &[("wid", "worker-one"), ("signal", "quiet")]).await;
    let page = browser.get("/live/queue?name=alpha").await;
    page.assert_shows("1 worker running, 1 worker quiet.");
    page.assert_shows("<span class=\"tag warning\">quiet</span>");

    // Another list of queues takes the place of the one before.
    two.ask("FETCH gamma");
    let page = browser.get("/live/queue?name=alpha").await;
    page.assert_shows("No worker fetches it; 1 worker quiet.");
}

#[tokio::test]
async fn a_queues_jobs_can_be_paged_from_both_ends() {
    let site = Site::with(|settings| settings.limits.page_jobs = 2);
    site.push((0..5).map(|n| job(&format!("ends-{n:04}"), "Work", "alpha"))).await;
    let mut browser = site.browser();
    let jids = |page: &crate::site::Page| page.values("href=\"/job?jid=");
    let oldest = browser.get("/queue?name=alpha&range=1h").await;
    assert_eq!(jids(&oldest), ["ends-0000", "ends-0001"]);
    let next = oldest.next().expect("a next page");
    assert!(next.contains("range=1h"), "{next}");
    assert_eq!(jids(&browser.get(&next).await), ["ends-0002", "ends-0003"]);
    oldest.assert_shows("From the newest");
    let newest = browser.get("/queue?name=alpha&order=newest").await;
    assert_eq!(jids(&newest), ["ends-0004", "ends-0003"]);
    newest.assert_shows("From the oldest");
}

#[tokio::test]
async fn pausing_a_queue_returns_to_its_page() {
    let site = Site::open();
    site.push([job("stay-0001", "Work", "alpha")]).await;
    let mut browser = site.browser();
    let page = browser.get("/queue?name=alpha").await;
    let fields = [("name", "alpha"), ("action", "pause"), ("from", "queue")];
    let response = browser.submit(&page, "/queues/act", &fields).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER);
    let page = browser.get(response.header("location")).await;
    page.assert_shows("<h1>Queue alpha");
    page.assert_shows("Queue alpha is paused.");
    page.assert_shows("Queue alpha is paused with 1 job");
}

#[tokio::test]
async fn a_queues_rates_are_charted() {
    let site = Site::with(|settings| settings.limits.chart_queues_max = 1);
    site.push((0..5).map(|n| job(&format!("alpha-{n:04}"), "Work", "alpha"))).await;
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let _watched = site.browser().open("/events").await;
    let mut browser = site.browser();
    let address = "/queue/chart?name=alpha&series=depth,pushed_per_second&seconds=60&points=60";
    eventually(async || {
        site.clock.advance(std::time::Duration::from_secs(1));
        let page = browser.get(address).await;
        page.text.contains("5.0").then_some(())
    })
    .await;
    site.push((0..4).map(|n| job(&format!("beta-{n:04}"), "Work", "alpha"))).await;
    eventually(async || {
        site.clock.advance(std::time::Duration::from_secs(1));
        let page = browser.get(address).await;
        page.text.contains("9.0").then_some(())
    })
    .await;
    browser.get("/queue?name=alpha").await.assert_shows("data-source=\"/queue/chart?name=alpha\"");

    site.push([job("later-0001", "Work", "beta")]).await;
    let page = browser.get("/queue?name=beta").await;
    assert!(!page.text.contains("data-source"), "one queue has charts, by the limit");
    page.assert_shows("console.limits.advanced.chart_queues_max");
    let page = browser.get("/queue/chart?name=beta&series=depth&seconds=60").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    let page = browser.get("/queue/chart?name=alpha&series=nothing&seconds=60").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    shutdown.request();
    shutdown.drain(TIMEOUT).await;
}

#[tokio::test]
async fn every_page_shows_the_verdict() {
    let site = Site::open();
    site.push([job("alarm-0001", "Work", "alpha")]).await;
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&site.deps).run(shutdown.clone()));
    let mut browser = site.browser();
    for path in ["/dead", "/workers", "/job?jid=alarm-0001", "/nowhere"] {
        eventually(async || {
            let page = browser.get(path).await;
            page.text.contains("<a class=\"alarm critical\" id=\"alarm\" href=\"/\" title=\"No worker is connected and 1 job waits\">Critical</a>").then_some(())
        })
        .await;
    }
    shutdown.request();
    shutdown.drain(TIMEOUT).await;
}

#[tokio::test]
async fn an_x_ray_shows_what_a_queue_consists_of() {
    const HOSTILE: &str = "<b>\u{202e}";
    let site = Site::open();
    let jobs = (0..3).map(|n| job(&format!("who-{n:04}"), "Work", "alpha"));
    site.push(jobs.chain([job("who-9999", HOSTILE, "alpha")])).await;
    let mut browser = site.browser();
    let queue = browser.get("/queue?name=alpha").await;
    queue.assert_shows("href=\"/xray?place=queue%3Aalpha\"");
    let page = browser.get("/xray?place=queue:alpha").await;
    page.assert_shows("4 jobs, all of them read.");
    page.assert_shows("<a href=\"/queue?name=alpha&#38;jobtype=Work\">Work</a>");
    page.assert_shows("data-label=\"Share\">75.0 %<");
    page.assert_shows("&#60;b&#62;\\u202e");
    let page = browser.get("/xray?place=dead&by=tenant").await;
    page.assert_shows("There are no jobs.");
    page.assert_shows("is no key: write custom.NAME");
    let missing = browser.get("/xray?place=nowhere").await;
    assert_eq!(missing.status, StatusCode::BAD_REQUEST);
}
