//! Upstreams with wrong responses: nothing of these is stored, and existing data stays.

use std::sync::Arc;
use std::time::Duration;

use weir_base::shutdown::{Drained, ShutdownToken};
use weir_gems::mirror::progress::Progress;
use weir_gems::mirror::{Problem, Read, Scope};

use super::asked::until;
use super::scripted::{Reply, Scripted};
use super::{Replica, Setup};

pub(super) const SUM: [u8; 32] = [1; 32];

pub(super) async fn with_one_gem(upstream: &Scripted) -> Replica {
    upstream.versions(&[upstream.gem("a", &[("1.0", SUM)])]);
    let setup = Setup::new(&[("one", &upstream.url())]).change(|settings| {
        let limits = &mut settings.limits;
        limits.versions_bytes_max = 10_000;
        limits.line_bytes_max = 1_000;
        limits.names_max = 20;
        limits.names_gone_max = 3;
        limits.names_gone_percent_max = 100;
        limits.malformed_lines_max = 2;
        limits.info_bytes_max = 1_000;
    });
    let replica = setup.start().await;
    replica.sync().await;
    replica
}

fn raw(head: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Raw(format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes())
}

#[tokio::test]
async fn a_text_that_is_none_changes_nothing() {
    let upstream = Scripted::start();
    let replica = with_one_gem(&upstream).await;
    let line = upstream.gem("b", &[("1.0", SUM)]);
    let whole = |lines: &str| raw("200 OK", &format!("---\n{lines}"));
    let many: String = (0..30).map(|number| line.replace("b ", &format!("b{number} "))).collect();
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (reply, expected) in [
        (raw("404 Not Found", ""), "the answer was 404"),
        (raw("401 Unauthorized", ""), "credentials"),
        (raw("500 Broken", ""), "the answer was 500"),
        (raw("200 OK", "<html>\n<p>\n"), "does not begin with `---`"),
        (raw("200 OK", ""), "does not begin with `---`"),
        (whole("b 1.0"), "ends in the middle of a line"),
        (whole("x\nx\nx\n"), "3 of its lines can't be read"),
        (whole(&"x".repeat(1_001)), "line_bytes_max"),
        (whole(&many), "names_max"),
        (whole(&line.repeat(300)), "versions_bytes_max"),
        (
            raw(
                "200 OK\r\nrepr-digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:",
                "---\n",
            ),
            "other digests",
        ),
        (
            Reply::Raw(format!("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n---\n{line}").into()),
            "HTTP",
        ),
        (Reply::Raw(format!("{chunked}4\r\n---\n\r\n").into()), "HTTP"),
        (raw("302 Found\r\nlocation: /versions", ""), "sends us on"),
        (raw("302 Found\r\nlocation: ftp://x/", ""), "a redirect"),
        (Reply::Raw(b"nonsense\r\n\r\n".to_vec()), "HTTP"),
    ] {
        upstream.on("/versions", reply);
        let looked = replica.mirror.sync_once(Scope::Everything, Progress::NONE).await.remove(0);
        let error = looked.unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("the upstream one"), "{error}");
        assert_eq!(replica.listed("a").await, ["1.0"], "{error}");
        assert_eq!(
            replica.state().await.upstreams[0].last_error.as_ref(),
            Some(&error[18..].to_owned())
        );
        assert_eq!(replica.state().await.upstreams[0].counts.names, 1, "{error}");
    }
    for (reason, count) in
        [("status", 2), ("content", 8), ("digest", 1), ("http", 3), ("redirect", 2)]
    {
        let line = format!("failures_total{{upstream=\"one\",reason=\"{reason}\"}} {count}");
        assert!(replica.metrics().contains(&line), "{line} {}", replica.metrics());
    }
    upstream.versions(&[upstream.gem("a", &[("1.0", SUM)]), line]);
    assert_eq!(replica.sync().await.read, Read::Tail(1));
    assert_eq!(replica.state().await.upstreams[0].last_error, None);
}

#[tokio::test]
async fn silence_has_an_end() {
    let upstream = Scripted::start();
    let Replica { index, .. } = with_one_gem(&upstream).await;
    let setup = Setup::new(&[("one", &upstream.url())])
        .change(|settings| settings.limits.silence_timeout = Duration::from_millis(50));
    let replica = setup.start_on(index.opened_again());
    upstream.on("/versions", Reply::Silence);
    let error = replica.try_sync().await.remove(0).unwrap_err().to_string();
    assert!(error.contains("it was silent for longer than"), "{error}");
    assert_eq!(replica.listed("a").await, ["1.0"]);
    assert!(replica.metrics().contains("reason=\"timeout\"} 1"), "{}", replica.metrics());
}

#[tokio::test]
async fn a_tail_that_does_not_fit_is_left_for_the_whole() {
    let upstream = Scripted::start();
    let first = upstream.gem("a", &[("1.0", SUM)]);
    let replica = with_one_gem(&upstream).await;
    let position = replica.store().position("one").await.unwrap().unwrap();
    let end = String::from_utf8(position.overlap.clone()).unwrap();
    let from = position.length - position.overlap.len() as u64;
    let tail = |range: u64, body: &str| {
        raw(&format!("206 Partial\r\ncontent-range: bytes {range}-999/1000"), body)
    };
    let wrong = "repr-digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
    for reply in [
        tail(from + 1, &end),
        tail(from, &end[1..]),
        tail(from, ""),
        tail(from, &format!("x{end}")),
        tail(from, &format!("x{}", &end[1..])),
        tail(from, &format!("{end}half a line")),
        tail(from, &format!("{end}no line\n")),
        raw(&format!("206 P\r\ncontent-range: bytes {from}-9/10\r\n{wrong}"), &end),
        raw("416 No", ""),
        raw("206 Partial", &end),
    ] {
        // All answers to that path are alike here: the tail is refused, and then "all of it", too.
        upstream.on("/versions", reply);
        upstream.forget();
        let looked = replica.try_sync().await.remove(0);
        assert!(matches!(looked.unwrap_err().problem, Problem::NoVersions(206 | 416)));
        assert_eq!(upstream.asked().len(), 2);
        assert_eq!(replica.store().position("one").await.unwrap(), Some(position.clone()));
    }
    let more = format!("{end}{}", upstream.gem("b", &[("1.0", SUM)]));
    upstream.on("/versions", tail(from, &more));
    assert_eq!(replica.sync().await.read, Read::Tail(1));
    assert_eq!(replica.listed("b").await, ["1.0"]);
    assert!(!first.is_empty());
}

#[tokio::test]
async fn an_info_that_is_not_what_versions_says_stays_to_be_done() {
    let upstream = Scripted::start();
    let replica = with_one_gem(&upstream).await;
    let lines = [
        upstream.gem("a", &[("1.0", SUM), ("2.0", SUM)]),
        upstream.gem("b", &[("1.0", SUM)]),
        upstream.gem("c", &[("1.0", SUM)]),
        upstream.gem("d", &[("1.0", SUM)]),
    ];
    upstream.versions(&lines);
    upstream.text("/info/a", "---\n3.0 |checksum:00\n");
    upstream.on("/info/b", raw("404 Not Found", ""));
    upstream.on("/info/c", raw("200 OK", &"x".repeat(1_001)));
    let looked = replica.sync().await;
    assert_eq!((looked.work.mismatched, looked.work.failed), (2, 1));
    assert!(!looked.is_complete());
    assert_eq!(replica.listed("a").await, ["1.0"]);
    assert_eq!(replica.listed("d").await, ["1.0"]);
    let state = replica.state().await.upstreams.remove(0);
    assert_eq!((state.counts.pending, state.counts.names), (3, 4));
    let miss = state.last_miss.unwrap_or_default();
    assert!(miss.contains("/info/"), "{miss}");
    for reason in ["digest", "content"] {
        assert!(
            replica.metrics().contains(&format!("reason=\"{reason}\"")),
            "{}",
            replica.metrics()
        );
    }
    // The retry bypasses caches.
    assert!(upstream.head_of("/info/a").contains("cache-control: no-cache"));
    upstream.gem("a", &[("1.0", SUM), ("2.0", SUM)]);
    upstream.gem("b", &[("1.0", SUM)]);
    upstream.gem("c", &[("1.0", SUM)]);
    assert!(replica.sync().await.is_complete());
    assert_eq!(replica.state().await.upstreams[0].last_miss, None);
    assert_eq!(replica.listed("a").await, ["1.0", "2.0"]);
    crate::store::assert_consistent(&**replica.store()).await;
}

#[tokio::test]
async fn an_upstream_that_asks_to_be_left_alone_is_not_looked_at_meanwhile() {
    let (busy, other) = (Scripted::start(), Scripted::start());
    busy.on("/versions", raw("429 Too Many\r\nretry-after: 3600", ""));
    other.versions(&[other.gem("a", &[("1.0", SUM)])]);
    let setup = Setup::new(&[("busy", &busy.url()), ("other", &other.url())]);
    let replica = setup.change(|it| it.interval = Duration::from_millis(1)).start().await;
    let (shutdown, mirror) = (ShutdownToken::new(), Arc::clone(&replica.mirror));
    let twin = shutdown.clone();
    shutdown.spawn(async move { mirror.run(&twin).await });
    let error = || async { replica.state().await.upstreams[0].last_error.clone() };
    until(|| async { error().await.is_some() && other.asked().len() > 50 }).await;
    assert_eq!(busy.asked(), ["/versions"]);
    let told = error().await.unwrap_or_default();
    assert!(told.ends_with("it is too busy, and asks to come again in 3600 s"), "{told}");
    // A request of an operator overrides the wait.
    replica.mirror.request_synchronization(Scope::Changes);
    until(|| async { busy.asked().len() == 2 }).await;
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}

#[tokio::test]
async fn names_that_fail_each_time_do_not_hold_up_the_others() {
    for broken in ["500 No", "403 Not For You"] {
        let upstream = Scripted::start();
        let names: Vec<_> = (0..60).map(|number| format!("g{number}")).collect();
        let lines: Vec<_> = names.iter().map(|name| upstream.gem(name, &[("1.0", SUM)])).collect();
        upstream.versions(&lines);
        let (broken_names, good) = names.split_at(12);
        for name in broken_names {
            upstream.on(&format!("/info/{name}"), raw(broken, ""));
        }
        let setup = Setup::new(&[("one", &upstream.url())]).change(|settings| {
            settings.limits.batch_gems = 20;
            settings.limits.requests_max = 16;
        });
        let replica = setup.start().await;
        for _ in 0..30 {
            replica.try_sync().await;
        }
        for name in good {
            assert_eq!(replica.listed(name).await, ["1.0"], "{broken}: {name}");
        }
        let state = replica.state().await.upstreams.remove(0);
        assert_eq!((state.counts.pending, state.last_success), (12, None));
    }
}

#[tokio::test]
async fn an_upstream_that_denies_everything_is_not_asked_for_everything() {
    let upstream = Scripted::start();
    let lines: Vec<_> =
        (0..60).map(|number| upstream.gem(&format!("g{number}"), &[("1.0", SUM)])).collect();
    upstream.versions(&lines);
    for number in 0..60 {
        upstream.on(&format!("/info/g{number}"), raw("401 No", ""));
    }
    let setup = Setup::new(&[("one", &upstream.url())]);
    let replica = setup.change(|it| it.limits.batch_gems = 2).start().await;
    let error = replica.try_sync().await.remove(0).unwrap_err().to_string();
    assert!(error.contains("credentials"), "{error}");
    assert!(upstream.asked().len() < 30, "{:?}", upstream.asked());
}

#[tokio::test]
async fn lines_that_are_left_out_are_told() {
    let upstream = Scripted::start();
    let good = upstream.gem("a", &[("1.0", SUM), ("1 0", SUM)]);
    upstream.versions(&["one\n".to_owned(), good.replace("a 1.0,1 0 ", "a 1.0 ")]);
    let replica = Setup::new(&[("one", &upstream.url())]).start().await;
    let looked = replica.sync().await;
    assert_eq!((looked.left_out, looked.is_complete()), (2, true));
    assert_eq!(replica.listed("a").await, ["1.0"]);
    assert_eq!(replica.sync().await.left_out, 0);
}

#[tokio::test]
async fn a_look_is_given_up_when_nothing_is_answered_any_more() {
    let upstream = Scripted::start();
    let replica = with_one_gem(&upstream).await;
    let lines: Vec<_> =
        (0..20).map(|number| upstream.gem(&format!("g{number}"), &[("1.0", SUM)])).collect();
    upstream.versions(&lines);
    for number in 0..20 {
        upstream.on(&format!("/info/g{number}"), raw("500 No", ""));
    }
    upstream.forget();
    let Replica { index, .. } = replica;
    let setup =
        Setup::new(&[("one", &upstream.url())]).change(|settings| settings.limits.failures_max = 2);
    let replica = setup.start_on(index.opened_again());
    let error = replica.try_sync().await.remove(0).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("/info/g") && error.contains("the answer was 500"), "{error}");
    // Far fewer than two requests per name: two attempts for some of them.
    assert!(upstream.asked().len() < 25, "{:?}", upstream.asked());
    for number in 0..20 {
        upstream.gem(&format!("g{number}"), &[("1.0", SUM)]);
    }
    assert!(replica.sync().await.is_complete());
}
