//! Acting on one job, a selection, all matches, a queue, workers: as a browser without script does.

use axum::http::StatusCode;
use weir_jobs::handle::{StepAction, StepQuery, TaskRequest};

use crate::site::{Site, eventually, job, later};

async fn counts(site: &Site) -> (u64, u64, u64) {
    let overview = site.handle().overview().await.expect("an overview");
    (overview.enqueued, overview.scheduled, overview.dead)
}

#[tokio::test]
async fn an_action_on_selected_jobs_runs_at_once() {
    let site = Site::open();
    site.push((0..3).map(|n| later(&format!("select-{n}"), "Mail"))).await;
    let mut browser = site.browser();
    let page = browser.get("/scheduled").await;
    let keys = page.keys();
    let fields =
        [("place", "scheduled"), ("action", "requeue"), ("key", &keys[0]), ("key", &keys[2])];
    let response = browser.submit(&page, "/jobs/act", &fields).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER);
    assert_eq!(counts(&site).await, (2, 1, 0));
    let page = browser.get(response.header("location")).await;
    page.assert_shows("2 jobs were moved to their queues.");
    assert_eq!(page.keys(), [keys[1].clone()]);
}

#[tokio::test]
async fn deleting_selected_jobs_asks_for_confirmation() {
    let site = Site::open();
    site.push((0..3).map(|n| later(&format!("delete-{n}"), "Mail"))).await;
    let mut browser = site.browser();
    let page = browser.get("/scheduled").await;
    let keys = page.keys();
    let fields =
        [("place", "scheduled"), ("action", "discard"), ("key", &keys[0]), ("key", &keys[1])];
    let confirm = browser.submit(&page, "/jobs/act", &fields).await;
    confirm.assert_shows("<h1>Delete 2 jobs?</h1>");
    assert_eq!(counts(&site).await, (0, 3, 0), "nothing yet");
    let mut fields: Vec<_> =
        vec![("place", "scheduled"), ("action", "discard"), ("confirmed", "1")];
    let sent = confirm.keys();
    fields.extend(sent.iter().map(|key| ("key", key.as_str())));
    let response = browser.submit(&confirm, "/jobs/act", &fields).await;
    assert_eq!(counts(&site).await, (0, 1, 0));
    browser.get(response.header("location")).await.assert_shows("2 jobs were deleted.");
}

#[tokio::test]
async fn an_action_on_all_matches_is_counted_confirmed_and_exact() {
    let site = Site::open();
    site.push((0..120).map(|n| later(&format!("match-{n:03}"), "Mail"))).await;
    site.push((0..7).map(|n| later(&format!("other-{n:03}"), "Report"))).await;
    let mut browser = site.browser();
    let list = browser.get("/scheduled?jobtype=Mail").await;
    let address = list.values("href=\"/jobs/confirm?").into_iter().find(|it| it.contains("kill"));
    let confirm = browser.get(&format!("/jobs/confirm?{}", address.expect("a link"))).await;
    confirm.assert_shows("<h1>Move 120 jobs to the dead set?</h1>");
    let fields =
        [("place", "scheduled"), ("action", "kill"), ("jobtype", "Mail"), ("scope", "all")];
    let refused = browser.submit(&confirm, "/jobs/act", &fields).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "not without its confirmation");
    assert_eq!(counts(&site).await, (0, 127, 0));
    let fields = [&fields[..], &[("confirmed", "1")]].concat();
    let response = browser.submit(&confirm, "/jobs/act", &fields).await;
    assert_eq!(counts(&site).await, (0, 7, 120));
    assert!(response.header("location").starts_with("/scheduled?jobtype=Mail&done=kill&count=120"));
}

#[tokio::test]
async fn a_long_action_continues_in_the_background() {
    let site = Site::with(|settings| {
        settings.limits.action_wait = std::time::Duration::ZERO;
    });
    site.push((0..2_000).map(|n| later(&format!("long-{n:05}"), "Mail"))).await;
    let mut browser = site.browser();
    let confirm = browser.get("/jobs/confirm?place=scheduled&action=kill&search=long").await;
    let fields = [
        ("place", "scheduled"),
        ("action", "kill"),
        ("search", "long"),
        ("scope", "all"),
        ("confirmed", "1"),
    ];
    let response = browser.submit(&confirm, "/jobs/act", &fields).await;
    browser.get(response.header("location")).await.assert_shows("continues in the background");
    let dead = eventually(async || (counts(&site).await.2 == 2_000).then_some(())).await;
    assert_eq!(dead, ());
    let tasks = eventually(async || {
        let tasks = browser.get("/tasks").await;
        tasks.text.contains(">done<").then_some(tasks)
    });
    let tasks = tasks.await;
    tasks.assert_shows("<h2>1: kill <span class=\"tag \">done</span></h2>");
    tasks.assert_shows("that contain long");
    tasks.assert_shows("<span>Changed</span> 2,000");
    let unknown = browser.submit(&tasks, "/tasks/act", &[("id", "9"), ("action", "stop")]).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let done = browser.submit(&tasks, "/tasks/act", &[("id", "1"), ("action", "resume")]).await;
    assert_eq!(done.status, StatusCode::CONFLICT, "it is done");
}

#[tokio::test]
async fn a_task_can_be_stopped_and_resumed() {
    const JOBS: u64 = 50_000;
    let site = Site::open();
    site.push((0..JOBS).map(|n| later(&format!("task-{n:05}"), "Mail"))).await;
    let mut browser = site.browser();
    browser.get("/tasks").await.assert_shows("No tasks.");
    let query = StepQuery {
        place: "scheduled".to_owned(),
        search: None,
        jobtype: None,
        action: StepAction::Kill,
        cursor: None,
    };
    site.handle().start_task(TaskRequest { query, by: None }).await.expect("a task");
    let page = browser.get("/tasks").await;
    page.assert_shows("<progress max=\"50000\"");
    let stop = browser.submit(&page, "/tasks/act", &[("id", "1"), ("action", "stop")]).await;
    let page = browser.get(stop.header("location")).await;
    page.assert_shows("Task 1 is stopped. It can be resumed.");
    let (_, left, dead) = counts(&site).await;
    assert!(left > 0 && left + dead == JOBS, "{left} {dead}");
    browser.submit(&page, "/tasks/act", &[("id", "1"), ("action", "resume")]).await;
    let dead = eventually(async || (counts(&site).await.2 == JOBS).then_some(())).await;
    assert_eq!(dead, ());
}

#[tokio::test]
async fn an_action_without_a_selection_does_nothing() {
    let site = Site::open();
    site.push([later("untouched-1", "Mail")]).await;
    let mut browser = site.browser();
    let page = browser.get("/scheduled").await;
    let fields = [("place", "scheduled"), ("action", "discard")];
    let response = browser.submit(&page, "/jobs/act", &fields).await;
    browser.get(response.header("location")).await.assert_shows("No jobs were selected");
    assert_eq!(counts(&site).await, (0, 1, 0));
}

#[tokio::test]
async fn one_job_can_be_acted_on_from_its_page() {
    let site = Site::open();
    site.push([later("single-0001", "Mail")]).await;
    let mut browser = site.browser();
    let page = browser.get("/job?jid=single-0001").await;
    let key = page.keys().remove(0);
    let fields = [("place", "scheduled"), ("action", "requeue"), ("key", key.as_str())];
    browser.submit(&page, "/jobs/act", &fields).await;
    browser.get("/job?jid=single-0001").await.assert_shows("is waiting in its queue");
}

#[tokio::test]
async fn a_queue_can_be_paused_resumed_and_cleared() {
    let site = Site::open();
    site.push((0..5).map(|n| job(&format!("clear-{n:04}"), "Work", "bulk"))).await;
    let mut browser = site.browser();
    let page = browser.get("/queues").await;
    for (action, paused) in [("pause", true), ("resume", false)] {
        let response =
            browser.submit(&page, "/queues/act", &[("name", "bulk"), ("action", action)]).await;
        assert_eq!(response.status, StatusCode::SEE_OTHER);
        assert_eq!(site.handle().queues().await.unwrap()[0].paused, paused);
    }
    let confirm = browser.get("/queues/confirm?name=bulk").await;
    confirm.assert_shows("<strong>5 jobs</strong>");
    let fields = [("name", "bulk"), ("action", "clear")];
    let response = browser.submit(&confirm, "/queues/act", &fields).await;
    assert_eq!(counts(&site).await.0, 0);
    browser
        .get(response.header("location"))
        .await
        .assert_shows("Queue bulk is cleared: 5 jobs deleted.");
}

#[tokio::test]
async fn one_or_all_workers_can_be_signalled() {
    let site = Site::open();
    let (mut one, mut two) = (site.faktory("worker-one"), site.faktory("worker-two"));
    for (worker, wid) in [(&mut one, "worker-one"), (&mut two, "worker-two")] {
        assert_eq!(worker.ask(&format!("BEAT {{\"wid\":\"{wid}\"}}")), "+OK");
    }
    let mut browser = site.browser();
    let page = browser.get("/workers").await;
    page.assert_shows("2 workers");
    let fields = [("wid", "worker-one"), ("signal", "quiet")];
    browser.submit(&page, "/workers/act", &fields).await;
    let quiet = r#"{"state":"quiet"}"#;
    assert_eq!(one.ask(r#"BEAT {"wid":"worker-one"}"#), quiet);
    assert_eq!(two.ask(r#"BEAT {"wid":"worker-two"}"#), "+OK");
    let confirm = browser.get("/workers/confirm").await;
    confirm.assert_shows("<strong>2 workers</strong>");
    let response =
        browser.submit(&confirm, "/workers/act", &[("all", "1"), ("signal", "terminate")]).await;
    browser.get(response.header("location")).await.assert_shows("2 workers were told to stop.");
    let stopped = eventually(async || Some(two.ask(r#"BEAT {"wid":"worker-two"}"#))).await;
    assert_eq!(stopped, r#"{"state":"terminate"}"#);
    let both = browser.submit(&confirm, "/workers/act", &[("signal", "quiet")]).await;
    assert_eq!(both.status, StatusCode::BAD_REQUEST, "one or all, never all by omission");
}

/// The store in memory has no damage: the way there and the button's are what is tried here.
#[tokio::test]
async fn damage_is_listed_and_acknowledged() {
    let site = Site::open();
    let mut browser = site.browser();
    let page = browser.get("/damage").await;
    page.assert_shows("There is no unacknowledged damage.");
    let response = browser.submit(&page, "/damage/acknowledge", &[]).await;
    assert_eq!((response.status, response.header("location")), (StatusCode::SEE_OTHER, "/damage"));
}
