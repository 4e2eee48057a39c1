//! The primary loses its power and Sentinel promotes its replica, which was stopped shortly before. What the
//! primary has sent by then is in the socket of the replica, and is not lost.

use std::path::Path;
use std::time::Duration;

use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::ConfirmSettings;

use super::load::{Account, Load};
use super::server::{MortalSentinel, MortalServer};
use super::{Tally, is_long_run, node, repeat, run_a_while, stored, system_redis};
use crate::redis_server::with_waitaof;

const EVERYSEC: &str = "everysec";
const TRIAL_TIME_MAX: Duration = Duration::from_secs(120);

/// What happens after the primary's power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aftermath {
    /// Sentinel promotes the replica; the primary comes back as its replica.
    Failover,
    /// The replica has lost its power, too, and the disk of the primary is gone.
    ReplicaAlone,
    /// The same, with `appendfsync always`.
    ReplicaThatSyncsAlways,
}

fn pair(binary: &Path, fsync: &str) -> Option<(MortalServer, MortalServer)> {
    let primary = MortalServer::start(binary, &["--appendfsync", fsync])?;
    let mut replica = MortalServer::start(binary, &["--appendfsync", fsync])?;
    replica.follow(&primary);
    Some((primary, replica))
}

async fn fail_over(
    binary: &Path,
    confirm: &ConfirmSettings,
    aftermath: Aftermath,
) -> Option<(Account, Duration)> {
    let fsync = match aftermath {
        Aftermath::Failover | Aftermath::ReplicaAlone => EVERYSEC,
        Aftermath::ReplicaThatSyncsAlways => "always",
    };
    let (mut primary, mut replica) = pair(binary, fsync)?;
    let sentinel = MortalSentinel::start(binary, &primary);
    let url = format!("redis+sentinel://127.0.0.1:{}/mymaster", sentinel.port);
    let load = Load::start(node(&RedisEndpoint::parse(&url).unwrap(), confirm));
    load.acknowledge_more(50).await;
    run_a_while().await;
    replica.signal("-STOP");
    tokio::time::sleep(Duration::from_millis(fastrand::u64(20..250))).await;
    primary.cut_power();
    let began = tokio::time::Instant::now();
    if aftermath != Aftermath::Failover {
        drop(sentinel);
        replica.cut_power();
        replica.run();
        let stopped = load.stop().await;
        let there = node(&super::endpoint(replica.port), &ConfirmSettings::default());
        return Some((stopped.drain(there, || stored(&replica)).await, began.elapsed()));
    }
    replica.signal("-CONT");
    // A primary that comes back while Sentinel still waits for the promotion may remain the primary.
    while sentinel.primary_port() != replica.port || !replica.info().contains("role:master") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    primary.run();
    primary.follow(&replica);
    load.acknowledge_more(50).await;
    let recovery = began.elapsed();
    Some((load.finish(|| stored(&replica)).await, recovery))
}

fn fail_over_often(
    kind: &str,
    binary: &Path,
    confirm: &ConfirmSettings,
    aftermath: Aftermath,
) -> Option<Tally> {
    if !is_long_run() {
        eprintln!("skipped: {kind}: a failover may take minutes; WEIR_POWER_CUTS=5 runs it");
        return None;
    }
    repeat(kind, TRIAL_TIME_MAX, async |_| fail_over(binary, confirm, aftermath).await)
}

#[test]
fn an_asynchronous_failover_is_counted() {
    let Some(redis) = system_redis() else { return };
    let none = ConfirmSettings::default();
    fail_over_often("failover, no confirmation", &redis, &none, Aftermath::Failover);
}

#[test]
fn a_failover_to_the_replica_that_confirmed_loses_nothing() {
    let Some(redis) = system_redis() else { return };
    let confirm = ConfirmSettings { replicas: 1, ..ConfirmSettings::default() };
    let kind = "failover, confirm 1 replica (WAIT)";
    let tally = fail_over_often(kind, &redis, &confirm, Aftermath::Failover);
    assert_eq!(tally.map_or(0, |tally| tally.lost), 0);
}

const BOTH: ConfirmSettings = ConfirmSettings {
    disk: true,
    replicas: 1,
    timeout: Duration::from_secs(5),
    connections: 2,
    group_jobs_max: 1_000,
};

#[test]
fn a_failover_to_the_replica_whose_disk_confirmed_loses_nothing() {
    let Some(valkey) = with_waitaof() else { return };
    let kind = "failover, confirm disk and 1 replica (WAITAOF)";
    let tally = fail_over_often(kind, &valkey, &BOTH, Aftermath::Failover);
    assert_eq!(tally.map_or(0, |tally| tally.lost), 0);
}

/// Valkey 8 with `everysec` confirms the disk up to a second before its sync, so this counts and does
/// not promise.
#[test]
fn the_disk_of_the_replica_alone_is_counted() {
    let Some(valkey) = with_waitaof() else { return };
    let kind = "both without power, the primary's disk gone, confirm disk and 1 replica";
    fail_over_often(kind, &valkey, &BOTH, Aftermath::ReplicaAlone);
}

#[test]
fn the_disk_of_a_replica_that_syncs_always_has_what_was_confirmed() {
    let Some(valkey) = with_waitaof() else { return };
    let kind = "both without power, the primary's disk gone, appendfsync always, the same";
    let tally = fail_over_often(kind, &valkey, &BOTH, Aftermath::ReplicaThatSyncsAlways);
    assert_eq!(tally.map_or(0, |tally| tally.lost), 0);
}
