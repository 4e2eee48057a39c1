//! Jobs that die while Redis loses replies.

use weir_jobs::model::JobLocation;
use weir_jobs::store::{Action, FailOutcome, Selection, Store as _};

use super::cutting_proxy::CuttingProxy;
use super::rig::{Node, queue_name, report, run};
use crate::shared_redis::socket;

/// In the command that forgets the kills of a job, which follows its death.
const FORGET: &str = "HDEL\r\n$10\r\nweir:kills";

/// The job is dead then, whatever becomes of what follows.
#[test]
fn a_job_is_dead_also_if_its_kills_can_not_be_forgotten() {
    run(async |redis| {
        let proxy = CuttingProxy::start(socket(&redis));
        let node = Node::open(&proxy.endpoint(&redis));
        node.push(r#"{"jid":"job-00001","jobtype":"T","args":[],"queue":"q","retry":-1}"#)
            .await
            .unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        proxy.cut_after(FORGET);
        assert_eq!(node.store.fail(report("job-00001")).await, Ok(FailOutcome::Dead));
        node.until(async || {
            let counts = node.store.counts().await;
            (counts.dead, counts.processed_total, counts.failed_total) == (1, 1, 1)
        })
        .await;
        let total = node.metrics.types().read_one("T", 60).unwrap().figures.total;
        assert_eq!((total.failed, total.returned), (1, 0));
    });
}

#[test]
fn killed_jobs_are_counted_also_if_their_kills_can_not_be_forgotten() {
    run(async |redis| {
        let proxy = CuttingProxy::start(socket(&redis));
        let node = Node::open(&proxy.endpoint(&redis));
        for jid in ["job-00001", "job-00002"] {
            let job = format!(r#"{{"jid":"{jid}","jobtype":"T","args":[],"queue":"q"}}"#);
            node.push(&job).await.unwrap();
        }
        proxy.cut_after(FORGET);
        let queue = JobLocation::Queue(queue_name("q"));
        assert_eq!(node.store.act(&queue, &Selection::All, Action::Kill).await, Ok(2));
        node.until(async || node.store.counts().await.dead == 2).await;
    });
}
