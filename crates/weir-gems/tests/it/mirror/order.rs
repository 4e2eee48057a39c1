//! Precedence of several upstreams.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use tokio::task::JoinSet;
use weir_gems::mirror::Scope;
use weir_gems::mirror::policy::Policy;
use weir_gems::mirror::progress::Progress;
use weir_gems::package::sample::Sample;
use weir_gems::store::mirror::Refusal;

use super::hooks::until;
use super::origin::Origin;
use super::scripted::{Reply, Scripted};
use super::{Replica, Setup};

pub(super) const ONE: [u8; 32] = [1; 32];
pub(super) const TWO: [u8; 32] = [2; 32];

pub(super) fn versions(upstream: &Scripted, gems: &[(&str, &str)], sum: [u8; 32]) {
    let lines: Vec<_> =
        gems.iter().map(|(name, version)| upstream.gem(name, &[(version, sum)])).collect();
    upstream.versions(&lines);
}

pub(super) async fn two(first: &Scripted, second: &Scripted) -> Replica {
    Setup::new(&[("first", &first.url()), ("second", &second.url())]).start().await
}

#[tokio::test]
async fn a_name_comes_whole_from_the_first_that_has_it() {
    let (first, second) = (Scripted::start(), Scripted::start());
    versions(&first, &[("both", "1.0"), ("one", "1.0")], ONE);
    versions(&second, &[("both", "99.0"), ("two", "1.0")], TWO);
    let replica = two(&first, &second).await;
    for looked in replica.try_sync().await {
        assert!(looked.unwrap().is_complete());
    }
    assert_eq!(replica.listed("both").await, ["1.0"]);
    assert_eq!(replica.listed("one").await, ["1.0"]);
    assert_eq!(replica.listed("two").await, ["1.0"]);
    let state = replica.state().await;
    assert_eq!(state.upstreams[1].refused, [("both".to_owned(), Refusal::Shadowed)]);
    // The name stays with it when the first upstream no longer lists it.
    versions(&first, &[("one", "1.0")], ONE);
    replica.compare().await;
    replica.try_sync().await;
    assert_eq!(replica.listed("both").await, Vec::<String>::new());
    // The name moves when the first upstream begins to list it.
    versions(&first, &[("one", "1.0"), ("two", "3.0")], ONE);
    replica.try_sync().await;
    assert_eq!(replica.listed("two").await, ["3.0"]);
    versions(&second, &[("both", "99.0"), ("two", "99.0")], TWO);
    replica.try_sync().await;
    assert_eq!(replica.listed("two").await, ["3.0"]);
    crate::store::assert_consistent(&**replica.store()).await;
}

#[tokio::test]
async fn new_names_of_a_later_upstream_wait_while_an_earlier_one_is_away() {
    let (first, second) = (Scripted::start(), Scripted::start());
    let away = |upstream: &Scripted| {
        upstream.on("/versions", Reply::Raw(b"HTTP/1.1 502 No\r\n\r\n".to_vec()));
    };
    away(&first);
    versions(&second, &[("shop", "99.0"), ("two", "1.0")], TWO);
    let replica = two(&first, &second).await;
    let looked = replica.try_sync().await;
    assert!(looked[0].is_err());
    let looked = looked[1].as_ref().unwrap();
    assert_eq!((looked.work.waiting, looked.is_complete()), (2, false));
    assert_eq!(replica.listed("shop").await, Vec::<String>::new());
    assert_eq!(replica.state().await.upstreams[1].counts.pending, 2);
    // Once it is available, the order decides.
    versions(&first, &[("shop", "1.0")], ONE);
    replica.try_sync().await;
    assert_eq!(replica.listed("shop").await, ["1.0"]);
    assert_eq!(replica.listed("two").await, ["1.0"]);
    // During the next outage what is known goes on, and what is new waits.
    away(&first);
    versions(&second, &[("shop", "99.1"), ("two", "2.0"), ("new", "1.0")], TWO);
    replica.try_sync().await;
    assert_eq!(replica.listed("shop").await, ["1.0"]);
    assert_eq!(replica.listed("two").await, ["2.0"]);
    assert_eq!(replica.listed("new").await, Vec::<String>::new());
    // An answer of long ago says nothing either.
    versions(&first, &[("shop", "1.0")], ONE);
    replica.try_sync().await;
    assert_eq!(replica.listed("new").await, ["1.0"]);
    replica.index.clock.advance(Duration::from_secs(3_600));
    versions(&second, &[("shop", "99.1"), ("two", "2.0"), ("new", "1.0"), ("newer", "1.0")], TWO);
    away(&first);
    replica.try_sync().await;
    assert_eq!(replica.listed("newer").await, Vec::<String>::new());
}

#[tokio::test]
async fn the_policy_ties_a_name_to_an_upstream() {
    let (first, second) = (Scripted::start(), Scripted::start());
    versions(&first, &[("pro", "99.0"), ("plain", "1.0")], ONE);
    versions(&second, &[("pro", "1.0"), ("plain", "2.0")], TWO);
    let setup = Setup::new(&[("first", &first.url()), ("second", &second.url())]);
    let replica = setup.policy("from second pro").start().await;
    replica.try_sync().await;
    assert_eq!(replica.listed("pro").await, ["1.0"]);
    assert_eq!(replica.listed("plain").await, ["1.0"]);
    let state = replica.state().await;
    assert_eq!(state.upstreams[0].refused, [("pro".to_owned(), Refusal::Bound)]);
    // Without the rule the order decides again.
    replica.mirror.set_policy(Policy::default()).await.unwrap();
    replica.try_sync().await;
    assert_eq!(replica.listed("pro").await, ["99.0"]);
    let wrong = replica.mirror.set_policy("from third x".parse().unwrap()).await;
    assert!(wrong.unwrap_err().to_string().contains("third"));
}

/// Checks that a release is not available.
async fn assert_gone(replica: &Replica, name: &str, version: &str) {
    assert_eq!(replica.listed(name).await, Vec::<String>::new());
    assert!(!replica.index.get(&format!("/info/{name}")).await.text().contains(version));
    assert_eq!(replica.file(&format!("{name}-{version}")).await.status, 404);
    crate::store::assert_consistent(&**replica.store()).await;
}

#[tokio::test]
async fn a_line_for_another_upstream_takes_away_what_came_from_the_first() {
    let (attacker, vendor) = (Origin::start().await, Origin::start().await);
    attacker.index.push_sample(&Sample::new("pro", "9.0")).await;
    vendor.index.push_sample(&Sample::new("other", "1.0")).await;
    let (first, second) = (attacker.url(), vendor.url());
    let setup = || Setup::new(&[("first", &first), ("second", &second)]);
    let replica = setup().start().await;
    replica.try_sync().await;
    // Its file was fetched, too.
    assert_eq!(replica.file("pro-9.0").await.status, 200);
    replica.mirror.set_policy("from second pro".parse().unwrap()).await.unwrap();
    assert_gone(&replica, "pro", "9.0").await;
    replica.try_sync().await;
    replica.compare().await;
    assert_gone(&replica, "pro", "9.0").await;
    // The conflict is reported.
    let refused = &replica.state().await.upstreams[0].refused;
    assert_eq!(*refused, [("pro".to_owned(), Refusal::Bound)]);
    vendor.index.push_sample(&Sample::new("pro", "1.0")).await;
    replica.try_sync().await;
    assert_eq!(replica.listed("pro").await, ["1.0"]);
    assert_eq!(replica.file("pro-1.0").await.status, 200);
    // A policy that was written while the mirror was stopped applies even before a synchronization.
    let Replica { index, .. } = replica;
    let replica = setup().policy("from first pro").start_on(index.opened_again());
    assert_eq!(replica.file("pro-1.0").await.status, 200, "it is not in force yet");
    replica.mirror.prepare().await.unwrap();
    assert_gone(&replica, "pro", "1.0").await;
    replica.try_sync().await;
    assert_eq!(replica.listed("pro").await, ["9.0"]);
}

#[tokio::test]
async fn a_file_that_is_not_here_yet_is_asked_of_nobody_but_whom_the_policy_names() {
    let (first, second) = (Scripted::start(), Scripted::start());
    versions(&first, &[("pro", "9.0")], ONE);
    versions(&second, &[], TWO);
    let replica = two(&first, &second).await;
    replica.try_sync().await;
    let Replica { index, .. } = replica;
    let setup = Setup::new(&[("first", &first.url()), ("second", &second.url())]);
    let replica = setup.policy("from second pro").start_on(index.opened_again());
    first.forget();
    // This holds before the first synchronization.
    assert_eq!(replica.file("pro-9.0").await.status, 404);
    assert_eq!(first.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn another_order_of_upstreams_counts_after_a_restart_and_is_told() {
    let (first, second) = (Scripted::start(), Scripted::start());
    versions(&first, &[("both", "1.0")], ONE);
    versions(&second, &[("both", "2.0")], TWO);
    let replica = two(&first, &second).await;
    replica.try_sync().await;
    assert_eq!(replica.listed("both").await, ["1.0"]);
    let Replica { index, .. } = replica;
    let setup = Setup::new(&[("second", &second.url()), ("first", &first.url())]);
    let replica = setup.start_on(index.opened_again());
    replica.try_sync().await;
    assert_eq!(replica.listed("both").await, ["2.0"]);
    let state = replica.state().await;
    assert_eq!(state.upstreams[1].refused, [("both".to_owned(), Refusal::Shadowed)]);
}

#[tokio::test]
async fn names_of_an_upstream_that_is_gone_stay_with_it_until_a_line_says_otherwise() {
    let (first, second) = (Scripted::start(), Scripted::start());
    versions(&first, &[("corp", "1.0")], ONE);
    versions(&second, &[("corp", "99.0"), ("rack", "1.0")], TWO);
    let replica = two(&first, &second).await;
    replica.try_sync().await;
    let Replica { index, .. } = replica;
    let replica = Setup::new(&[("second", &second.url())]).start_on(index.opened_again());
    replica.sync().await;
    replica.compare().await;
    assert_eq!(replica.listed("corp").await, ["1.0"]);
    let refused = replica.state().await.upstreams.remove(0).refused;
    assert_eq!(refused, [("corp".to_owned(), Refusal::Former)]);
    replica.mirror.set_policy("from second corp".parse().unwrap()).await.unwrap();
    replica.sync().await;
    assert_eq!(replica.listed("corp").await, ["99.0"]);
}

#[tokio::test]
async fn a_name_comes_back_to_the_first_when_that_is_first_again() {
    let (first, second) = (Scripted::start(), Scripted::start());
    versions(&first, &[("both", "1.0")], ONE);
    versions(&second, &[("both", "9.0")], TWO);
    let mut replica = two(&first, &second).await;
    replica.try_sync().await;
    let (one, two) = (first.url(), second.url());
    let (one, two) = (("first", one.as_str()), ("second", two.as_str()));
    for (order, expected) in [([two, one], "9.0"), ([one, two], "1.0"), ([two, one], "9.0")] {
        let Replica { index, .. } = replica;
        replica = Setup::new(&order).start_on(index.opened_again());
        replica.try_sync().await;
        assert_eq!(replica.listed("both").await, [expected]);
    }
    // And when the line for the other one is taken out.
    for (policy, expected) in [("from first both", "1.0"), ("none", "9.0")] {
        replica.mirror.set_policy(policy.parse().unwrap()).await.unwrap();
        replica.try_sync().await;
        assert_eq!(replica.listed("both").await, [expected], "{policy}");
    }
}

#[tokio::test]
async fn a_change_of_the_policy_does_not_wait_for_an_upstream() {
    let upstream = Scripted::start();
    versions(&upstream, &[("shop", "1.0"), ("team", "1.0")], ONE);
    let replica = Setup::new(&[("one", &upstream.url())])
        .change(|settings| settings.limits.silence_timeout = Duration::from_secs(3_600))
        .start()
        .await;
    replica.try_sync().await;
    // A look that waits for two answers in the middle.
    versions(&upstream, &[("shop", "2.0"), ("team", "2.0"), ("late", "1.0")], ONE);
    let barrier = Arc::new(Barrier::new(2));
    let info = format!("---\n1.0 |checksum:{}\n", hex::encode(ONE));
    upstream.on("/info/late", Reply::Held(Arc::clone(&barrier), info.into_bytes()));
    let mirror = Arc::clone(&replica.mirror);
    let mut look = JoinSet::new();
    look.spawn(async move { mirror.sync_once(Scope::Changes, Progress::NONE).await });
    until(|| async { upstream.asked().contains(&"/info/late".to_owned()) }).await;
    let policy = replica.mirror.set_policy("private team\nprivate late".parse().unwrap());
    tokio::time::timeout(Duration::from_secs(60), policy).await.unwrap().unwrap();
    assert_gone(&replica, "team", "1.0").await;
    // What was asked for before comes too late.
    barrier.wait();
    let looked = look.join_next().await.unwrap().unwrap().remove(0).unwrap();
    assert_eq!((looked.work.waiting, looked.is_complete()), (2, false));
    assert_gone(&replica, "team", "2.0").await;
    assert_gone(&replica, "late", "1.0").await;
    assert_eq!(replica.listed("shop").await, ["2.0"]);
    replica.try_sync().await;
    let told = ["late", "team"].map(|name| (name.to_owned(), Refusal::Policy));
    assert_eq!(replica.state().await.upstreams[0].refused, told);
    // And the other way round.
    replica.mirror.set_policy(Policy::default()).await.unwrap();
    let info = format!("---\n1.0 |checksum:{}\n", hex::encode(ONE));
    upstream.text("/info/late", info);
    replica.try_sync().await;
    assert_eq!(replica.listed("team").await, ["2.0"]);
    assert_eq!(replica.listed("late").await, ["1.0"]);
    assert_eq!(replica.state().await.upstreams[0].counts.pending, 0);
    crate::store::assert_consistent(&**replica.store()).await;
}
