//! Pushes over HTTP: which are accepted, and what a rejected push leaves behind.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::{Body, Frame};
use weir_gems::package::sample::Sample;
use weir_gems::store::{Repair, Scope};

use super::Index;
use crate::package_mutations::mutant;
use crate::store::postgres_place;

const MUTANTS: u64 = 1_000;

fn form(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, bytes) in fields {
        form.extend_from_slice(
            format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n").as_bytes(),
        );
        form.extend_from_slice(bytes);
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(b"--x--\r\n");
    form
}

async fn push_form(index: &Index, form: Vec<u8>) -> super::Answer {
    let headers =
        [("authorization", &*index.key), ("content-type", "multipart/form-data; boundary=x")];
    index.ask("POST", "/api/v1/gems", &headers, form).await
}

#[tokio::test]
async fn a_refused_push_is_told_without_the_bytes_that_were_sent() {
    let index = Index::new().await;
    let mut random = fastrand::Rng::with_seed(7);
    let noise: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(4_096).collect();
    let mut colourful = Sample::new("a", "1.0");
    colourful.dependencies.push(("x\u{1b}[31m\u{202e}".to_owned(), ">= 0".to_owned()));
    let path = Sample {
        files: vec![("../\u{1b}]0;title\u{7}".to_owned(), Vec::new())],
        ..Sample::new("b", "1.0")
    };
    for gem in [noise, b"\x1b[2J not a gem".to_vec(), colourful.build(), path.build()] {
        let refused = index.push(gem).await;
        assert!(refused.status.is_client_error(), "{}", refused.status);
        let text = refused.text();
        assert!(text.len() <= 1_001, "{text:?}");
        let is_plain = |letter: char| letter.is_ascii_graphic() || letter == ' ';
        assert!(text.trim_end_matches('\n').chars().all(is_plain), "{text:?}");
    }
}

#[tokio::test]
async fn what_commands_ask_for_in_vain_is_explained() {
    let index = Index::new().await;
    for (method, path, told) in [
        ("GET", "/api/v1/gems/a/owners.yaml", "weir gems key create"),
        ("POST", "/api/v1/gems/a/owners", "no owners"),
        ("DELETE", "/api/v1/gems/a/owners", "weir gems key revoke"),
        ("POST", "/api/v1/api_key", "GEM_HOST_API_KEY"),
        ("GET", "/api/v1/gems/a/else", "nothing at this path"),
    ] {
        let answer = index.ask(method, path, &[], "").await;
        assert_eq!(answer.status.as_u16(), 404, "{path}");
        assert!(answer.text().contains(told), "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_push_answers_what_gem_push_shows() {
    let index = Index::new().await;
    let answer = index.push(Sample::new("rest-client", "1.0").build()).await;
    let expected = "Successfully registered gem: rest-client (1.0)\n";
    assert_eq!((answer.status.as_u16(), answer.text()), (200, expected));
    let java = Sample::new("rest_client", "1.0").for_platform("java").build();
    assert_eq!(
        index.push(java).await.text(),
        "Successfully registered gem: rest_client (1.0-java)\n\
         Warning: the name rest_client can be taken for rest-client.\n"
    );
    let (files, arriving) = index.files();
    assert_eq!((files.len(), arriving), (2, 0));
}

#[tokio::test]
async fn a_gem_may_come_as_a_form() {
    let index = Index::new().await;
    let gem = Sample::new("a", "1.0").build();
    let answer = push_form(&index, form(&[("gem", &gem), ("attestations", b"[]")])).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    assert!(answer.text().contains("attestations are not kept"));
    assert!(index.get("/gems/a-1.0.gem").await.body == gem);
    for (wrong, expected) in [
        (form(&[("attestations", b"[]")]), "no field \"gem\""),
        (form(&[("gem", b"x"), ("gem", b"y")]), "the field \"gem\" twice"),
        (b"--x\r\nno form".to_vec(), "the form can't be read"),
    ] {
        let answer = push_form(&index, wrong).await;
        assert_eq!(answer.status.as_u16(), 400);
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
    index.change(|settings| settings.limits.form_bytes_max = 100);
    let large = push_form(&index, form(&[("attestations", &[b'x'; 200])])).await;
    assert_eq!(large.status.as_u16(), 413, "{}", large.text());
    assert_eq!(index.files().1, 0);
}

#[tokio::test]
async fn a_push_needs_a_key_for_it() {
    let index = Index::new().await;
    let yank_only = index.new_key(|key| key.scopes = vec![Scope::YankRubygem]).await;
    let others = index.new_key(|key| key.gems = vec!["shop-*".parse().unwrap()]).await;
    let end = index.clock.now().as_micros() + 1_000_000;
    let until = index.new_key(|key| key.expires_at_us = Some(end)).await;
    let push = async |key: &str, version: &str| {
        let gem = Sample::new("a", version).build();
        let headers = [("authorization", key)];
        index.ask("POST", "/api/v1/gems", &headers, gem).await.status.as_u16()
    };
    for (key, status) in [("", 401), ("weir_x", 401), (&*yank_only, 403), (&*others, 403)] {
        assert_eq!(push(key, "1").await, status, "{key}");
    }
    let gem = Sample::new("shop", "1").build();
    let told = index.ask("POST", "/api/v1/gems", &[("authorization", &others)], gem).await;
    assert!(told.text().contains("on shop: it is for shop-* alone"), "{}", told.text());
    assert_eq!(push(&until, "1").await, 200);
    assert_eq!(push(&format!("Bearer {until}"), "2").await, 200);
    index.clock.advance(Duration::from_secs(1));
    assert_eq!(push(&until, "3").await, 401);
    assert_eq!(index.files().0.len(), 2);
}

#[tokio::test]
async fn a_refused_push_leaves_nothing_behind() {
    let index = Index::new().await;
    index.push_sample(&Sample::new("a", "1.0")).await;
    let versions = index.get("/versions").await.body;
    let other = Sample { ruby: ">= 3".to_owned(), ..Sample::new("a", "1.0") };
    index.change(|settings| settings.limits.package.entries_max = 1);
    let mut many = Sample::new("b", "1");
    many.files.push(("x".to_owned(), Vec::new()));
    for (gem, status, expected) in [
        (Sample::new("a", "1.0").build(), 409, "with the same contents"),
        (other.build(), 409, "with other contents"),
        (b"no gem".to_vec(), 422, "gem"),
        (Sample::new("-a", "1").build(), 422, "must begin with"),
        (Sample::new("7", "1").build(), 422, "needs a letter"),
        (many.build(), 413, "gems.limits.advanced.entries_max"),
    ] {
        let answer = index.push(gem).await;
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
        assert!(answer.text().contains(expected), "{}", answer.text());
        let (files, arriving) = index.files();
        assert_eq!((files.len(), arriving), (1, 0), "{expected}");
    }
    assert_eq!(index.get("/versions").await.body, versions);
    // A yanked release can't be pushed again, and the file is removed.
    index.yank("gem_name=a&version=1.0").await;
    let other = Sample { ruby: ">= 3".to_owned(), ..Sample::new("a", "1.0") };
    assert_eq!(index.push(other.build()).await.status.as_u16(), 409);
    assert_eq!(index.files().0.len(), 1);
}

#[tokio::test]
async fn the_size_of_a_gem_is_bounded_before_it_is_read() {
    let index = Index::new().await;
    index.change(|settings| {
        settings.limits.package.gem_bytes_max = 1_000;
        settings.limits.form_bytes_max = 100;
    });
    let gem = Sample::new("a", "1").build();
    let announced = [("authorization", &*index.key), ("content-length", "1101")];
    let answer = index.ask("POST", "/api/v1/gems", &announced, Bytes::new()).await;
    assert_eq!(answer.status.as_u16(), 413);
    let answer = index.push(gem.clone()).await;
    assert_eq!(answer.status.as_u16(), 413, "{}", answer.text());
    assert!(answer.text().contains("gems.limits.gem_bytes_max"));
    assert_eq!(push_form(&index, form(&[("gem", &gem)])).await.status.as_u16(), 413);
    let line = "weir_gems_limit_hits_total{limit=\"gem_bytes_max\"} 3\n";
    assert!(index.metrics().contains(line), "{}", index.metrics());
    assert_eq!(index.files(), (Vec::new(), 0));
}

/// A body that never sends anything.
struct Silent;

impl Body for Silent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Pending
    }
}

/// A body that ends when the test allows it.
struct Slow {
    gem: Option<Bytes>,
    end: tokio::sync::oneshot::Receiver<()>,
}

impl Body for Slow {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.gem.take() {
            Some(gem) => Poll::Ready(Some(Ok(Frame::data(gem)))),
            None => Pin::new(&mut self.end).poll(context).map(|_| None),
        }
    }
}

/// Sends a request whose key is revoked during its body. Returns the status.
async fn ends_meanwhile(index: &Index, key: &str, path: &str, end_key: impl AsyncFnOnce()) -> u16 {
    let (sender, end) = tokio::sync::oneshot::channel();
    let method = if path.contains("yank") { "DELETE" } else { "POST" };
    let gem = Sample::new("a", "1").build();
    let gem = (method == "POST").then(|| gem.into());
    let request = Request::builder().method(method).uri(path).header("authorization", key);
    let mut answer = Box::pin(index.gems.answer(request.body(Slow { gem, end }).unwrap()));
    // The request is now waiting for the end of its body.
    let polled = std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context)));
    assert!(polled.await.is_pending());
    end_key().await;
    sender.send(()).unwrap();
    answer.await.status().as_u16()
}

#[tokio::test]
async fn a_key_counts_when_a_gem_is_taken_not_when_it_began_to_come() {
    let index = Index::new().await;
    for path in ["/api/v1/gems", "/api/v1/gems/yank?gem_name=a&version=1"] {
        let end = index.clock.now().as_micros() + 1_000_000;
        let key = index.new_key(|key| key.expires_at_us = Some(end)).await;
        let expire = async || index.clock.advance(Duration::from_secs(1));
        assert_eq!(ends_meanwhile(&index, &key, path, expire).await, 401, "{path}");
        let key = index.new_key(|_| {}).await;
        let revoke = async || {
            let last = index.gems.store().keys().await.unwrap().pop().unwrap();
            assert!(index.gems.store().remove_key(last.id).await.unwrap());
        };
        assert_eq!(ends_meanwhile(&index, &key, path, revoke).await, 401, "{path}");
    }
    assert_eq!(index.files(), (Vec::new(), 0));
}

fn silent_push(index: &Index) -> Request<Silent> {
    let request = Request::builder().method("POST").uri("/api/v1/gems");
    request.header("authorization", &*index.key).body(Silent).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_holds_a_place_for_so_long_only() {
    let index = Index::new().await;
    let max = usize::try_from(index.settings.load().limits.pushes_max).unwrap();
    let silent = || async {
        let answer = index.gems.answer(silent_push(&index)).await;
        answer.status().as_u16()
    };
    let mut waiting: Vec<_> = (0..max).map(|_| Box::pin(silent())).collect();
    for push in &mut waiting {
        // Each request is now waiting for its body.
        let polled = std::future::poll_fn(|context| Poll::Ready(push.as_mut().poll(context)));
        assert!(polled.await.is_pending());
    }
    let refused = index.gems.answer(silent_push(&index)).await;
    assert_eq!(refused.status().as_u16(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    let text = refused.into_body().collect().await.unwrap().to_bytes();
    assert!(str::from_utf8(&text).unwrap().contains("gems.limits.pushes_max"));
    for push in waiting {
        assert_eq!(push.await, 408);
    }
    assert!(index.push(Sample::new("a", "1").build()).await.status.is_success());
    assert_eq!(index.files().1, 0);
    index.change(|settings| settings.limits.pushes_max = 0);
    assert_eq!(index.push(Sample::new("b", "1").build()).await.status.as_u16(), 503);
}

#[tokio::test]
async fn damaged_gems_leave_no_half_written_state() {
    leaves_no_half_written_state(Index::new().await).await;
}

#[tokio::test]
async fn nor_do_they_in_postgres() {
    let Some(place) = postgres_place() else { return };
    leaves_no_half_written_state(Index::on(place.store()).await).await;
}

async fn leaves_no_half_written_state(index: Index) {
    let mut taken = 0;
    for seed in 0..MUTANTS {
        let answer = index.push(mutant(seed)).await;
        match answer.status.as_u16() {
            200 => taken += 1,
            400..=499 => {}
            other => panic!("seed {seed}: {other}: {}", answer.text()),
        }
    }
    assert!(taken > 50, "{taken}");
    let (files, arriving) = index.files();
    assert_eq!((files.len(), arriving), (taken, 0));
    let report = index.gems.store().verify(Repair::Leave, index.clock.now()).await.unwrap();
    assert_eq!((report.problems, report.releases), (Vec::new(), taken as u64));
    crate::store::assert_consistent(&**index.gems.store()).await;
}
