//! Mirrors a whole index, and then its changes.

use weir_gems::index::digest::Digests;
use weir_gems::mirror::Read;

use super::origin::Origin;
use super::scripted::{Reply, Scripted};
use super::{Setup, assert_same};
use crate::store::{NOW, identity, new};

async fn push(origin: &Origin, releases: &[(&str, &str)]) {
    for (name, version) in releases {
        origin.store().push(new(name, version), NOW).await.unwrap();
    }
}

async fn yank(origin: &Origin, name: &str, version: &str) {
    origin.store().yank(&name.parse().unwrap(), &identity(version), NOW).await.unwrap();
}

#[tokio::test]
async fn everything_then_only_what_has_changed() {
    let origin = Origin::start().await;
    let names: Vec<_> = (0..20).map(|number| format!("gem-{number}")).collect();
    for name in &names {
        push(&origin, &[(name, "1.0"), (name, "1.0-java"), (name, "2.0")]).await;
    }
    yank(&origin, "gem-3", "1.0").await;
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    let first = replica.sync().await;
    assert_eq!((first.read, first.work.applied.gems), (Read::Whole(20), 20));
    assert_eq!((first.work.applied.added, first.requests), (59, 21));
    assert_same(&replica, origin.store()).await;

    // A single request shows that nothing has changed.
    let idle = replica.sync().await;
    assert_eq!((idle.read, idle.requests, idle.received_bytes), (Read::Unchanged, 1, 0));

    push(&origin, &[("gem-5", "3.0"), ("new", "1.0"), ("gem-5", "4.0")]).await;
    yank(&origin, "gem-7", "2.0").await;
    for version in ["1.0", "1.0-java", "2.0"] {
        yank(&origin, "gem-9", version).await;
    }
    let next = replica.sync().await;
    // The info of a gem without versions need not be requested.
    assert_eq!((next.read, next.requests), (Read::Tail(4), 4));
    assert_eq!((next.work.applied.added, next.work.applied.yanked), (3, 4));
    assert!(next.received_bytes < 2_000, "{next:?}");
    assert_same(&replica, origin.store()).await;
    let state = replica.state().await;
    let upstream = &state.upstreams[0];
    assert_eq!((upstream.counts.names, upstream.counts.pending), (21, 0));
    assert_eq!((upstream.last_success, &upstream.last_error), (Some(NOW), &None));
    for line in [
        "weir_gems_mirror_requests_total{upstream=\"one\"} 26",
        "weir_gems_mirror_names{upstream=\"one\"} 21",
        "weir_gems_mirror_last_success_timestamp_seconds{upstream=\"one\"} 1700000000",
        "weir_gems_mirror_lag_seconds{upstream=\"one\"} 0.0",
    ] {
        assert!(replica.metrics().contains(line), "{line}\n{}", replica.metrics());
    }
}

#[tokio::test]
async fn a_text_that_was_begun_anew_is_read_and_nothing_else() {
    let origin = Origin::start().await;
    push(&origin, &[("a", "1"), ("a", "2"), ("b", "1"), ("gone", "1")]).await;
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    replica.sync().await;
    yank(&origin, "gone", "1").await;
    push(&origin, &[("b", "2")]).await;
    origin.store().rebaseline(NOW).await.unwrap();
    let looked = replica.sync().await;
    // The tail does not fit, /versions as a whole, and one /info: what is gone has none.
    assert_eq!((looked.read, looked.requests), (Read::Whole(2), 3));
    assert_same(&replica, origin.store()).await;
    assert_eq!(replica.listed("gone").await, Vec::<String>::new());
    assert_eq!(replica.sync().await.read, Read::Unchanged);
}

#[tokio::test]
async fn a_comparison_finds_what_was_never_told() {
    let origin = Origin::start().await;
    for name in ["aa", "ab", "ac", "xa", "y"] {
        push(&origin, &[(name, "1")]).await;
    }
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    replica.sync().await;
    // As if lines had been lost: one name is unknown, one is outdated, one does not exist upstream.
    let name = |text: &str| text.parse().unwrap();
    let note = |text: &str, md5: Option<[u8; 16]>| weir_gems::store::mirror::Noted {
        name: name(text),
        md5,
    };
    let lost = vec![note("ab", None), note("xa", Some([9; 16])), note("zz", Some([9; 16]))];
    replica.store().note("one", lost, None).await.unwrap();
    assert_eq!(replica.sync().await.read, Read::Unchanged);
    let compared = replica.compare().await;
    assert_eq!(compared.read, Read::Whole(3));
    assert_same(&replica, origin.store()).await;
    assert_eq!(replica.state().await.upstreams[0].counts.names, 5);
    assert_eq!(replica.compare().await.read, Read::Whole(0));
}

#[tokio::test]
async fn what_a_release_says_may_change() {
    let upstream = Scripted::start();
    let replica = Setup::new(&[("one", &upstream.url())]).start().await;
    let one = [1; 32];
    upstream.versions(&[upstream.gem("a", &[("1.0", one), ("2.0", one), ("3.0", one)])]);
    replica.sync().await;
    // A removed release, another order, and a release that is added again.
    for releases in [
        &[("1.0", one), ("3.0", one), ("4.0", one)][..],
        &[("3.0", one), ("1.0", one), ("4.0", one)],
        &[("3.0", one)],
        &[("1.0", one), ("3.0", one)],
    ] {
        upstream.versions(&[upstream.gem("a", releases)]);
        replica.sync().await;
        crate::store::assert_consistent(&**replica.store()).await;
        let info = replica.store().info("a").await.unwrap().unwrap();
        let rows = releases
            .iter()
            .map(|(version, sum)| format!("{version} |checksum:{}\n", hex::encode(sum)));
        let expected = format!("---\n{}", rows.collect::<String>());
        assert_eq!(str::from_utf8(&info.content), Ok(&*expected));
    }
}

#[tokio::test]
async fn an_upstream_without_digests_or_ranges_is_read_too() {
    let upstream = Scripted::start();
    let plain = |body: &str| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        Reply::Raw(format!("{head}{body}").into_bytes())
    };
    let line = upstream.gem("a", &[("1.0", [1; 32])]);
    upstream.on("/versions", plain(&format!("---\n{line}")));
    let replica = Setup::new(&[("one", &upstream.url())]).start().await;
    assert_eq!(replica.sync().await.read, Read::Whole(1));
    let more = upstream.gem("b", &[("1.0", [1; 32])]);
    upstream.on("/versions", plain(&format!("---\n{line}{more}")));
    // The mirror requested the tail; the upstream sent the whole text.
    assert_eq!(replica.sync().await.read, Read::Whole(1));
    assert!(upstream.head_of("/versions").contains("\r\nrange: bytes=0-"));
    assert_eq!(replica.listed("b").await, ["1.0"]);
}

#[tokio::test]
async fn names_are_encoded_and_credentials_are_for_one_host() {
    let (upstream, other) = (Scripted::start(), Scripted::start());
    let info =
        b"---\n1.0 |checksum:0000000000000000000000000000000000000000000000000000000000000000\n";
    let md5 = hex::encode(Digests::of(info).md5);
    other.text("/elsewhere", &info[..]);
    let to = format!("HTTP/1.1 302 Found\r\nlocation: {}/elsewhere\r\n\r\n", other.url());
    upstream.on("/info/a.b_c-d", Reply::Raw(to.into_bytes()));
    upstream.versions(&[format!("a.b_c-d 1.0 {md5}\n")]);
    let setup = Setup::new(&[("one", &upstream.url())]).change(|settings| {
        settings.upstreams[0].credentials = Some(weir_base::secret::Secret::new("me:word"));
    });
    let replica = setup.start().await;
    assert!(replica.sync().await.is_complete());
    assert_eq!(replica.listed("a.b_c-d").await, ["1.0"]);
    // "me:word" in base64.
    assert!(upstream.head_of("/versions").contains("authorization: basic bwu6d29yza=="));
    assert!(other.head_of("/elsewhere").contains("get /elsewhere"));
    assert!(!other.head_of("/elsewhere").contains("authorization"));
}
