//! Several upstreams.

use std::time::Duration;

use weir_gems::mirror::policy::Policy;
use weir_gems::store::mirror::Refusal;

use super::scripted::{Reply, Scripted};
use super::{Replica, Setup};

const ONE: [u8; 32] = [1; 32];
const TWO: [u8; 32] = [2; 32];

fn versions(upstream: &Scripted, gems: &[(&str, &str)], sum: [u8; 32]) {
    let lines: Vec<_> =
        gems.iter().map(|(name, version)| upstream.gem(name, &[(version, sum)])).collect();
    upstream.versions(&lines);
}

async fn two(first: &Scripted, second: &Scripted) -> Replica {
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
    // It stays there when the first does not list it any more.
    versions(&first, &[("one", "1.0")], ONE);
    replica.compare().await;
    replica.try_sync().await;
    assert_eq!(replica.listed("both").await, Vec::<String>::new());
    // And goes there when the first begins to.
    versions(&first, &[("one", "1.0"), ("two", "3.0")], ONE);
    replica.try_sync().await;
    assert_eq!(replica.listed("two").await, ["3.0"]);
    versions(&second, &[("both", "99.0"), ("two", "99.0")], TWO);
    replica.try_sync().await;
    assert_eq!(replica.listed("two").await, ["3.0"]);
    crate::store::assert_consistent(replica.store()).await;
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
    // Once it answers, the order decides.
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
    // Without the line the order decides again.
    replica.mirror.set_policy(Policy::default()).await.unwrap();
    replica.try_sync().await;
    assert_eq!(replica.listed("pro").await, ["99.0"]);
    let wrong = replica.mirror.set_policy("from third x".parse().unwrap()).await;
    assert!(wrong.unwrap_err().to_string().contains("third"));
}
