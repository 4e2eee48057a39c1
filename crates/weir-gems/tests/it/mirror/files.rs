//! `.gem` files of upstreams: fetched on demand, all in advance, and while upstreams are
//! unavailable.

use std::time::Duration;

use hyper::StatusCode;
use sha2::{Digest, Sha256};
use weir_gems::mirror::settings::FilesWhen;
use weir_gems::package::sample::Sample;

use super::origin::Origin;
use super::scripted::{Reply, Scripted};
use super::{Replica, Setup};

const QUICK: &str = "/quick/Marshal.4.8/shop-1.0.gemspec.rz";

#[tokio::test]
async fn a_file_is_fetched_once_and_kept() {
    let origin = Origin::start().await;
    let sample = Sample::new("shop", "1.0").with_dependency("rack", ">= 2");
    origin.index.push_sample(&sample).await;
    origin.index.push_sample(&Sample::new("shop", "2.0")).await;
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    assert_eq!(replica.file("shop-1.0").await.status, StatusCode::NOT_FOUND);
    replica.sync().await;
    let gemspec = origin.index.get(QUICK).await;
    let first = replica.file("shop-1.0").await;
    assert_eq!((first.status, &first.body[..]), (StatusCode::OK, &sample.build()[..]));
    assert_eq!(replica.state().await.upstreams[0].requests, 3);
    // Offline: the file, ranges of it and its specification are here. The other one is not.
    origin.stop().await;
    assert_eq!(replica.file("shop-1.0").await.body, first.body);
    let range = [("range", "bytes=10-19")];
    let part = replica.index.ask("GET", "/gems/shop-1.0.gem", &range, "").await;
    assert_eq!((part.status.as_u16(), &part.body[..]), (206, &first.body[10..20]));
    let quick = replica.index.get(QUICK).await;
    assert_eq!((quick.status, &quick.body), (StatusCode::OK, &gemspec.body));
    let away = replica.file("shop-2.0").await;
    assert_eq!(away.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(away.text().contains("the upstream one does not answer"), "{}", away.text());
    assert_eq!(away.header("retry-after"), "10");
    let (gems, arriving) = replica.index.files();
    assert_eq!((gems.len(), arriving), (1, 0));
    for line in ["files_total{outcome=\"done\"} 1", "files_total{outcome=\"failed\"} 1"] {
        assert!(replica.metrics().contains(line), "{}", replica.metrics());
    }
}

#[tokio::test]
async fn a_file_that_is_lost_or_damaged_is_fetched_again() {
    let origin = Origin::start().await;
    let sample = Sample::new("shop", "1.0");
    origin.index.push_sample(&sample).await;
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    replica.sync().await;
    assert_eq!(replica.file("shop-1.0").await.status, StatusCode::OK);
    let path = replica.index.files().0.remove(0);
    for damage in [None, Some(&b"half"[..])] {
        match damage {
            None => std::fs::remove_file(&path).unwrap(),
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
        }
        let again = replica.file("shop-1.0").await;
        assert_eq!((again.status, &again.body[..]), (StatusCode::OK, &sample.build()[..]));
        assert_eq!(std::fs::read(&path).unwrap(), sample.build());
    }
    // While the upstream is unavailable the response says so; later the file is fetched.
    std::fs::remove_file(&path).unwrap();
    let index = origin.stop().await;
    let away = replica.file("shop-1.0").await;
    assert!(away.text().contains("the upstream one does not answer"), "{}", away.text());
    let origin = Origin::serve(index);
    let Replica { index, .. } = replica;
    let replica = Setup::new(&[("one", &origin.url())]).start_on(index.opened_again());
    assert_eq!(replica.file("shop-1.0").await.body, sample.build());
    // A file that was pushed here is not fetched from an upstream.
    replica.index.push_sample(&Sample::new("ours", "1.0")).await;
    let ours = replica.index.files().0.into_iter().find(|it| *it != path).unwrap();
    std::fs::remove_file(ours).unwrap();
    assert_eq!(replica.file("ours-1.0").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_push_that_is_refused_does_not_take_a_mirrored_file_away() {
    let origin = Origin::start().await;
    let sample = Sample::new("shop", "1.0");
    origin.index.push_sample(&sample).await;
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    replica.sync().await;
    // While it is judged, somebody may fetch the same file, and finds it in its place.
    let refused = replica.index.push(sample.build()).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    assert_eq!(replica.index.files().0.len(), 1);
    assert_eq!(replica.file("shop-1.0").await.body, sample.build());
    // Another one is nobody's.
    let other = Sample { ruby: ">= 3".to_owned(), ..sample };
    assert_eq!(replica.index.push(other.build()).await.status, StatusCode::CONFLICT);
    assert_eq!(replica.index.files().0.len(), 1);
}

#[tokio::test]
async fn files_that_the_upstream_does_not_have_do_not_keep_others_from_coming() {
    let upstream = Scripted::start();
    let file = Sample::new("shop", "1.0").build();
    let versions = ["1.0", "2.0", "3.0", "4.0"].map(|version| (version, [1; 32]));
    upstream.versions(&[
        upstream.gem("absent", &versions),
        upstream.gem("other", &versions),
        upstream.gem("shop", &[("1.0", Sha256::digest(&file).into())]),
    ]);
    for version in 1..=4 {
        upstream.on(&format!("/gems/other-{version}.0.gem"), ok(b"other"));
    }
    upstream.on("/gems/shop-1.0.gem", ok(&file));
    let setup = Setup::new(&[("one", &upstream.url())]).change(|settings| {
        settings.files = FilesWhen::Eagerly;
        settings.limits.failures_max = 2;
    });
    let looked = setup.start().await.sync().await;
    assert_eq!((looked.files.fetched, looked.files.failed), (1, 8));
}

#[tokio::test]
async fn a_specification_brings_its_file() {
    let origin = Origin::start().await;
    origin.index.push_sample(&Sample::new("shop", "1.0")).await;
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    replica.sync().await;
    assert_eq!(replica.index.get(QUICK).await.body, origin.index.get(QUICK).await.body);
    assert_eq!(replica.store().file("shop-1.0").await.unwrap().map(|it| it.bytes > 0), Some(true));
}

fn ok(body: &[u8]) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    Reply::Raw([head.as_bytes(), body].concat())
}

async fn one_release(upstream: &Scripted, file: &[u8]) -> Replica {
    let sum: [u8; 32] = Sha256::digest(file).into();
    upstream.versions(&[upstream.gem("shop", &[("1.0", sum)])]);
    let replica = Setup::new(&[("one", &upstream.url())]).start().await;
    replica.sync().await;
    replica
}

#[tokio::test]
async fn another_file_than_the_index_says_is_given_to_nobody() {
    let upstream = Scripted::start();
    let file = Sample::new("shop", "1.0").build();
    let replica = one_release(&upstream, &file).await;
    let path = "/gems/shop-1.0.gem";
    let mut other = file.clone();
    other[600] ^= 1;
    let cut = ok(&file);
    let Reply::Raw(mut cut) = cut else { unreachable!() };
    cut.truncate(cut.len() - 1);
    for (reply, expected) in [
        (ok(&other), StatusCode::BAD_GATEWAY),
        (ok(b""), StatusCode::BAD_GATEWAY),
        (ok(&file[1..]), StatusCode::BAD_GATEWAY),
        (Reply::Raw(cut), StatusCode::SERVICE_UNAVAILABLE),
        (Reply::Raw(b"HTTP/1.1 200 OK\r\n".to_vec()), StatusCode::SERVICE_UNAVAILABLE),
        (Reply::Raw(b"SSH-2.0\r\n".to_vec()), StatusCode::SERVICE_UNAVAILABLE),
        (Reply::Raw(b"HTTP/1.1 500 No\r\n\r\n".to_vec()), StatusCode::SERVICE_UNAVAILABLE),
        (Reply::Raw(b"HTTP/1.1 403 No\r\n\r\n".to_vec()), StatusCode::SERVICE_UNAVAILABLE),
    ] {
        upstream.on(path, reply);
        // An upstream that has just failed is left alone for a moment; that is another test.
        let answer = loop {
            let answer = replica.file("shop-1.0").await;
            if !answer.text().contains("has just failed") {
                break answer;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(answer.status, expected, "{}", answer.text());
        assert_eq!(replica.store().file("shop-1.0").await.unwrap(), None);
        assert_eq!(replica.index.files(), (Vec::new(), 0));
    }
    upstream.on(path, ok(&file));
    let answer = loop {
        let answer = replica.file("shop-1.0").await;
        if answer.status == StatusCode::OK {
            break answer;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(&answer.body[..], &file[..]);
}

#[tokio::test]
async fn another_file_than_the_index_says_is_not_kept_when_all_are_fetched_either() {
    let upstream = Scripted::start();
    let file = Sample::new("shop", "1.0").build();
    let Replica { index, .. } = one_release(&upstream, &file).await;
    let mut other = file.clone();
    other[600] ^= 1;
    upstream.on("/gems/shop-1.0.gem", ok(&other));
    let setup = Setup::new(&[("one", &upstream.url())])
        .change(|settings| settings.files = FilesWhen::Eagerly);
    let replica = setup.start_on(index.opened_again());
    let looked = replica.sync().await;
    assert_eq!((looked.files.fetched, looked.files.failed), (0, 1));
    assert_eq!(replica.index.files(), (Vec::new(), 0));
    assert!(replica.metrics().contains("reason=\"digest\"} 1"), "{}", replica.metrics());
    upstream.on("/gems/shop-1.0.gem", ok(&file));
    assert_eq!(replica.sync().await.files.fetched, 1);
}

#[tokio::test]
async fn a_file_that_does_not_come_is_not_waited_for_forever() {
    let upstream = Scripted::start();
    let Replica { index, .. } = one_release(&upstream, b"file").await;
    let setup = Setup::new(&[("one", &upstream.url())])
        .change(|settings| settings.limits.silence_timeout = Duration::from_millis(50));
    let replica = setup.start_on(index.opened_again());
    upstream.on("/gems/shop-1.0.gem", Reply::Silence);
    let answer = replica.file("shop-1.0").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.text().contains("silent for longer"), "{}", answer.text());
}

#[tokio::test]
async fn who_wait_for_the_same_file_share_one_request() {
    let upstream = Scripted::start();
    let file = Sample::new("shop", "1.0").build();
    let replica = one_release(&upstream, &file).await;
    upstream.on("/gems/shop-1.0.gem", ok(&file));
    let ask = || replica.file("shop-1.0");
    let answers = tokio::join!(ask(), ask(), ask(), ask());
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        assert_eq!(&answer.body[..], &file[..]);
    }
    let asked = upstream.asked();
    assert_eq!(asked.iter().filter(|path| path.starts_with("/gems/")).count(), 1, "{asked:?}");
}

#[tokio::test]
async fn an_upstream_that_has_just_failed_is_not_waited_for_again() {
    let upstream = Scripted::start();
    let replica = one_release(&upstream, b"file").await;
    let Replica { index, .. } = replica;
    let setup = Setup::new(&[("one", &upstream.url())]).change(|settings| {
        settings.limits.backoff_min = Duration::from_secs(600);
        settings.limits.backoff_max = Duration::from_secs(600);
    });
    let replica = setup.start_on(index.opened_again());
    upstream.on("/gems/shop-1.0.gem", Reply::Raw(b"HTTP/1.1 502 No\r\n\r\n".to_vec()));
    for _ in 0..5 {
        assert_eq!(replica.file("shop-1.0").await.status, StatusCode::SERVICE_UNAVAILABLE);
    }
    let asked = upstream.asked();
    assert_eq!(asked.iter().filter(|path| path.starts_with("/gems/")).count(), 1, "{asked:?}");
}

#[tokio::test]
async fn files_that_are_fetched_at_once_are_bounded() {
    let upstream = Scripted::start();
    let replica = one_release(&upstream, b"file").await;
    let Replica { index, .. } = replica;
    let setup = Setup::new(&[("one", &upstream.url())])
        .change(|settings| settings.limits.file_fetches_max = 0);
    let replica = setup.start_on(index.opened_again());
    let answer = replica.file("shop-1.0").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.text().contains("gems.mirror.limits.file_fetches_max"), "{}", answer.text());
    assert!(replica.metrics().contains("files_total{outcome=\"full\"} 1"), "{}", replica.metrics());
}

#[tokio::test]
async fn all_files_come_when_that_is_asked_for() {
    let origin = Origin::start().await;
    for name in ["a", "b", "c"] {
        for version in ["1.0", "2.0"] {
            origin.index.push_sample(&Sample::new(name, version)).await;
        }
    }
    let setup = Setup::new(&[("one", &origin.url())])
        .change(|settings| settings.files = FilesWhen::Eagerly);
    let replica = setup.start().await;
    let looked = replica.sync().await;
    assert_eq!((looked.files.fetched, looked.files.failed, looked.requests), (6, 0, 10));
    let again = replica.sync().await;
    assert_eq!((again.files.fetched, again.requests), (0, 1));
    // True offline.
    let theirs = origin.stop().await;
    for name in ["a", "b", "c"] {
        for version in ["1.0", "2.0"] {
            for path in [
                format!("/gems/{name}-{version}.gem"),
                format!("/quick/Marshal.4.8/{name}-{version}.gemspec.rz"),
                format!("/info/{name}"),
            ] {
                let (ours, theirs) = (replica.index.get(&path).await, theirs.get(&path).await);
                assert_eq!((ours.status, ours.body), (StatusCode::OK, theirs.body), "{path}");
            }
        }
    }
}
