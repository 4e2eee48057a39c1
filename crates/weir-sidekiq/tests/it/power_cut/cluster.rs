//! A master of a Redis Cluster is killed under load and its replica, which was stopped shortly before, takes
//! over. What the master has sent by then is in the socket of the replica, and is not lost.

use std::time::Duration;

use weir_sidekiq::store::ConfirmSettings;

use super::load::{Account, BACKLOG, Load, SERVED};
use super::{Tally, is_long_run, node, repeat, run_a_while};
use crate::redis_cluster::RedisCluster;

/// A replica takes over within seconds. On a busy machine, much later.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(240);

/// Jobs in the cluster that no worker has ended.
fn stored(cluster: &RedisCluster) -> u64 {
    let of_queue = |queue: &str| {
        let (list, reserved) =
            (format!("queue:{queue}"), format!("weir:{{queue:{queue}}}:reserved"));
        let waiting: u64 = cluster.query(&list, &["LLEN", &list]);
        waiting + cluster.query::<u64>(&reserved, &["HLEN", &reserved])
    };
    of_queue(SERVED) + of_queue(BACKLOG)
}

/// What the replica lacks when its master is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplicaGap {
    /// Nothing: it reads what was sent to it once it runs again.
    None,
    /// What was acknowledged after the connection between the two was cut.
    LastMoments,
}

async fn take_over(queue: &str, gap: ReplicaGap) -> Option<(Account, Duration)> {
    let mut cluster = RedisCluster::start_with_replicas()?;
    let load = Load::start(node(&cluster.endpoint(), &ConfirmSettings::default()));
    load.acknowledge_more(50).await;
    run_a_while().await;
    let killed = cluster.owner_of(&format!("queue:{queue}"));
    let replicated = load.account.borrow().acknowledged.clone();
    cluster.wait_until_replicated();
    cluster.replicas[killed].signal("STOP");
    if gap == ReplicaGap::LastMoments {
        cluster.masters[killed].run(&[&["CLIENT", "KILL", "TYPE", "replica"]]);
    }
    tokio::time::sleep(Duration::from_millis(fastrand::u64(20..250))).await;
    cluster.masters[killed].kill();
    let began = tokio::time::Instant::now();
    cluster.replicas[killed].signal("CONT");
    // Each producer pushes to both queues in turn.
    load.acknowledge_more(50).await;
    let recovery = began.elapsed();
    let account = load.finish(|| stored(&cluster)).await;
    let lost: Vec<&String> = account.lost();
    assert!(!lost.iter().any(|jid| replicated.contains(*jid)), "the replica had them: {lost:?}");
    Some((account, recovery))
}

fn take_over_often(kind: &str, gap: ReplicaGap) -> Option<Tally> {
    repeat(kind, TRIAL_TIME_MAX, async |cut| {
        let queue = if cut % 2 == 0 { SERVED } else { BACKLOG };
        take_over(queue, gap).await
    })
}

#[test]
fn a_replica_of_a_cluster_that_takes_over_is_counted() {
    take_over_often("a replica of a cluster takes over", ReplicaGap::None);
}

#[test]
fn a_replica_of_a_cluster_that_was_cut_off_lacks_only_the_last_moments() {
    let kind = "a replica of a cluster that was cut off takes over";
    if !is_long_run() {
        eprintln!("skipped: {kind}: it takes a minute; WEIR_POWER_CUTS=5 runs it");
        return;
    }
    take_over_often(kind, ReplicaGap::LastMoments);
}
