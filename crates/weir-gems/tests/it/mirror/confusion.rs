//! Dependency confusion: an attacker publishes a private name on a public index, with a higher
//! version.

use std::time::Duration;

use weir_gems::mirror::FileError;
use weir_gems::mirror::policy::Policy;
use weir_gems::package::sample::Sample;
use weir_gems::store::mirror::Refusal;

use super::origin::Origin;
use super::scripted::{Reply, Scripted};
use super::{Replica, Setup};
use crate::store::{NOW, new};

/// Checks all responses that could expose the attacker's gem.
async fn assert_private(replica: &Replica, name: &str, version: &str) {
    let info = replica.index.get(&format!("/info/{name}")).await;
    assert!(!info.text().contains("99.0"), "{}", info.text());
    assert!(info.text().contains(version), "{}", info.text());
    assert_eq!(replica.listed(name).await, [version]);
    let path = format!("/api/v1/dependencies.json?gems={name}");
    let answer = replica.index.get(&path).await;
    assert!(
        answer.text().contains(version) && !answer.text().contains("99.0"),
        "{}",
        answer.text()
    );
    assert_eq!(replica.file(&format!("{name}-{version}")).await.status, 200);
    let attack = replica.file(&format!("{name}-99.0")).await;
    assert_eq!(attack.status, 404, "{}", attack.text());
    let quick = format!("/quick/Marshal.4.8/{name}-99.0.gemspec.rz");
    assert_eq!(replica.index.get(&quick).await.status, 404);
}

#[tokio::test]
async fn a_private_name_is_served_whatever_the_public_index_does() {
    let origin = Origin::start().await;
    for name in ["billing", "rack"] {
        origin.index.push_sample(&Sample::new(name, "99.0")).await;
    }
    let replica = Setup::new(&[("public", &origin.url())]).start().await;
    replica.index.push_sample(&Sample::new("billing", "1.0")).await;
    assert_private(&replica, "billing", "1.0").await;
    let looked = replica.sync().await;
    assert_eq!((looked.work.refused, looked.work.applied.gems), (1, 1));
    // Up: the public gem comes, the private one stays, and the attack is told.
    assert_private(&replica, "billing", "1.0").await;
    assert_eq!(replica.file("rack-99.0").await.status, 200);
    let refused = replica.state().await.upstreams.remove(0).refused;
    assert_eq!(refused, [("billing".to_owned(), Refusal::Local)]);
    assert!(replica.metrics().contains("weir_gems_mirror_refused{upstream=\"public\"} 1"));
    // More of it, also with everything compared anew.
    origin.index.push_sample(&Sample::new("billing", "99.0.1")).await;
    replica.sync().await;
    replica.compare().await;
    assert_private(&replica, "billing", "1.0").await;
    // The upstream is unavailable.
    let index = origin.stop().await;
    assert!(replica.try_sync().await[0].is_err());
    assert_private(&replica, "billing", "1.0").await;
    assert_eq!(replica.file("rack-99.0").await.status, 200);
    // The upstream is available again, at another address under the same name.
    let origin = Origin::serve(index);
    let Replica { index, .. } = replica;
    let replica = Setup::new(&[("public", &origin.url())]).start_on(index.opened_again());
    replica.sync().await;
    assert_private(&replica, "billing", "1.0").await;
}

#[tokio::test]
async fn a_private_name_is_not_even_asked_for_while_the_upstream_is_slow() {
    let upstream = Scripted::start();
    let lines = [
        upstream.gem("billing", &[("99.0", [1; 32])]),
        upstream.gem("acme-web", &[("99.0", [1; 32])]),
    ];
    upstream.versions(&lines);
    let setup = || Setup::new(&[("public", &upstream.url())]).policy("private acme-*");
    let replica = setup().start().await;
    replica.index.push_sample(&Sample::new("billing", "1.0")).await;
    replica.sync().await;
    assert_private(&replica, "billing", "1.0").await;
    let Replica { index, .. } = replica;
    let slow =
        setup().change(|settings| settings.limits.silence_timeout = Duration::from_millis(50));
    let replica = slow.start_on(index.opened_again());
    upstream.otherwise(Reply::Silence);
    for path in ["/versions", "/info/billing", "/info/acme-web"] {
        upstream.on(path, Reply::Silence);
    }
    assert!(replica.try_sync().await[0].is_err());
    assert_private(&replica, "billing", "1.0").await;
    assert_eq!(replica.index.get("/info/acme-web").await.status, 404);
    assert_eq!(replica.file("acme-web-99.0").await.status, 404);
    // No private name was sent to the upstream.
    assert!(upstream.asked().iter().all(|path| path == "/versions"), "{:?}", upstream.asked());
}

#[tokio::test]
async fn a_name_that_becomes_private_is_taken_away_and_can_be_pushed() {
    let origin = Origin::start().await;
    for name in ["acme_web", "rack"] {
        origin.index.push_sample(&Sample::new(name, "99.0")).await;
    }
    let replica = Setup::new(&[("public", &origin.url())]).start().await;
    replica.sync().await;
    assert_eq!(replica.file("acme_web-99.0").await.status, 200);
    let refused = replica.store().push(new("acme_web", "1.0"), NOW).await.unwrap_err();
    assert!(refused.to_string().contains("comes from the upstream public"), "{refused}");
    // Case and underscores do not circumvent the policy.
    let policy: Policy = "private ACME-*".parse().unwrap();
    replica.mirror.set_policy(policy).await.unwrap();
    assert_eq!(replica.listed("acme_web").await, Vec::<String>::new());
    assert_eq!(replica.file("acme_web-99.0").await.status, 404);
    replica.index.push_sample(&Sample::new("acme_web", "1.0")).await;
    replica.compare().await;
    assert_private(&replica, "acme_web", "1.0").await;
    assert_eq!(replica.listed("rack").await, ["99.0"]);
    // A pushed name stays private when the rule is removed.
    replica.mirror.set_policy(Policy::default()).await.unwrap();
    replica.compare().await;
    assert_private(&replica, "acme_web", "1.0").await;
    crate::store::assert_consistent(&**replica.store()).await;
}

#[tokio::test]
async fn what_could_be_taken_for_a_pushed_name_is_not_let_in() {
    let upstream = Scripted::start();
    let attacks = ["shop_core", "Shop-Core"];
    let line = |name: &str| upstream.gem(name, &[("99.0", [1; 32])]);
    upstream.versions(&[line("shop_core"), line("Shop-Core"), line("shopcore"), line("rack")]);
    let setup = |policy: &str| Setup::new(&[("public", &upstream.url())]).policy(policy);
    let replica = setup("none").start().await;
    replica.index.push_sample(&Sample::new("shop-core", "1.0")).await;
    let looked = replica.sync().await;
    // Only a human reader may confuse shopcore with it.
    assert_eq!((looked.work.refused, looked.work.applied.gems), (2, 2));
    for name in attacks {
        assert_eq!(replica.index.get(&format!("/info/{name}")).await.status, 404, "{name}");
        assert_eq!(replica.file(&format!("{name}-99.0")).await.status, 404, "{name}");
        let asked = upstream.asked();
        assert!(!asked.iter().any(|path| path.contains(name)), "{asked:?}");
    }
    let told = ["Shop-Core", "shop_core"].map(|name| (name.to_owned(), Refusal::Lookalike));
    assert_eq!(replica.state().await.upstreams.remove(0).refused, told);
    // What is mirrored stays when something like it is pushed, with a warning.
    let answer = replica.index.push(Sample::new("RACK", "1.0").build()).await;
    assert!(answer.text().contains("rack"), "{}", answer.text());
    upstream.versions(&[
        line("shop_core"),
        upstream.gem("rack", &[("99.0", [1; 32]), ("99.1", [2; 32])]),
    ]);
    replica.compare().await;
    assert_eq!(replica.listed("rack").await, ["99.0", "99.1"]);
    // An operator may mean one of them, by name.
    let invited: Policy = "from public *".parse().unwrap();
    replica.mirror.set_policy(invited).await.unwrap();
    replica.compare().await;
    assert_eq!(replica.listed("shop_core").await, Vec::<String>::new());
    let invited: Policy = "from public shop_core".parse().unwrap();
    replica.mirror.set_policy(invited).await.unwrap();
    replica.compare().await;
    assert_eq!(replica.listed("shop_core").await, ["99.0"]);
    assert_private(&replica, "shop-core", "1.0").await;
    crate::store::assert_consistent(&**replica.store()).await;
}

#[tokio::test]
async fn a_private_gems_file_is_not_replaced_by_another_gem_of_the_same_full_name() {
    let upstream = Scripted::start();
    // Its file would be "shop-1.0-2.0.gem", as that of version 2.0 of shop-1.0 is.
    upstream.versions(&[upstream.gem("shop", &[("1.0-2.0", [1; 32]), ("3.0", [1; 32])])]);
    let replica = Setup::new(&[("public", &upstream.url())]).start().await;
    let ours = Sample::new("shop-1.0", "2.0");
    replica.index.push_sample(&ours).await;
    let looked = replica.sync().await;
    assert_eq!((looked.work.applied.added, looked.work.applied.clashing), (1, 1));
    assert_eq!(replica.file("shop-1.0-2.0").await.body, ours.build());
    assert_eq!(replica.listed("shop").await, ["3.0"]);
}

#[tokio::test]
async fn an_error_of_a_file_names_what_to_look_at() {
    let upstream = Scripted::start();
    upstream.versions(&[upstream.gem("a", &[("1.0", [1; 32])])]);
    let replica = Setup::new(&[("public", &upstream.url())]).start().await;
    replica.sync().await;
    let door: &dyn weir_gems::mirror::MirrorDoor = &*replica.mirror;
    let error = door.file("a-1.0").await.unwrap_err();
    assert!(matches!(error, FileError::Absent { .. }), "{error}");
    assert!(error.to_string().contains("the upstream public has no a-1.0"), "{error}");
}
