//! A mirror on the other stores: its behaviour for clients does not depend on the store.

use hyper::StatusCode;
use weir_gems::mirror::Read;
use weir_gems::mirror::policy::Policy;
use weir_gems::package::sample::Sample;
use weir_gems::store::GemStore;

use super::hooks::{ADD, spec, token};
use super::origin::Origin;
use super::{Replica, Setup, assert_same};
use crate::http::Index;
use crate::store::{NOW, new, postgres_place};

#[tokio::test]
async fn sqlite_as_either() {
    let (_folder, store) = crate::store::sqlite();
    is_a_mirror(GemStore::from(store.clone()), || GemStore::from(store.clone())).await;
}

#[tokio::test]
async fn postgres() {
    let Some(place) = postgres_place() else { return };
    is_a_mirror(place.store().into(), || place.store().into()).await;
}

#[tokio::test]
async fn postgres_as_either() {
    let Some(place) = postgres_place() else { return };
    let open = || GemStore::from(place.store());
    is_a_mirror(open(), open).await;
}

/// Runs the test. `again` opens the same store again.
async fn is_a_mirror(store: GemStore, again: impl FnOnce() -> GemStore) {
    let origin = Origin::start().await;
    for (name, version) in [("acme-web", "99.0"), ("billing", "99.0"), ("shop", "1.0")] {
        origin.index.push_sample(&Sample::new(name, version)).await;
    }
    let setup = || Setup::new(&[("one", &origin.url())]);
    let replica = setup().start_on(Index::on(store).await);
    replica.index.push_sample(&Sample::new("billing", "1.0")).await;
    let looked = replica.sync().await;
    assert_eq!((looked.work.refused, looked.work.applied.gems), (1, 2));
    assert_eq!(replica.listed("billing").await, ["1.0"]);
    assert_a_name_has_one_source(&replica).await;
    assert_files_come(&replica, &origin).await;

    // Gems that only an earlier policy allowed are removed.
    replica.mirror.set_policy("private acme-*".parse::<Policy>().unwrap()).await.unwrap();
    assert_eq!(replica.listed("acme-web").await, [""; 0]);
    assert_eq!(replica.file("acme-web-99.0").await.status, StatusCode::NOT_FOUND);

    // A webhook that came is worked off by who comes next, which goes on where the last one was.
    origin.store().push(new("shop", "2.0"), NOW).await.unwrap();
    assert_eq!(replica.hook(ADD, "", spec("shop", "2.0", &token())).await, StatusCode::OK);
    let known_since = replica.state().await.upstreams[0].last_success;
    assert!(known_since.is_some());
    drop(replica);
    let replica = setup().policy("private acme-*").start_on(Index::on(again()).await);
    replica.mirror.prepare().await.unwrap();
    assert_eq!(replica.state().await.upstreams[0].last_success, known_since);
    assert_eq!(replica.state().await.hooks_waiting, 1);
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap().done, 1);
    assert_eq!(replica.state().await.upstreams[0].requests, 2);
    assert_eq!(replica.listed("shop").await, ["1.0", "2.0"]);
    assert_eq!(replica.sync().await.read, Read::Unchanged);

    // Everything is compared; what is private here is yanked there, so that nothing else differs.
    for name in ["acme-web", "billing"] {
        let release = crate::store::identity("99.0");
        origin.store().yank(&name.parse().unwrap(), &release, NOW).await.unwrap();
    }
    replica.index.yank("gem_name=billing&version=1.0").await;
    replica.compare().await;
    assert_same(&replica, origin.store()).await;
}

async fn assert_a_name_has_one_source(replica: &Replica) {
    let refused = replica.index.push(Sample::new("shop", "3.0").build()).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    assert!(refused.text().contains("shop comes from the upstream one"), "{}", refused.text());
    assert_eq!(replica.listed("shop").await, ["1.0"]);
}

async fn assert_files_come(replica: &Replica, origin: &Origin) {
    let theirs = origin.index.get("/gems/shop-1.0.gem").await;
    let ours = replica.file("shop-1.0").await;
    assert_eq!((ours.status, &ours.body), (StatusCode::OK, &theirs.body));
    assert_eq!(replica.file("shop-9.0").await.status, StatusCode::NOT_FOUND);
    let state = replica.state().await;
    let before = state.upstreams[0].requests;
    // The file is now stored.
    assert_eq!(replica.file("shop-1.0").await.body, ours.body);
    assert_eq!(replica.state().await.upstreams[0].requests, before);
}
