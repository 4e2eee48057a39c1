//! What every store promises a mirror. A store's test makes an empty one for each of these.

use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Clock;
use weir_gems::mirror::prefix::{Prefix, PrefixDigest};
use weir_gems::name::GemName;
use weir_gems::release::{Checksum, Release};
use weir_gems::store::mirror::{
    Gone, HookKind, Inbox, LastLooks, MirrorStore, MirroredFile, MirroredGem, NewHook, Noted,
    Owner, Position, Presence, Refusal, Standing,
};
use weir_gems::store::{Conflict, ImportedGem, PushError, Store, TextKind};

use super::assert_consistent;
use crate::client::{read_names, read_versions, versions_of_info};
use crate::store::{NOW, identity, new, release};

fn name(text: &str) -> GemName {
    text.parse().unwrap()
}

fn noted(text: &str, md5: u8) -> Noted {
    Noted { name: name(text), md5: Some([md5; 16]) }
}

fn gone(text: &str) -> Noted {
    Noted { name: name(text), md5: None }
}

fn position(length: u64) -> Position {
    Position {
        length,
        digest_state: vec![1, 2],
        overlap: b"end\n".to_vec(),
        etag: Some("\"x\"".to_owned()),
    }
}

fn releases(versions: &[&str]) -> Vec<Release> {
    let at = |version: &&str| Release {
        created_at: weir_base::clock::Timestamp::default(),
        ..release(version, "")
    };
    versions.iter().map(at).collect()
}

fn gem(text: &str, md5: u8, versions: &[&str]) -> MirroredGem {
    let (noted, releases) = (noted(text, md5), releases(versions));
    MirroredGem { noted, releases, is_invited: false, earlier: Arc::default() }
}

/// Notes a gem and applies it.
async fn mirror(store: &impl MirrorStore, upstream: &str, gem: MirroredGem) {
    store.note(upstream, vec![gem.noted.clone()], None).await.unwrap();
    store.apply(upstream, vec![gem], NOW).await.unwrap();
}

async fn pending(store: &impl MirrorStore, upstream: &str) -> Vec<String> {
    let all = store.pending(upstream, 0, 100).await.unwrap();
    all.into_iter().map(|it| it.noted.name.to_string()).collect()
}

async fn versions(store: &impl Store, name: &str) -> Vec<String> {
    let info = store.info(name).await.unwrap();
    info.map(|info| versions_of_info(&info.content)).unwrap_or_default()
}

pub(crate) async fn what_is_noted_is_work_until_it_is_applied(store: impl MirrorStore) {
    assert_eq!(store.position("one").await.unwrap(), None);
    let names = vec![noted("b", 1), noted("a", 1), noted("c", 1)];
    store.note("one", names.clone(), None).await.unwrap();
    assert_eq!(store.position("one").await.unwrap(), None);
    store.note("one", names, Some(position(7))).await.unwrap();
    assert_eq!(store.position("one").await.unwrap(), Some(position(7)));
    // In the order of lines, page by page, for each upstream by itself.
    assert_eq!(pending(&store, "one").await, ["b", "a", "c"]);
    assert_eq!(pending(&store, "two").await, [""; 0]);
    let first = store.pending("one", 0, 1).await.unwrap().remove(0);
    let rest = store.pending("one", first.sequence, 9).await.unwrap();
    assert_eq!(rest.iter().map(|it| it.noted.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    store.apply("one", vec![gem("a", 1, &["1.0"]), gem("b", 1, &["1.0"])], NOW).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["c"]);
    // The same again is no work; something else is.
    store.note("one", vec![noted("a", 1), noted("b", 2)], Some(position(9))).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["c", "b"]);
    // What was fetched for an earlier line does not settle a later one.
    store.apply("one", vec![gem("b", 1, &["1.0"])], NOW).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["c", "b"]);
    let counts = store.counts("one").await.unwrap();
    assert_eq!((counts.names, counts.pending, counts.refused), (3, 2, 0));
    assert_consistent(&store).await;
}

pub(crate) async fn digests_are_of_what_is_noted(store: impl MirrorStore) {
    store.note("one", vec![noted("aa", 1), noted("ab", 2), noted("a", 3)], None).await.unwrap();
    store.note("one", vec![noted("aa", 4), gone("ab")], None).await.unwrap();
    store.note("two", vec![noted("aa", 9)], None).await.unwrap();
    let digest = |name: &str, md5: u8| {
        let mut digest = PrefixDigest::default();
        digest.add(name, [md5; 16]);
        (Prefix::of(name), digest)
    };
    assert_eq!(store.noted_digests("one").await.unwrap(), [digest("a", 3), digest("aa", 4)]);
    assert_eq!(store.noted("one", Prefix::of("aa")).await.unwrap(), [noted("aa", 4)]);
    assert_eq!(store.noted("one", Prefix::of("a")).await.unwrap(), [noted("a", 3)]);
    assert_eq!(store.noted("one", Prefix::of("ab")).await.unwrap(), []);
    assert_eq!(store.noted_digests("three").await.unwrap(), []);
}

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
    same.releases[1].checksum = Checksum([9; 32]);
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

pub(crate) async fn what_is_local_is_never_touched(store: impl MirrorStore) {
    store.push(new("pushed", "1.0"), NOW).await.unwrap();
    let imported = ImportedGem { name: name("imported"), releases: releases(&["1.0"]) };
    store.import([imported].into_iter(), &Clock::manual(NOW)).await.unwrap();
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
    // Also when all of its releases are yanked.
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
    // Pushed since somebody looked. What was here first stays.
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
    // An operator may mean it.
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
    // It was noted since somebody looked.
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

pub(crate) async fn when_looks_came_to_something_is_kept(store: impl MirrorStore) {
    assert_eq!(store.last_looks("one").await.unwrap(), LastLooks::default());
    let looks = LastLooks { complete: Some(NOW), compared: None };
    store.keep_looks("one", looks).await.unwrap();
    assert_eq!(store.last_looks("one").await.unwrap(), looks);
    // Beside what else is known of it.
    store.note("one", vec![noted("shop", 1)], Some(position(7))).await.unwrap();
    let looks = LastLooks { complete: Some(NOW + Duration::from_micros(1)), compared: Some(NOW) };
    store.keep_looks("one", looks).await.unwrap();
    assert_eq!(store.last_looks("one").await.unwrap(), looks);
    assert_eq!(store.position("one").await.unwrap(), Some(position(7)));
    assert_eq!(store.last_looks("two").await.unwrap(), LastLooks::default());
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
    let done = store.import([imported].into_iter(), &Clock::manual(NOW)).await.unwrap();
    assert_eq!((done.releases, done.known), (0, 1));
    assert_eq!(versions(&store, "shop").await, ["1.0"]);
    // Once it is ours, it is.
    store.disown(vec![name("shop"), name("unknown")]).await.unwrap();
    assert_eq!(versions(&store, "shop").await, [""; 0]);
    assert_consistent(&store).await;
    store.push(new("shop", "1.0"), NOW).await.unwrap();
    store.disown(vec![name("shop")]).await.unwrap();
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
    store.disown(names.to_vec()).await.unwrap();
    assert_eq!(store.origins(0, 9).await.unwrap().names, []);
    assert_consistent(&store).await;
    // For all upstreams that list them, also after it was done once more.
    store.disown(names.to_vec()).await.unwrap();
    for upstream in ["one", "two"] {
        let all = store.pending(upstream, 0, 9).await.unwrap();
        assert_eq!(all.len(), 3, "{upstream}");
        assert!(all.iter().all(|it| it.standing.owner == Owner::Nobody), "{all:?}");
    }
    store.push(new("pushed", "1.0"), NOW).await.unwrap();
    // Even of an import without releases.
    let imported = ImportedGem { name: name("imported"), releases: Vec::new() };
    store.import([imported].into_iter(), &Clock::manual(NOW)).await.unwrap();
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
    store.disown(vec![name("shop")]).await.unwrap();
    mirror(&store, "one", gem("shop", 8, &["1.0", "2.0"])).await;
    assert_eq!(versions(&store, "shop").await, ["1.0"]);
    store.disown(vec![name("shop")]).await.unwrap();
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
    // It stays so, in whatever order they come.
    let again = gems.into_iter().rev().collect();
    let applied = store.apply("one", again, NOW).await.unwrap();
    assert_eq!((applied.added, applied.yanked, applied.clashing), (0, 0, 1));
    assert_consistent(&store).await;
    // One of which nothing can be taken is still a gem of the upstream.
    let gems = vec![gem("b-1.0", 1, &["1.0"]), gem("b", 1, &["1.0-1.0"])];
    let applied = store.apply("one", gems, NOW).await.unwrap();
    assert_eq!((applied.gems, applied.added, applied.clashing), (2, 1, 1));
    assert_eq!(&store.info("b").await.unwrap().unwrap().content[..], b"---\n");
    assert_consistent(&store).await;
}

/// More than any store's page of anything that is small in tests.
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
    store.disown(vec![name("gem-0")]).await.unwrap();
    let mut next = all;
    for (number, gem) in next.iter_mut().enumerate() {
        match number % 3 {
            0 => {}
            1 => gem.releases[0].checksum = Checksum([9; 32]),
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
    store.disown(names).await.unwrap();
    assert_eq!(store.text(TextKind::Names).await.unwrap().to_vec(), b"---\n");
    assert_consistent(&store).await;
}

pub(crate) async fn what_is_refused_is_no_work_until_it_is_reconsidered(store: impl MirrorStore) {
    store.note("one", vec![noted("a", 1), noted("b", 1)], None).await.unwrap();
    store.note("two", vec![noted("a", 2)], None).await.unwrap();
    let all = store.pending("one", 0, 9).await.unwrap();
    assert_eq!(
        (&*all[0].standing.listed_by, &*all[1].standing.listed_by),
        (&["two".to_owned()][..], &[][..])
    );
    store.refuse("one", vec![(name("a"), Refusal::Shadowed)]).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["b"]);
    assert_eq!(store.refused("one", 9).await.unwrap(), [("a".to_owned(), Refusal::Shadowed)]);
    assert_eq!(store.refused("one", 0).await.unwrap(), []);
    // A new line changes nothing about it.
    store.note("one", vec![noted("a", 3)], None).await.unwrap();
    assert_eq!(pending(&store, "one").await, ["b"]);
    assert_eq!(store.counts("one").await.unwrap().refused, 1);
    store.reconsider().await.unwrap();
    assert_eq!(pending(&store, "one").await, ["b", "a"]);
    assert_eq!(store.counts("one").await.unwrap().refused, 0);
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
    store.disown(vec![name("shop")]).await.unwrap();
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

pub(crate) async fn origins_and_missing_files_come_in_pages(store: impl MirrorStore) {
    for text in ["a", "b", "c", "d", "e"] {
        mirror(&store, "one", gem(text, 1, &["1.0", "2.0"])).await;
    }
    store.push(new("local", "1.0"), NOW).await.unwrap();
    mirror(&store, "two", gem("other", 1, &["1.0"])).await;
    for size in [1, 2, 3, 6, 7] {
        let (mut origins, mut files) = (Vec::new(), Vec::new());
        let mut next = Some(0);
        while let Some(from) = next {
            let page = store.origins(from, size).await.unwrap();
            origins.extend(page.names.into_iter().map(|(name, _)| name.to_string()));
            next = page.next;
        }
        let mut next = Some(0);
        while let Some(from) = next {
            let page = store.missing_files("one", from, size).await.unwrap();
            files
                .extend(page.releases.into_iter().map(|it| format!("{}-{}", it.name, it.identity)));
            next = page.next;
        }
        files.sort_unstable();
        assert_eq!(origins, ["a", "b", "c", "d", "e", "other"], "pages of {size}");
        assert_eq!(files.len(), 10, "pages of {size}");
        files.dedup();
        assert_eq!(files.len(), 10, "pages of {size}");
    }
}

pub(crate) async fn a_kept_file_belongs_to_its_checksum(store: impl MirrorStore) {
    mirror(&store, "one", gem("shop", 1, &["1.0-java"])).await;
    let release = store.mirrored("shop-1.0-java").await.unwrap().unwrap();
    assert_eq!((release.bytes, store.file("shop-1.0-java").await.unwrap()), (None, None));
    let file =
        |bytes| MirroredFile { bytes, specification: Some((b"rz".to_vec(), "{}".to_owned())) };
    let mut other = release.clone();
    other.checksum = Checksum([1; 32]);
    store.keep_file(&other, file(5)).await.unwrap();
    assert_eq!(store.gemspec("shop-1.0-java").await.unwrap(), None);
    store.keep_file(&release, file(7)).await.unwrap();
    assert_eq!(store.file("shop-1.0-java").await.unwrap().unwrap().bytes, 7);
    assert_eq!(store.gemspec("shop-1.0-java").await.unwrap().as_deref(), Some(&b"rz"[..]));
    let kept = store.mirrored("shop-1.0-java").await.unwrap().unwrap();
    assert_eq!(kept.bytes, Some(7));
    assert_eq!(store.missing_files("one", 0, 9).await.unwrap().releases, []);
    // One that is lost is to be fetched again.
    store.forget_file(&other).await.unwrap();
    assert_eq!(store.mirrored("shop-1.0-java").await.unwrap().unwrap().bytes, Some(7));
    store.forget_file(&kept).await.unwrap();
    assert_eq!(store.file("shop-1.0-java").await.unwrap(), None);
    let missing = store.missing_files("one", 0, 9).await.unwrap().releases;
    assert_eq!(missing.first(), Some(&release));
    store.keep_file(&release, file(7)).await.unwrap();
    // Something else under the same number has no file yet.
    let mut changed = gem("shop", 2, &["1.0-java"]);
    changed.releases[0].checksum = Checksum([2; 32]);
    mirror(&store, "one", changed).await;
    assert_eq!(store.file("shop-1.0-java").await.unwrap(), None);
    assert_eq!(store.gemspec("shop-1.0-java").await.unwrap(), None);
    assert_eq!(store.missing_files("one", 0, 9).await.unwrap().releases.len(), 1);
    let presence =
        async |version: &str| store.presence(&name("shop"), &identity(version)).await.unwrap();
    assert_eq!(presence("1.0-java").await, Presence::Served);
    assert_eq!(presence("1.0").await, Presence::Absent);
    store.yank(&name("shop"), &identity("1.0-java"), NOW).await.unwrap();
    assert_eq!(presence("1.0-java").await, Presence::Yanked);
    assert_consistent(&store).await;
}

pub(crate) async fn what_has_gone_is_counted_for_each_upstream(store: impl MirrorStore) {
    assert_eq!(store.gone("one").await.unwrap(), Gone::default());
    let gone = Gone { since: Some(NOW), names: 7 };
    store.keep_gone("one", gone).await.unwrap();
    assert_eq!(store.gone("one").await.unwrap(), gone);
    assert_eq!(store.gone("two").await.unwrap(), Gone::default());
    store.keep_gone("one", Gone::default()).await.unwrap();
    assert_eq!(store.gone("one").await.unwrap(), Gone::default());
}

pub(crate) async fn whose_names_are_whose_is_kept(store: impl MirrorStore) {
    assert_eq!(store.policy().await.unwrap(), None);
    for rules in [Some("private a\n".to_owned()), Some("private b\n".to_owned()), None] {
        store.keep_policy(rules.clone()).await.unwrap();
        assert_eq!(store.policy().await.unwrap(), rules);
    }
    mirror(&store, "one", gem("theirs", 1, &["1.0"])).await;
    assert_eq!(store.local_names(9).await.unwrap(), [""; 0]);
    for text in ["ours", "also-ours"] {
        store.push(new(text, "1.0"), NOW).await.unwrap();
    }
    // What is nobody's is not ours either.
    store.disown(vec![name("theirs")]).await.unwrap();
    assert_eq!(store.local_names(9).await.unwrap(), ["ours", "also-ours"]);
    assert_eq!(store.local_names(1).await.unwrap(), ["ours"]);
}

pub(crate) async fn hooks_wait_in_their_order(store: impl MirrorStore) {
    let hook = |version: &str, kind| NewHook {
        upstream: "one".to_owned(),
        kind,
        name: name("shop"),
        identity: identity(version),
        received_at: NOW,
    };
    assert_eq!(store.next_hook("one").await.unwrap(), None);
    let hooks = vec![hook("1.0", HookKind::Added), hook("1.0-java", HookKind::Removed)];
    assert_eq!(store.take_hooks(hooks.clone(), 3).await.unwrap(), Inbox::Taken);
    // All of them or none.
    assert_eq!(store.take_hooks(hooks.clone(), 3).await.unwrap(), Inbox::Full);
    assert_eq!(
        store.take_hooks(vec![hook("2.0", HookKind::Added)], 3).await.unwrap(),
        Inbox::Taken
    );
    assert_eq!(
        (store.waiting_hooks().await.unwrap(), store.next_hook("one").await.unwrap()),
        (3, Some(NOW))
    );
    assert_eq!(store.due_hooks("one", NOW - Duration::from_secs(1), 9).await.unwrap(), []);
    let due = store.due_hooks("one", NOW, 9).await.unwrap();
    let seen: Vec<_> = due.iter().map(|it| it.hook.clone()).collect();
    assert_eq!(seen, [&hooks[..], &[hook("2.0", HookKind::Added)]].concat());
    let ids: Vec<_> = due.iter().map(|it| it.id).collect();
    assert!(ids.is_sorted());
    assert_eq!(store.due_hooks("one", NOW, 1).await.unwrap()[0].id, ids[0]);
    let later = NOW + Duration::from_secs(5);
    store.settle_hooks(vec![ids[1]], vec![(ids[0], later)]).await.unwrap();
    let due = store.due_hooks("one", NOW, 9).await.unwrap();
    assert_eq!(due.iter().map(|it| it.id).collect::<Vec<_>>(), [ids[2]]);
    let due = store.due_hooks("one", later, 9).await.unwrap();
    assert_eq!(
        due.iter().map(|it| (it.id, it.attempts)).collect::<Vec<_>>(),
        [(ids[0], 1), (ids[2], 0)]
    );
    store.settle_hooks(ids, Vec::new()).await.unwrap();
    assert_eq!(store.waiting_hooks().await.unwrap(), 0);
}

pub(crate) async fn hooks_of_each_upstream_are_apart(store: impl MirrorStore) {
    let hook = |upstream: &str, seconds| NewHook {
        upstream: upstream.to_owned(),
        kind: HookKind::Added,
        name: name("shop"),
        identity: identity("1.0"),
        received_at: NOW + Duration::from_secs(seconds),
    };
    let hooks = vec![hook("one", 0), hook("one", 1), hook("two", 2), hook("former", 0)];
    assert_eq!(store.take_hooks(hooks, 9).await.unwrap(), Inbox::Taken);
    let later = NOW + Duration::from_secs(9);
    for (upstream, due, next) in [("one", 2, Some(0)), ("two", 1, Some(2)), ("three", 0, None)] {
        let found = store.due_hooks(upstream, later, 9).await.unwrap();
        assert!(found.len() == due && found.iter().all(|it| it.hook.upstream == upstream));
        let next = next.map(|seconds| NOW + Duration::from_secs(seconds));
        assert_eq!(store.next_hook(upstream).await.unwrap(), next, "{upstream}");
    }
    let known = || vec!["two".to_owned(), "one".to_owned(), "three".to_owned()];
    assert_eq!(store.drop_hooks_of_others(known()).await.unwrap(), 1);
    assert_eq!(store.drop_hooks_of_others(known()).await.unwrap(), 0);
    assert_eq!(store.waiting_hooks().await.unwrap(), 3);
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
                // Whatever the answer is, it fits together.
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
