//! Changes of the policy, and their effects on existing gems.

use std::sync::Arc;
use std::time::Duration;

use weir_base::shutdown::{Drained, ShutdownToken};
use weir_gems::mirror::policy::Policy;
use weir_gems::package::sample::Sample;
use weir_gems::store::mirror::Refusal;

use super::asked::until;
use super::origin::Origin;
use super::scripted::{Reply, Scripted};
use super::{Replica, Setup};

#[tokio::test]
async fn a_line_that_was_a_mistake_takes_nothing_for_good() {
    let upstream = Scripted::start();
    let names = ["pub-1", "pub-2", "rack"];
    upstream.versions(&names.map(|name| upstream.gem(name, &[("1.0", [1; 32])])));
    let setup = |policy: &str| Setup::new(&[("public", &upstream.url())]).policy(policy);
    let replica = setup("none").start().await;
    replica.sync().await;
    let mistake: Policy = "private pub*".parse().unwrap();
    replica.mirror.set_policy(mistake).await.unwrap();
    replica.sync().await;
    let state = replica.state().await.upstreams.remove(0);
    let told = ["pub-1", "pub-2"].map(|name| (name.to_owned(), Refusal::Policy));
    assert_eq!((&state.refused[..], state.counts.refused), (&told[..], 2));
    assert_eq!(replica.listed("pub-1").await, Vec::<String>::new());
    // One of them was pushed meanwhile, and is now local.
    replica.index.push_sample(&Sample::new("pub-2", "7.0")).await;
    replica.mirror.set_policy(Policy::default()).await.unwrap();
    let refused = replica.state().await.upstreams.remove(0).refused;
    assert_eq!(refused, [("pub-2".to_owned(), Refusal::Local)]);
    let looked = replica.sync().await;
    assert_eq!((looked.work.applied.gems, looked.work.refused), (1, 0));
    assert_eq!(replica.listed("pub-1").await, ["1.0"]);
    assert_eq!(replica.listed("pub-2").await, ["7.0"]);
    // The same over restarts.
    let Replica { index, .. } = replica;
    let replica = setup("private pub*").start_on(index.opened_again());
    replica.sync().await;
    assert_eq!(replica.listed("pub-1").await, Vec::<String>::new());
    let Replica { index, .. } = replica;
    let replica = setup("none").start_on(index.opened_again());
    replica.sync().await;
    assert_eq!(replica.listed("pub-1").await, ["1.0"]);
    assert_eq!(replica.listed("pub-2").await, ["7.0"]);
    crate::store::assert_consistent(&**replica.store()).await;
}

#[tokio::test]
async fn what_is_refused_is_told_while_the_upstream_is_away() {
    let upstream = Scripted::start();
    let names = ["acme-web", "billing", "pub", "rack"];
    upstream.versions(&names.map(|name| upstream.gem(name, &[("99.0", [1; 32])])));
    let setup = || Setup::new(&[("public", &upstream.url())]).policy("private acme-*");
    let replica = setup().start().await;
    replica.index.push_sample(&Sample::new("billing", "1.0")).await;
    replica.sync().await;
    upstream.on("/versions", Reply::Raw(Vec::new()));
    let told = |names: &[(&str, Refusal)]| -> Vec<(String, Refusal)> {
        names.iter().map(|(name, refusal)| ((*name).to_owned(), *refusal)).collect()
    };
    // New private names are reported at once, beside earlier rejections.
    replica.mirror.set_policy("private acme-*\nprivate pub".parse().unwrap()).await.unwrap();
    let state = replica.state().await.upstreams.remove(0);
    let (policy, local) = (Refusal::Policy, Refusal::Local);
    let expected = told(&[("acme-web", policy), ("billing", local), ("pub", policy)]);
    assert_eq!(state.refused, expected);
    assert_eq!((state.counts.refused, state.counts.pending), (3, 0));
    assert!(replica.metrics().contains("weir_gems_mirror_refused{upstream=\"public\"} 3"));
    // Names that are allowed again are pending.
    replica.mirror.set_policy("private pub".parse().unwrap()).await.unwrap();
    let state = replica.state().await.upstreams.remove(0);
    assert_eq!(state.refused, told(&[("billing", local), ("pub", policy)]));
    assert_eq!((state.counts.refused, state.counts.pending), (2, 1));
    // And the same after a restart.
    let Replica { index, .. } = replica;
    let replica = setup().start_on(index.opened_again());
    replica.mirror.prepare().await.unwrap();
    let (shutdown, mirror) = (ShutdownToken::new(), Arc::clone(&replica.mirror));
    let twin = shutdown.clone();
    shutdown.spawn(async move { mirror.run(&twin).await });
    let (replica, told) = (&replica, &told);
    let is_told = || async move {
        let state = replica.state().await.upstreams.remove(0);
        state.refused == told(&[("acme-web", policy), ("billing", local)])
            && (state.counts.refused, state.counts.pending) == (2, 1)
    };
    until(is_told).await;
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}

#[tokio::test]
async fn names_of_an_upstream_that_this_mirror_has_not_come_from_none_of_its_own() {
    let upstream = Scripted::start();
    upstream.versions(&[upstream.gem("acme-web", &[("99.0", [1; 32])])]);
    let setup = Setup::new(&[("public", &upstream.url())]).policy("from vendor acme-*");
    let replica = setup.start().await;
    replica.sync().await;
    let refused = replica.state().await.upstreams.remove(0).refused;
    assert_eq!(refused, [("acme-web".to_owned(), Refusal::Bound)]);
}

#[tokio::test]
async fn a_policy_that_changed_while_the_mirror_was_away_holds_before_anything_is_asked() {
    let origin = Origin::start().await;
    origin.index.push_sample(&Sample::new("acme-web", "99.0")).await;
    let replica = Setup::new(&[("public", &origin.url())]).start().await;
    replica.sync().await;
    assert_eq!(replica.listed("acme-web").await, ["99.0"]);
    let url = origin.url();
    origin.stop().await;
    let Replica { index, .. } = replica;
    let setup = Setup::new(&[("public", &url)]).policy("private acme-*");
    let replica = setup.start_on(index.opened_again());
    // A file that is not fetched yet is not asked for, even before the first look.
    assert_eq!(replica.file("acme-web-99.0").await.status, 404);
    replica.mirror.prepare().await.unwrap();
    assert_eq!(replica.listed("acme-web").await, Vec::<String>::new());
    assert!(replica.try_sync().await[0].is_err());
    crate::store::assert_consistent(&**replica.store()).await;
}
