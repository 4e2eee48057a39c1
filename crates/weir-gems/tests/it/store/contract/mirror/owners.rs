//! Owners of names.

use std::sync::Arc;

use weir_base::clock::Clock;
use weir_gems::store::mirror::{MirrorStore, MirroredGem, Owner, Refusal, Standing};
use weir_gems::store::{Conflict, ImportedGem, PushError, TextKind};

use super::{gem, gone, mirror, name, noted, pending, releases, versions};
use crate::store::{NOW, assert_consistent, identity, new};

pub(crate) async fn what_is_local_is_never_touched(store: impl MirrorStore) {
    store.push(new("pushed", "1.0"), NOW).await.unwrap();
    let imported = ImportedGem { name: name("imported"), releases: releases(&["1.0"]) };
    store.import(Box::new([imported].into_iter()), &Clock::manual(NOW)).await.unwrap();
    store.note("one", vec![noted("pushed", 1), noted("imported", 1)], None).await.unwrap();
    let before = store.text(TextKind::Versions).await.unwrap();
    for pending in store.pending("one", 0, 9).await.unwrap() {
        assert_eq!(pending.standing.owner, Owner::Local);
    }
    let gems = vec![gem("pushed", 1, &["99.0"]), gem("imported", 1, &[])];
    let applied = store.apply("one", gems, NOW).await.unwrap();
    assert_eq!((applied.gems, applied.refused), (0, 2));
    assert_eq!(store.text(TextKind::Versions).await.unwrap().digests, before.digests);
    let expected = [("imported".to_owned(), Refusal::Local), ("pushed".to_owned(), Refusal::Local)];
    assert_eq!(store.refused("one", 9).await.unwrap(), expected);
    assert_eq!(store.mirrored("pushed-1.0").await.unwrap(), None);
    // This also holds if all its releases are yanked.
    store.yank(&name("pushed"), &identity("1.0"), NOW).await.unwrap();
    store.reconsider().await.unwrap();
    let applied = store.apply("one", vec![gem("pushed", 1, &["99.0"])], NOW).await.unwrap();
    assert_eq!(applied.refused, 1);
    assert_consistent(&store).await;
}

pub(crate) async fn what_could_be_taken_for_ours_is_not_new_here(store: impl MirrorStore) {
    mirror(&store, "one", gem("early_bird", 1, &["1.0"])).await;
    for ours in ["shop-core", "early-bird"] {
        store.push(new(ours, "1.0"), NOW).await.unwrap();
    }
    let resembles =
        async |text: &str| store.standing("one", &name(text)).await.unwrap().resembles_ours;
    for (text, expected) in [
        ("shop_core", true),
        ("Shop-Core", true),
        ("SHOP_CORE", true),
        ("early_bird", true),
        // Itself, what only a reader may take for it, and what looks like one that is mirrored.
        ("shop-core", false),
        ("shopcore", false),
        ("shop.core", false),
        ("sh0p-core", false),
        ("rack", false),
    ] {
        assert_eq!(resembles(text).await, expected, "{text}");
    }
    let names = ["shop_core", "Shop-Core", "shopcore", "early_bird"];
    store.note("one", names.map(|text| noted(text, 2)).to_vec(), None).await.unwrap();
    let standings = store.pending("one", 0, 9).await.unwrap();
    let told = standings.iter().map(|it| it.standing.resembles_ours);
    assert_eq!(told.collect::<Vec<_>>(), [true, true, false, true]);
    // These were pushed after the decision. Gems that were mirrored before stay.
    let gems = names.map(|text| gem(text, 2, &["99.0"])).to_vec();
    let applied = store.apply("one", gems, NOW).await.unwrap();
    assert_eq!((applied.gems, applied.refused), (2, 2));
    let refused = ["Shop-Core", "shop_core"].map(|it| (it.to_owned(), Refusal::Lookalike));
    assert_eq!(store.refused("one", 9).await.unwrap(), refused);
    for (text, expected) in [
        ("shop_core", &[][..]),
        ("Shop-Core", &[]),
        ("shopcore", &["99.0"]),
        ("early_bird", &["99.0"]),
    ] {
        assert_eq!(versions(&store, text).await, expected, "{text}");
    }
    // An operator may allow the name explicitly.
    let invited = MirroredGem { is_invited: true, ..gem("shop_core", 2, &["99.0"]) };
    assert_eq!(store.apply("one", vec![invited], NOW).await.unwrap().refused, 0);
    assert_eq!(versions(&store, "shop_core").await, ["99.0"]);
    assert_consistent(&store).await;
}

pub(crate) async fn what_an_earlier_upstream_lists_is_not_taken(store: impl MirrorStore) {
    store.note("one", vec![noted("both", 1), gone("former")], None).await.unwrap();
    let names = ["both", "former", "late"];
    store.note("two", names.map(|text| noted(text, 2)).to_vec(), None).await.unwrap();
    let earlier: Arc<[_]> = ["one", "unknown"].map(|name| name.parse().unwrap()).into();
    let behind = |text| MirroredGem { earlier: Arc::clone(&earlier), ..gem(text, 2, &["9.0"]) };
    // It was recorded after the decision.
    let applied = store.apply("two", names.map(behind).to_vec(), NOW).await.unwrap();
    assert_eq!((applied.gems, applied.refused, applied.added), (2, 1, 2));
    assert_eq!(versions(&store, "both").await, [""; 0]);
    assert_eq!(versions(&store, "late").await, ["9.0"]);
    assert_eq!(store.refused("two", 9).await.unwrap(), [("both".to_owned(), Refusal::Shadowed)]);
    // Nobody comes before it, or the policy names it.
    store.apply("two", vec![gem("both", 2, &["9.0"])], NOW).await.unwrap();
    assert_eq!(versions(&store, "both").await, ["9.0"]);
    assert_consistent(&store).await;
}

pub(crate) async fn a_mirrored_name_is_not_pushed_to(store: impl MirrorStore) {
    mirror(&store, "one", gem("shop", 1, &["1.0"])).await;
    let refused = store.push(new("shop", "99.0"), NOW).await;
    let Err(PushError::Conflict(Conflict::Mirrored { name: gem_name, upstream, .. })) = refused
    else {
        panic!("one name has two sources: {refused:?}");
    };
    assert_eq!((gem_name.as_str(), upstream.as_str()), ("shop", "one"));
    let imported = ImportedGem { name: name("shop"), releases: releases(&["98.0"]) };
    let done = store.import(Box::new([imported].into_iter()), &Clock::manual(NOW)).await.unwrap();
    assert_eq!((done.releases, done.known), (0, 1));
    assert_eq!(versions(&store, "shop").await, ["1.0"]);
    // Once it is ours, it is.
    store.delete_mirrored(vec![name("shop"), name("unknown")]).await.unwrap();
    assert_eq!(versions(&store, "shop").await, [""; 0]);
    assert_consistent(&store).await;
    store.push(new("shop", "1.0"), NOW).await.unwrap();
    store.delete_mirrored(vec![name("shop")]).await.unwrap();
    assert_eq!(versions(&store, "shop").await, ["1.0"]);
    let applied = store.apply("one", vec![gem("shop", 1, &["1.0"])], NOW).await.unwrap();
    assert_eq!(applied.refused, 1);
    assert_consistent(&store).await;
}

pub(crate) async fn what_was_taken_away_is_nobodys_and_may_come_again(store: impl MirrorStore) {
    for text in ["pushed", "imported", "again"] {
        mirror(&store, "one", gem(text, 1, &["1.0", "2.0"])).await;
        store.note("two", vec![noted(text, 2)], None).await.unwrap();
    }
    let names = ["pushed", "imported", "again"].map(name);
    store.delete_mirrored(names.to_vec()).await.unwrap();
    assert_eq!(store.origins(0, 9).await.unwrap().names, []);
    assert_consistent(&store).await;
    // They are pending for all upstreams that list them, also if this is repeated.
    store.delete_mirrored(names.to_vec()).await.unwrap();
    for upstream in ["one", "two"] {
        let all = store.pending(upstream, 0, 9).await.unwrap();
        assert_eq!(all.len(), 3, "{upstream}");
        assert!(all.iter().all(|it| it.standing.owner == Owner::Nobody), "{all:?}");
    }
    store.push(new("pushed", "1.0"), NOW).await.unwrap();
    // This also holds for an import without releases.
    let imported = ImportedGem { name: name("imported"), releases: Vec::new() };
    store.import(Box::new([imported].into_iter()), &Clock::manual(NOW)).await.unwrap();
    let gems = ["pushed", "imported", "again"].map(|text| gem(text, 2, &["3.0"]));
    let applied = store.apply("two", gems.to_vec(), NOW).await.unwrap();
    assert_eq!((applied.refused, applied.gems, applied.added), (2, 1, 1));
    assert_eq!(versions(&store, "pushed").await, ["1.0"]);
    assert_eq!(versions(&store, "again").await, ["3.0"]);
    assert_eq!(pending(&store, "two").await, [""; 0]);
    let origins = store.origins(0, 9).await.unwrap();
    assert_eq!(origins.names, [(name("again"), "two".to_owned())]);
    assert_consistent(&store).await;
}

pub(crate) async fn what_is_known_of_a_name_is_told_whether_it_was_noted_or_not(
    store: impl MirrorStore,
) {
    let standing =
        async |upstream: &str, text: &str| store.standing(upstream, &name(text)).await.unwrap();
    let nobodys = Standing {
        owner: Owner::Nobody,
        has_versions: false,
        resembles_ours: false,
        listed_by: Vec::new(),
    };
    assert_eq!(standing("one", "shop").await, nobodys);
    mirror(&store, "one", gem("shop", 1, &["1.0"])).await;
    store.note("two", vec![noted("shop", 2)], None).await.unwrap();
    store.push(new("ours", "1.0"), NOW).await.unwrap();
    let owner = Owner::Upstream("one".to_owned());
    for (upstream, listed_by) in
        [("one", &["two"][..]), ("two", &["one"]), ("unknown", &["one", "two"])]
    {
        let listed_by: Vec<_> = listed_by.iter().map(|it| (*it).to_owned()).collect();
        let owner = owner.clone();
        let expected = Standing { owner, has_versions: true, resembles_ours: false, listed_by };
        assert_eq!(standing(upstream, "shop").await, expected, "{upstream}");
        assert_eq!(standing(upstream, "ours").await.owner, Owner::Local);
    }
    store.yank(&name("shop"), &identity("1.0"), NOW).await.unwrap();
    assert!(!standing("one", "shop").await.has_versions);
    store.delete_mirrored(vec![name("shop")]).await.unwrap();
    assert_eq!(standing("one", "shop").await.owner, Owner::Nobody);
}

pub(crate) async fn a_name_changes_hands_whole(store: impl MirrorStore) {
    mirror(&store, "two", gem("shop", 1, &["1.0", "2.0"])).await;
    mirror(&store, "one", gem("shop", 2, &["2.0", "3.0"])).await;
    assert_eq!(versions(&store, "shop").await, ["2.0", "3.0"]);
    let release = store.mirrored("shop-3.0").await.unwrap().unwrap();
    assert_eq!(release.upstream, "one");
    let origins = store.origins(0, 9).await.unwrap();
    assert_eq!(origins.names, [(name("shop"), "one".to_owned())]);
    // So that it is told there.
    let left = store.pending("two", 0, 9).await.unwrap().remove(0);
    assert_eq!(
        (left.noted, left.standing.owner),
        (noted("shop", 1), Owner::Upstream("one".to_owned()))
    );
    assert_consistent(&store).await;
}
