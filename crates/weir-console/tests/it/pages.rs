//! What the pages show.

use axum::http::StatusCode;

use crate::site::{Site, job, later};

#[tokio::test]
async fn an_empty_server_shows_how_to_begin() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/").await;
    assert_eq!(page.status, StatusCode::OK);
    page.assert_shows("Ready: no jobs yet");
    page.assert_shows(&format!("export FAKTORY_URL=tcp://{}", site.jobs_address));
    browser.get("/queues").await.assert_shows("There are no queues.");
    browser.get("/workers").await.assert_shows("No worker is connected.");
    browser.get("/dead").await.assert_shows("No dead jobs.");
}

#[tokio::test]
async fn the_overview_reports_missing_workers() {
    let site = Site::open();
    site.push((0..1_234).map(|n| job(&format!("overview-{n}"), "Work", "default"))).await;
    let page = site.browser().get("/").await;
    page.assert_shows("No worker is connected and 1,234 jobs wait");
    page.assert_shows("Start your workers and point them at tcp://");
}

#[tokio::test]
async fn queues_show_their_figures() {
    let site = Site::open();
    site.push((0..3).map(|n| job(&format!("queue-a-{n}"), "Work", "alpha"))).await;
    site.push([job("queue-b-0", "Work", "beta")]).await;
    let page = site.browser().get("/queues").await;
    page.assert_shows("4 jobs in 2 queues");
    page.assert_shows("href=\"/queue?name=alpha\"");
    assert!(page.text.find("name=alpha").unwrap() < page.text.find("name=beta").unwrap());
}

#[tokio::test]
async fn a_job_shows_every_digit_and_its_failure() {
    let site = Site::open();
    let pushed = r#"{"jid":"digits-0001","jobtype":"Charge","queue":"money","args":[109326485893512345,{"amount":1.10}]}"#;
    site.push([pushed.to_owned()]).await;
    let mut browser = site.browser();
    let page = browser.get("/job?jid=digits-0001").await;
    page.assert_shows("109326485893512345");
    page.assert_shows("&#34;amount&#34;: 1.10");
    page.assert_shows("is waiting in its queue");
    let mut worker = site.faktory("worker-one");
    worker.ask("FETCH money");
    browser.get("/job?jid=digits-0001").await.assert_shows("is in progress");
    let workers = browser.get("/workers").await;
    workers.assert_shows("1 worker with 1 connection, 1 job in progress");
    workers.assert_shows("digits-0001");
    let fail = r#"FAIL {"jid":"digits-0001","errtype":"CardError","message":"declined","backtrace":["a.rb:1","b.rb:2"]}"#;
    worker.ask(fail);
    let page = browser.get("/job?jid=digits-0001").await;
    for text in
        ["is waiting for a retry", "CardError", "declined", "a.rb:1\nb.rb:2", "109326485893512345"]
    {
        page.assert_shows(text);
    }
    page.assert_shows("Failed: CardError: declined");
    assert!(!page.text.contains("Only the last failure is stored"), "there is no other");
    browser.get("/retries").await.assert_shows("CardError: declined");
}

#[tokio::test]
async fn a_job_with_earlier_failures_says_what_is_not_kept() {
    let site = Site::open();
    site.push([job("again-0001", "Work", "alpha")]).await;
    let mut worker = site.faktory("worker-one");
    let mut browser = site.browser();
    for tries in 1..=2 {
        worker.ask("FETCH alpha");
        let fail = format!(r#"FAIL {{"jid":"again-0001","errtype":"E","message":"try {tries}"}}"#);
        assert_eq!(worker.ask(&fail), "+OK");
        let page = browser.get("/job?jid=again-0001").await;
        let key = page.keys().remove(0);
        let fields = [("place", "retries"), ("action", "requeue"), ("key", key.as_str())];
        browser.submit(&page, "/jobs/act", &fields).await;
    }
    let page = browser.get("/job?jid=again-0001").await;
    page.assert_shows("Failed for the 2nd time: E: try 2");
    page.assert_shows("Only the last failure is stored");
    assert!(!page.text.contains("try 1"));
}

#[tokio::test]
async fn a_huge_payload_is_cut_and_offered_as_a_download() {
    let site = Site::with(|settings| settings.limits.payload_display_bytes_max = 1_000);
    let long = "x".repeat(50_000);
    site.push([format!(r#"{{"jid":"huge-0001","jobtype":"Big","args":["{long}"]}}"#)]).await;
    let mut browser = site.browser();
    let page = browser.get("/job?jid=huge-0001").await;
    assert!(page.text.len() < 12_000, "{}", page.text.len());
    page.assert_shows("payload_display_bytes_max");
    assert!(browser.get("/job/payload?jid=huge-0001").await.text.contains(&long));
}

#[tokio::test]
async fn missing_things_give_a_404_page() {
    let site = Site::open();
    let mut browser = site.browser();
    for (path, text) in [
        ("/job?jid=unknown-1", "There is no job unknown-1:"),
        ("/queue?name=unknown", "There is no queue"),
        ("/nowhere", "There is no such page"),
    ] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        page.assert_shows(text);
    }
}

#[tokio::test]
async fn lists_are_searched_and_sorted() {
    let site = Site::open();
    site.push([
        later("list-one", "Mail"),
        later("list-two", "Mail"),
        later("list-three", "Report"),
    ])
    .await;
    let mut browser = site.browser();
    assert_eq!(browser.get("/scheduled").await.keys().len(), 3);
    assert_eq!(browser.get("/scheduled?jobtype=Mail").await.keys().len(), 2);
    assert_eq!(browser.get("/scheduled?search=list-t").await.keys().len(), 2);
    let page = browser.get("/scheduled?search=nothing-like-it").await;
    page.assert_shows("No jobs match.");
    let oldest = browser.get("/scheduled").await.keys();
    let mut newest = browser.get("/scheduled?order=newest").await.keys();
    newest.reverse();
    assert_eq!(oldest, newest);
}

#[tokio::test]
async fn the_theme_is_remembered_without_script() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/queues").await;
    page.assert_shows("data-theme=\"system\"");
    browser.submit(&page, "/theme", &[("theme", "dark")]).await;
    browser.get("/queues").await.assert_shows("data-theme=\"dark\"");
    browser.cookies.insert("weir_theme".into(), "\"><script>".into());
    browser.get("/queues").await.assert_shows("data-theme=\"system\"");
}
