//! A dead set of 100,000 is paged through without loading it.

use std::collections::BTreeSet;

use weir_jobs::handle::Which;
use weir_jobs::store::Action;

use crate::site::{Site, later};

const DEAD: usize = 100_000;
const BATCH: usize = 5_000;
const PAGES: usize = 40;

#[tokio::test]
async fn a_large_dead_set_is_shown_in_pages() {
    let site = Site::open();
    for batch in 0..DEAD / BATCH {
        let jobs = (0..BATCH).map(|n| later(&format!("dead-{batch:03}-{n:05}"), "Mail"));
        site.push(jobs).await;
    }
    let all = Which::Matching { search: None, jobtype: None };
    let killed = site.handle().act("scheduled".into(), all, Action::Kill).await.unwrap();
    assert_eq!(killed, DEAD as u64);

    let mut browser = site.browser();
    let (mut seen, mut address) = (BTreeSet::new(), "/dead".to_owned());
    let page_jobs = site.deps.settings.limits.page_jobs;
    for _ in 0..PAGES {
        let page = browser.get(&address).await;
        page.assert_shows("100,000 jobs");
        assert!(page.text.len() < 100_000, "a page of {} bytes", page.text.len());
        let keys = page.keys();
        assert_eq!(keys.len(), page_jobs);
        seen.extend(keys);
        address = page.next().expect("there is more");
    }
    assert_eq!(seen.len(), PAGES * page_jobs, "no job twice");

    let confirm = browser.get("/jobs/confirm?place=dead&action=discard").await;
    confirm.assert_shows("<h1>Delete 100,000 jobs?</h1>");
    let found = browser.get("/dead?search=ad-019-04999").await;
    assert_eq!(found.keys().len(), 1, "a search looks on until it has filled its page");
    found.assert_shows("100,000 jobs searched");
    assert!(found.next().is_none());
    let many = browser.get("/dead?search=dead-019").await;
    assert_eq!(many.keys().len(), page_jobs);
    let next = many.next().expect("there is more");
    assert!(many.keys().iter().all(|key| !next.contains(key)) && next.contains("search=dead-019"));
}

#[tokio::test]
async fn a_job_is_found_by_its_id_in_any_set() {
    let site = Site::open();
    site.push([later("needle-0001", "Mail"), later("needle-0002", "Mail")]).await;
    let mut browser = site.browser();
    let page = browser.get("/dead?search=needle-0001").await;
    page.assert_shows(
        "<a href=\"/job?jid=needle-0001\"><code>needle-0001</code></a> is scheduled.",
    );
    page.assert_shows("No jobs match.");
    let page = browser.get("/dead?search=needle").await;
    assert!(!page.text.contains("/job?jid="));
}

#[tokio::test]
async fn a_slow_search_offers_to_continue() {
    let site = Site::with(|settings| {
        settings.limits.search_time = std::time::Duration::ZERO;
    });
    for batch in 0..4 {
        let jobs = (0..BATCH).map(|n| later(&format!("slow-{batch}-{n:05}"), "Mail"));
        site.push(jobs).await;
    }
    let mut browser = site.browser();
    let first = browser.get("/scheduled?search=low-3-04999").await;
    first.assert_shows("No match among the 10,000 jobs searched so far.");
    let second = browser.get(&first.next().expect("a way onwards")).await;
    assert_eq!(second.keys().len(), 1);
    let hits = site.limit_hits();
    assert!(hits.contains("limit=\"search_time\"} 1"), "{hits}");
}
