//! Upstreams that deny access to names that they list.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_base::shutdown::Drained;
use weir_gems::mirror::Scope;
use weir_gems::mirror::settings::MirrorSettings;

use super::hooks::until;
use super::order::ONE;
use super::scripted::{Reply, Scripted};
use super::silent::run;
use super::{Replica, Setup};

/// Lists names with one release each, and denies access to some of them.
fn list(upstream: &Scripted, names: &[String], is_denied: impl Fn(usize) -> bool) {
    let lines: Vec<_> = names.iter().map(|name| upstream.gem(name, &[("1.0", ONE)])).collect();
    upstream.versions(&lines);
    for (_, name) in names.iter().enumerate().filter(|(place, _)| is_denied(*place)) {
        let denied = Reply::Raw(b"HTTP/1.1 403 Not For You\r\n\r\n".to_vec());
        upstream.on(&format!("/info/{name}"), denied);
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("g{number:03}")).collect()
}

/// Returns a mirror with limits so small that 20 names are as many as 5,000 are by default.
fn setup(upstream: &Scripted) -> Setup {
    Setup::new(&[("one", &upstream.url())]).change(|it| it.limits.batch_gems = 2)
}

fn infos(upstream: &Scripted) -> usize {
    upstream.asked().iter().filter(|path| path.starts_with("/info/")).count()
}

async fn is_here(replica: &Replica, name: &str) -> bool {
    replica.listed(name).await == ["1.0"]
}

#[tokio::test]
async fn a_look_goes_on_behind_however_many_are_denied_if_some_come() {
    let upstream = Scripted::start();
    let names = names(100);
    list(&upstream, &names, |place| place != 3 && place != 99);
    let replica = setup(&upstream).start().await;
    let looked = replica.sync().await;
    let work = looked.work;
    assert_eq!((work.applied.gems, work.denied, work.failed), (2, 98, 0));
    assert!(!looked.is_complete());
    assert!(is_here(&replica, "g003").await && is_here(&replica, "g099").await);
    let state = replica.state().await.upstreams.remove(0);
    // In the order of the responses.
    assert_eq!(state.denied_names.len(), 5);
    assert!(!state.denied_names.contains(&"g003".to_owned()), "{:?}", state.denied_names);
    assert_eq!((state.counts.pending, state.last_success, state.last_error), (98, None, None));
    assert!(state.last_miss.is_some_and(|miss| miss.contains("the answer was 403")));
}

#[tokio::test]
async fn what_was_denied_is_not_asked_for_with_each_look_but_with_one_that_is_asked_for() {
    let upstream = Scripted::start();
    let names = names(6);
    list(&upstream, &names, |place| place > 0);
    let setup = setup(&upstream).change(|it| it.interval = Duration::from_millis(1));
    let replica = setup.start().await;
    let shutdown = run(&replica);
    let looks = || upstream.asked().iter().filter(|path| *path == "/versions").count();
    until(|| async { looks() > 20 }).await;
    assert_eq!(infos(&upstream), 6, "each once");
    let state = replica.state().await.upstreams.remove(0);
    assert_eq!(state.last_result.map(|looked| looked.work.denied), Some(5));
    assert_eq!(state.denied_names.len(), 5);
    // Changed names are requested, others are not.
    upstream.forget();
    let mut lines: Vec<_> = names.iter().map(|name| upstream.gem(name, &[("1.0", ONE)])).collect();
    list(&upstream, &names, |place| place > 0);
    lines[4] = upstream.gem("g004", &[("1.0", ONE), ("2.0", ONE)]);
    upstream.versions(&lines);
    until(|| async { replica.listed("g004").await == ["1.0", "2.0"] }).await;
    let asked: BTreeSet<_> = upstream.asked().into_iter().collect();
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), ["/info/g004", "/versions"]);
    // An operator who was granted access requests a synchronization.
    for name in &names {
        upstream.gem(name, &[("1.0", ONE)]);
    }
    upstream.gem("g004", &[("1.0", ONE), ("2.0", ONE)]);
    replica.mirror.request_synchronization(Scope::Changes);
    until(|| async { replica.state().await.upstreams[0].last_success.is_some() }).await;
    for name in names.iter().filter(|name| *name != "g004") {
        assert!(is_here(&replica, name).await, "{name}");
    }
    let state = replica.state().await.upstreams.remove(0);
    assert_eq!((state.denied_names.len(), state.last_miss), (0, None));
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}

#[tokio::test]
async fn it_is_asked_for_again_when_everything_is_compared_again() {
    let upstream = Scripted::start();
    list(&upstream, &names(2), |place| place == 1);
    let setup = setup(&upstream).change(|it| it.interval = Duration::from_millis(1));
    let replica = setup.start().await;
    let shutdown = run(&replica);
    until(|| async { replica.state().await.upstreams[0].denied_names == ["g001"] }).await;
    upstream.gem("g001", &[("1.0", ONE)]);
    replica.index.clock.advance(MirrorSettings::new(Vec::new()).reconcile_interval);
    until(|| async { is_here(&replica, "g001").await }).await;
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}

#[tokio::test]
async fn looks_at_an_upstream_that_denies_nearly_everything_come_to_what_it_gives_out() {
    let upstream = Scripted::start();
    let names = names(100);
    // So many are denied in front that one look does not come behind them.
    list(&upstream, &names, |place| place != 90);
    let setup = setup(&upstream).change(|it| it.interval = Duration::from_millis(1));
    let replica = setup.start().await;
    let shutdown = run(&replica);
    until(|| async { is_here(&replica, "g090").await }).await;
    until(|| async { infos(&upstream) == 100 }).await;
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}
