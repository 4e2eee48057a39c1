//! A dead set of 100,000 is paged through without loading it.

use std::collections::BTreeSet;

use weir_jobs::handle::Which;
use weir_jobs::store::Action;

use crate::site::{Site, later};

const DEAD: usize = 100_000;
const BATCH: usize = 5_000;
const PAGES: usize = 40;

#[tokio::test]
async fn a_large_dead_set_stays_a_page_at_a_time() {
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
    let found = browser.get("/dead?search=dead-019-04999").await;
    let mut last = found;
    while last.keys().is_empty() {
        let next = last.next().expect("the search goes on");
        last = browser.get(&next).await;
    }
    assert_eq!(last.keys().len(), 1);
}
