//! Power cuts of Redis under load: what was acknowledged and never ran.
//!
//! `WEIR_POWER_CUTS` sets the number of cuts of each kind. Each job that is lost must be in the part of the
//! append-only file that was cut off: nothing else may lose one.

mod cluster;
mod failover;
mod load;
mod server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::ConfirmSettings;

use self::load::{Account, BACKLOG, Load, SERVED};
use self::server::MortalServer;
use crate::redis_server::with_waitaof;
use crate::store::rig::{Node, run_for};

/// Enough to see that the trial works.
const CUTS: u64 = 2;
const TRIAL_TIME_MAX: Duration = Duration::from_secs(60);
/// Longer than a failover: the node keeps its reservations.
const LEASE: Duration = Duration::from_secs(30);

fn cuts() -> u64 {
    std::env::var_os("WEIR_POWER_CUTS")
        .map_or(CUTS, |cuts| cuts.to_string_lossy().parse().expect("WEIR_POWER_CUTS is a number"))
}

/// Whether the trials run as `make long` runs them.
fn is_long_run() -> bool {
    std::env::var_os("WEIR_POWER_CUTS").is_some()
}

/// Sums over all trials of one kind.
#[derive(Debug, Default)]
struct Tally {
    cuts: u64,
    acknowledged: usize,
    lost: usize,
    cuts_with_loss: u64,
    lost_max: usize,
    uncertain: u64,
    stored_twice: usize,
    recovery_max: Duration,
}

impl Tally {
    fn add(&mut self, account: &Account, recovery: Duration) {
        let lost = account.lost().len();
        self.cuts += 1;
        self.acknowledged += account.acknowledged.len();
        self.lost += lost;
        self.lost_max = self.lost_max.max(lost);
        self.cuts_with_loss += u64::from(lost > 0);
        self.uncertain += account.uncertain;
        self.stored_twice += account.stored_twice();
        self.recovery_max = self.recovery_max.max(recovery);
    }

    fn print(&self, kind: &str) {
        let Self { cuts, acknowledged, lost, cuts_with_loss, lost_max, .. } = self;
        let Self { uncertain, stored_twice, recovery_max, .. } = self;
        eprintln!(
            "power cut, {kind}: {cuts} cuts, {acknowledged} acknowledged, {lost} lost (in \
             {cuts_with_loss} cuts, at most {lost_max}), {uncertain} pushes repeated, {stored_twice} \
             stored twice, back within {recovery_max:.1?}"
        );
    }
}

fn node(endpoint: &RedisEndpoint, confirm: &ConfirmSettings) -> Node {
    Node::open_with(endpoint, weir_jobs::settings::JobServerLimits::default(), |settings| {
        settings.push_memory = Some(Duration::from_secs(60));
        settings.lease = LEASE;
        settings.confirm = confirm.clone();
        // So that a trial does not wait for the next attempt.
        settings.retry_wait_max = Duration::from_millis(100);
        settings.command_timeout = Duration::from_secs(1);
        settings.connect_timeout = Duration::from_secs(1);
    })
}

fn endpoint(port: u16) -> RedisEndpoint {
    RedisEndpoint::parse(&format!("redis://127.0.0.1:{port}")).unwrap()
}

/// Jobs in Redis that no worker has ended.
fn stored(server: &MortalServer) -> u64 {
    let mut client = server.client();
    let mut pipeline = redis::pipe();
    for queue in [SERVED, BACKLOG] {
        pipeline.cmd("LLEN").arg(format!("queue:{queue}"));
        pipeline.cmd("HLEN").arg(format!("weir:{{queue:{queue}}}:reserved"));
    }
    pipeline.query::<Vec<u64>>(&mut client).unwrap().iter().sum()
}

async fn run_a_while() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(300..1_600))).await;
}

/// Asserts that each lost job was in the part of the file that was cut off.
fn assert_cut_off(account: &Account, cut_off: &[u8]) {
    let cut_off = String::from_utf8_lossy(cut_off);
    for jid in account.lost() {
        assert!(cut_off.contains(&format!(r#""jid":"{jid}""#)), "{jid} was lost elsewhere");
    }
}

/// Cuts the power of one Redis and starts it again. Returns the account, and the time until pushes
/// were acknowledged again.
async fn cut_once(
    binary: &Path,
    fsync: &str,
    confirm: &ConfirmSettings,
) -> Option<(Account, Duration)> {
    let mut redis = MortalServer::start(binary, &["--appendfsync", fsync])?;
    let load = Load::start(node(&endpoint(redis.port), confirm));
    load.acknowledge_more(50).await;
    run_a_while().await;
    let cut_off = redis.cut_power();
    let began = tokio::time::Instant::now();
    redis.run();
    load.acknowledge_more(50).await;
    let recovery = began.elapsed();
    let account = load.finish(|| stored(&redis)).await;
    assert_cut_off(&account, &cut_off);
    Some((account, recovery))
}

fn cut_often(kind: &str, binary: &Path, fsync: &str, confirm: &ConfirmSettings) -> Option<Tally> {
    repeat(kind, TRIAL_TIME_MAX, async |_| cut_once(binary, fsync, confirm).await)
}

/// Repeats a trial, which gets its number, and prints the sums. `None`: the trial cannot run here.
fn repeat(
    kind: &str,
    time_max: Duration,
    trial: impl AsyncFn(u64) -> Option<(Account, Duration)>,
) -> Option<Tally> {
    let mut tally = Tally::default();
    for cut in 0..cuts() {
        let mut outcome = None;
        run_for(time_max, async { outcome = trial(cut).await });
        let (account, recovery) = outcome?;
        tally.add(&account, recovery);
    }
    tally.print(kind);
    assert_eq!(tally.stored_twice, 0);
    Some(tally)
}

fn system_redis() -> Option<PathBuf> {
    let binary = PathBuf::from("redis-server");
    let version = std::process::Command::new(&binary).arg("--version").output();
    let is_there = version.is_ok_and(|it| it.status.success());
    if !is_there {
        eprintln!("skipped: there is no redis-server");
    }
    is_there.then_some(binary)
}

#[test]
fn every_second_loses_what_was_not_synced_and_nothing_else() {
    let Some(redis) = system_redis() else { return };
    cut_often("appendfsync everysec", &redis, "everysec", &ConfirmSettings::default());
}

#[test]
fn always_loses_nothing() {
    let Some(redis) = system_redis() else { return };
    let tally = cut_often("appendfsync always", &redis, "always", &ConfirmSettings::default());
    assert_eq!(tally.map_or(0, |tally| tally.lost), 0);
}

/// Valkey 8.0.1 without a replica answers `WAITAOF 1 0` before its sync, so this counts and does not
/// promise.
#[test]
fn a_disk_that_confirms_alone_is_counted() {
    let Some(valkey) = with_waitaof() else { return };
    let confirm = ConfirmSettings { disk: true, ..ConfirmSettings::default() };
    cut_often("appendfsync everysec, confirm disk, no replica", &valkey, "everysec", &confirm);
}
