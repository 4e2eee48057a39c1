//! FETCHes that wait.

use std::time::Duration;

use redis::Commands as _;
use weir_jobs::settings::JobServerLimits;

use super::rig::{Node, run};
use crate::shared_redis::client;

#[test]
fn a_job_that_sidekiq_pushes_is_found_while_a_fetch_waits() {
    run(async |redis| {
        // No other task looks for jobs in this time.
        let node = Node::open_with(&redis, JobServerLimits::default(), |settings| {
            settings.schedule_interval = Duration::from_secs(60);
            settings.lease = Duration::from_secs(3_600);
        });
        // The serving task is idle before the FETCH begins to wait.
        assert_eq!(node.fetch_now("q").await, None);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let push = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let job = r#"{"class":"A","args":[],"queue":"q","jid":"job-00001"}"#;
            let _: u64 = client(&redis).lpush("queue:q", job).unwrap();
        };
        let (fetched, ()) = tokio::join!(node.fetch("w1", "q", Duration::from_secs(20)), push);
        assert_eq!(&*fetched.expect("a job").jid, "job-00001");
    });
}
