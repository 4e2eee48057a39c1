//! The audit log on a real disk.

use std::sync::Arc;

use super::*;
use crate::{Role, Via};

fn caller(user: &str) -> Caller {
    let address = "192.0.2.1".parse().ok();
    Caller { user: Arc::from(user), role: Role::Operator, via: Via::Api, address }
}

fn change(action: &str) -> Change {
    let target = "name=default".to_owned();
    Change { action: action.to_owned(), target, role: Role::Operator, is_recorded: true }
}

fn open(folder: &Path) -> (AuditLog, AuditMetrics) {
    let metrics = AuditMetrics::default();
    let clock = Clock::manual(Clock::system().now());
    (AuditLog::open(folder, 1 << 20, clock, metrics.clone()).unwrap(), metrics)
}

fn actions(log: &AuditLog, query: &AuditQuery) -> Vec<String> {
    log.read(query).unwrap().entries.into_iter().map(|entry| entry.action).collect()
}

async fn record(log: &AuditLog, user: &str, change: Change, status: StatusCode) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    log.begin(caller(user), change).end(&response).await;
}

fn exposition(metrics: &AuditMetrics) -> String {
    let (mut registry, mut text) =
        (prometheus_client::registry::Registry::default(), String::new());
    metrics.register(&mut registry);
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

#[tokio::test]
async fn entries_are_listed_from_the_newest_and_survive() {
    let folder = tempfile::tempdir().unwrap();
    let (log, metrics) = open(folder.path());
    for number in 0..5 {
        record(&log, "ann", change(&format!("queue {number}")), StatusCode::OK).await;
    }
    record(&log, "ben", change("restart"), StatusCode::FORBIDDEN).await;
    // Nothing is flushed at the end: what a killed process had is what is on the disk.
    let (log, _) = open(folder.path());
    let page = log.read(&AuditQuery { limit: Some(2), ..AuditQuery::default() }).unwrap();
    let newest = &page.entries[0];
    assert_eq!((newest.user.as_str(), newest.outcome), ("ben", ChangeOutcome::Forbidden));
    assert_eq!(newest.address.as_deref(), Some("192.0.2.1"));
    let ids: Vec<u64> =
        log.read(&AuditQuery::default()).unwrap().entries.iter().map(|it| it.id).collect();
    assert!(
        ids.is_sorted_by(|one, other| one > other),
        "unique, although the clock stands: {ids:?}"
    );
    let next = AuditQuery { before: page.next, limit: Some(2), ..AuditQuery::default() };
    assert_eq!(actions(&log, &next), ["queue 3", "queue 2"]);
    let of_ann = AuditQuery { user: Some("ann".to_owned()), ..AuditQuery::default() };
    assert_eq!(actions(&log, &of_ann).len(), 5);
    let restarts = AuditQuery { action: Some("rest".to_owned()), ..AuditQuery::default() };
    assert_eq!(actions(&log, &restarts), ["restart"]);
    let text = exposition(&metrics);
    assert!(text.contains("weir_audit_entries_total{outcome=\"done\"} 5"), "{text}");
    assert!(text.contains("weir_audit_write_failures_total 0"), "{text}");
}

#[tokio::test]
async fn what_cannot_be_written_is_listed_counted_and_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let (log, metrics) = open(&folder.path().join("audit"));
    std::fs::write(folder.path().join("audit"), "in the way").unwrap();
    record(&log, "ann", change("first"), StatusCode::OK).await;
    record(&log, "ann", change("second"), StatusCode::OK).await;
    let text = exposition(&metrics);
    assert!(text.contains("weir_audit_write_failures_total 2"), "{text}");
    assert!(text.contains("weir_audit_unwritten_entries 2"), "{text}");
    std::fs::remove_file(folder.path().join("audit")).unwrap();
    let page = log.read(&AuditQuery::default()).unwrap();
    assert_eq!((page.unwritten, page.entries.len()), (2, 2));
    assert!(page.problem.is_some());
    record(&log, "ann", change("third"), StatusCode::OK).await;
    let (again, _) = open(&folder.path().join("audit"));
    assert_eq!(actions(&again, &AuditQuery::default()), ["third", "second", "first"]);
    let page = log.read(&AuditQuery::default()).unwrap();
    assert_eq!((page.unwritten, page.problem, page.entries.len()), (0, None, 3));
}

#[tokio::test]
async fn a_change_that_is_not_worth_an_entry_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path());
    let theme = Change { is_recorded: false, ..change("") };
    record(&log, "ann", theme, StatusCode::OK).await;
    let asked = log.begin(caller("ann"), change("jobs discard"));
    let mut page = Response::new(());
    page.extensions_mut().insert(NotAChange);
    asked.end(&page).await;
    assert!(actions(&log, &AuditQuery::default()).is_empty());
}

#[tokio::test]
async fn a_change_whose_request_is_aborted_has_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path());
    drop(log.begin(caller("ann"), change("restart")));
    // The thread writes in order.
    record(&log, "ann", change("queue pause"), StatusCode::OK).await;
    let page = log.read(&AuditQuery::default()).unwrap();
    let outcomes: Vec<_> = page.entries.iter().map(|it| (it.outcome, it.status)).collect();
    assert_eq!(outcomes, [(ChangeOutcome::Done, Some(200)), (ChangeOutcome::Unknown, None)]);
}
