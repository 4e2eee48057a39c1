//! Changes of gems and their releases.

use weir_gems::release::Checksum;
use weir_gems::store::mirror::{MirrorStore, MirroredGem};
use weir_gems::store::{Conflict, PushError, TextKind};

use super::{gem, gone, mirror, name, noted, pending, versions};
use crate::client::{read_names, read_versions};
use crate::store::{NOW, assert_consistent, identity, new};

pub(crate) async fn a_gem_becomes_what_its_upstream_says(store: impl MirrorStore) {
    mirror(&store, "one", gem("shop", 1, &["2.0", "1.0", "1.0-java"])).await;
    assert_eq!(versions(&store, "shop").await, ["2.0", "1.0", "1.0-java"]);
    mirror(&store, "one", gem("shop", 2, &["2.0", "1.0-java", "3.0"])).await;
    assert_eq!(versions(&store, "shop").await, ["2.0", "1.0-java", "3.0"]);
    assert_consistent(&store).await;
    let before = store.text(TextKind::Versions).await.unwrap();
    let mut same = gem("shop", 2, &["2.0", "1.0-java", "3.0"]);
    let applied = store.apply("one", vec![same.clone()], NOW).await.unwrap();
    assert_eq!((applied.gems, applied.added, applied.changed), (1, 0, 0));
    assert_eq!(store.text(TextKind::Versions).await.unwrap().digests, before.digests);
    same.releases[1].dependencies = "rack:>= 0".parse().unwrap();
    let applied = store.apply("one", vec![same], NOW).await.unwrap();
    assert_eq!((applied.changed, applied.yanked), (1, 0));
    assert_consistent(&store).await;
    // Gone, and back.
    mirror(&store, "one", gem("late", 1, &["1.0"])).await;
    store.note("one", vec![gone("shop")], None).await.unwrap();
    let none = MirroredGem { noted: gone("shop"), ..gem("shop", 1, &[]) };
    store.apply("one", vec![none], NOW).await.unwrap();
    assert_eq!(versions(&store, "shop").await, [""; 0]);
    let names = store.text(TextKind::Names).await.unwrap().to_vec();
    assert_eq!(read_names(&names), ["late"]);
    assert_consistent(&store).await;
    mirror(&store, "one", gem("shop", 3, &["2.0"])).await;
    assert_eq!(versions(&store, "shop").await, ["2.0"]);
    assert_eq!(pending(&store, "one").await, [""; 0]);
    assert_consistent(&store).await;
}

pub(crate) async fn what_was_yanked_here_is_gone_for_good(store: impl MirrorStore) {
    mirror(&store, "one", gem("shop", 1, &["1.0", "2.0"])).await;
    store.yank(&name("shop"), &identity("2.0"), NOW).await.unwrap();
    assert_eq!(versions(&store, "shop").await, ["1.0"]);
    assert_consistent(&store).await;
    // Whatever the upstream does with it, and whichever it is.
    let mut other = gem("shop", 3, &["2.0", "1.0"]);
    other.releases[0].checksum = Checksum([9; 32]);
    for (upstream, gem, expected) in [
        ("one", gem("shop", 2, &["1.0", "1.1", "2.0"]), &["1.0", "1.1"][..]),
        ("one", other, &["1.0"]),
        ("one", gem("shop", 4, &["1.0"]), &["1.0"]),
        ("one", gem("shop", 5, &[]), &[]),
        ("one", gem("shop", 6, &["1.0", "2.0"]), &["1.0"]),
        ("two", gem("shop", 7, &["2.0", "3.0"]), &["3.0"]),
    ] {
        mirror(&store, upstream, gem).await;
        assert_eq!(versions(&store, "shop").await, expected);
        assert_eq!(store.mirrored("shop-2.0").await.unwrap(), None);
        assert_consistent(&store).await;
    }
    // Also when the name was taken away meanwhile, or is ours.
    store.delete_mirrored(vec![name("shop")]).await.unwrap();
    mirror(&store, "one", gem("shop", 8, &["1.0", "2.0"])).await;
    assert_eq!(versions(&store, "shop").await, ["1.0"]);
    store.delete_mirrored(vec![name("shop")]).await.unwrap();
    let refused = store.push(new("shop", "2.0"), NOW).await;
    assert!(matches!(refused, Err(PushError::Conflict(Conflict::Yanked { .. }))), "{refused:?}");
    store.push(new("shop", "1.0"), NOW).await.unwrap();
    assert_consistent(&store).await;
}

pub(crate) async fn no_mirrored_release_takes_anothers_file(store: impl MirrorStore) {
    store.push(new("a-1.0", "1.0"), NOW).await.unwrap();
    store.note("one", vec![noted("a", 1)], None).await.unwrap();
    let applied = store.apply("one", vec![gem("a", 1, &["1.0-1.0", "2.0"])], NOW).await.unwrap();
    assert_eq!((applied.added, applied.clashing), (1, 1));
    assert_eq!(versions(&store, "a").await, ["2.0"]);
    let file = store.file("a-1.0-1.0").await.unwrap().unwrap();
    assert_eq!(file.bytes, new("a-1.0", "1.0").bytes);
    assert_eq!(store.mirrored("a-1.0-1.0").await.unwrap(), None);
    assert_consistent(&store).await;
}

pub(crate) async fn of_new_releases_the_first_has_the_file(store: impl MirrorStore) {
    let gems = vec![gem("a-1.0", 1, &["1.0", "2.0"]), gem("a", 1, &["1.0-1.0", "1.0-3.0"])];
    store.note("one", gems.iter().map(|it| it.noted.clone()).collect(), None).await.unwrap();
    let applied = store.apply("one", gems.clone(), NOW).await.unwrap();
    assert_eq!((applied.gems, applied.added, applied.clashing), (2, 3, 1));
    assert_eq!(versions(&store, "a-1.0").await, ["1.0", "2.0"]);
    assert_eq!(versions(&store, "a").await, ["1.0-3.0"]);
    // This does not depend on the order.
    let again = gems.into_iter().rev().collect();
    let applied = store.apply("one", again, NOW).await.unwrap();
    assert_eq!((applied.added, applied.yanked, applied.clashing), (0, 0, 1));
    assert_consistent(&store).await;
    // A gem without acceptable releases still belongs to the upstream.
    let gems = vec![gem("b-1.0", 1, &["1.0"]), gem("b", 1, &["1.0-1.0"])];
    let applied = store.apply("one", gems, NOW).await.unwrap();
    assert_eq!((applied.gems, applied.added, applied.clashing), (2, 1, 1));
    assert_eq!(&store.info("b").await.unwrap().unwrap().content[..], b"---\n");
    assert_consistent(&store).await;
}

/// More than the page size of any store in tests.
const MANY: usize = 1_200;

pub(crate) async fn many_gems_are_applied_together(store: impl MirrorStore) {
    let all: Vec<_> =
        (0..MANY).map(|number| gem(&format!("gem-{number}"), 1, &["1.0", "2.0"])).collect();
    store.note("one", all.iter().map(|it| it.noted.clone()).collect(), None).await.unwrap();
    let mut after = 0;
    let mut seen = Vec::new();
    loop {
        let page = store.pending("one", after, MANY / 3 + 1).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.sequence;
        seen.extend(page.into_iter().map(|it| it.noted));
    }
    assert_eq!(seen, all.iter().map(|it| it.noted.clone()).collect::<Vec<_>>());
    let applied = store.apply("one", all.clone(), NOW).await.unwrap();
    assert_eq!((applied.gems, applied.added), (MANY as u64, 2 * MANY as u64));
    assert_consistent(&store).await;
    // Some stay, some say something else, some go, and one is taken away and comes again.
    store.delete_mirrored(vec![name("gem-0")]).await.unwrap();
    let mut next = all;
    for (number, gem) in next.iter_mut().enumerate() {
        match number % 3 {
            0 => {}
            1 => gem.releases[0].dependencies = "rack:>= 0".parse().unwrap(),
            _ => gem.releases.truncate(1),
        }
    }
    let third = MANY as u64 / 3;
    let applied = store.apply("one", next, NOW).await.unwrap();
    assert_eq!((applied.added, applied.changed, applied.yanked), (2, third, third));
    assert_eq!(versions(&store, "gem-0").await, ["1.0", "2.0"]);
    assert_eq!(versions(&store, "gem-5").await, ["1.0"]);
    assert_consistent(&store).await;
    // All of them at once, too.
    let names = (0..MANY).map(|number| name(&format!("gem-{number}"))).collect();
    store.delete_mirrored(names).await.unwrap();
    assert_eq!(store.text(TextKind::Names).await.unwrap().to_vec(), b"---\n");
    assert_consistent(&store).await;
}

/// Steps of histories that a client follows by tails.
const STEPS: usize = 30;
const HISTORIES: u64 = 20;

pub(crate) async fn histories<S: MirrorStore, G>(open: impl Fn() -> (G, S)) {
    for seed in 0..HISTORIES {
        let (_guard, store) = open();
        let mut random = fastrand::Rng::with_seed(seed);
        for step in 0..STEPS {
            let text = ["a", "b", "a-1", "c"][random.usize(..4)];
            let mut all = ["1.0", "2.0", "1.0-java", "3.0", "4.0-1.0"].to_vec();
            random.shuffle(&mut all);
            all.truncate(random.usize(..6));
            let mut gem = gem(text, random.u8(..), &all);
            for release in &mut gem.releases {
                release.checksum = Checksum([random.u8(..2); 32]);
            }
            if random.u8(..8) == 0 {
                // Whatever the outcome, the state must be consistent.
                let _ = store.push(new(text, "9.0"), NOW).await;
            }
            let upstream = ["one", "two"][random.usize(..2)];
            mirror(&store, upstream, gem).await;
            if step % 5 == 0 {
                assert_consistent(&store).await;
            }
        }
        assert_consistent(&store).await;
        let text = store.text(TextKind::Versions).await.unwrap();
        assert!(!read_versions(&text.to_vec()).is_empty());
    }
}
