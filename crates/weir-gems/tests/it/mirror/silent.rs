//! Upstreams that are silent or slow do not delay others, and their own gems still arrive.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use hyper::StatusCode;
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use weir_base::shutdown::{Drained, ShutdownToken};
use weir_gems::mirror::Scope;
use weir_gems::mirror::progress::Progress;
use weir_gems::package::sample::Sample;
use weir_gems::store::mirror::Refusal;

use super::hooks::{ADD, spec, token, until};
use super::order::{ONE, TWO, two, versions};
use super::origin::Origin;
use super::scripted::{Reply, Scripted};
use super::{Replica, SECRET, Setup};
use crate::store::{NOW, new};

/// Returns a mirror of an index and of an upstream that does not respond until the timeout.
async fn beside_silence(origin: &Origin, silent: &Scripted) -> Replica {
    silent.otherwise(Reply::Silence);
    Setup::new(&[("one", &origin.url()), ("silent", &silent.url())])
        .change(|settings| settings.limits.silence_timeout = Duration::from_secs(3_600))
        .start()
        .await
}

pub(super) fn run(replica: &Replica) -> ShutdownToken {
    let (shutdown, mirror) = (ShutdownToken::new(), Arc::clone(&replica.mirror));
    let twin = shutdown.clone();
    shutdown.spawn(async move { mirror.run(&twin).await });
    shutdown
}

#[tokio::test]
async fn looks_at_one_upstream_do_not_wait_for_one_at_another() {
    let (silent, origin) = (Scripted::start(), Origin::start().await);
    origin.store().push(new("a", "1.0"), NOW).await.unwrap();
    let replica = beside_silence(&origin, &silent).await;
    let shutdown = run(&replica);
    until(|| async { !silent.asked().is_empty() && replica.listed("a").await == ["1.0"] }).await;
    replica.index.clock.advance(Duration::from_secs(7));
    origin.store().push(new("a", "2.0"), NOW).await.unwrap();
    replica.mirror.request_synchronization(Scope::Changes);
    until(|| async { replica.listed("a").await == ["1.0", "2.0"] }).await;
    // Each has a time of its own since when it is known.
    let now = replica.index.clock.now();
    let known = || async { replica.state().await.upstreams[0].last_success == Some(now) };
    until(known).await;
    let state = replica.state().await;
    assert_eq!((state.upstreams[1].last_success, state.rounds_done), (None, 0));
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}

#[tokio::test]
async fn names_that_wait_for_a_slow_upstream_come_when_its_list_was_read() {
    let (slow, other) = (Scripted::start(), Scripted::start());
    let both = slow.gem("both", &[("1.0", [1; 32])]);
    let held = Arc::new(Barrier::new(2));
    let list = format!("created_at: x\n---\n{both}");
    slow.on("/versions", Reply::Held(Arc::clone(&held), list.into_bytes()));
    // Nothing but its list is read.
    slow.on("/info/both", Reply::Silence);
    let lines = [other.gem("both", &[("9.0", [2; 32])]), other.gem("new", &[("9.0", [2; 32])])];
    other.versions(&lines);
    // No synchronization is scheduled.
    let hour = Duration::from_secs(3_600);
    let setup = Setup::new(&[("slow", &slow.url()), ("other", &other.url())]).change(|it| {
        it.interval = hour;
        it.limits.silence_timeout = hour;
        (it.limits.backoff_min, it.limits.backoff_max) = (hour, hour);
    });
    let replica = setup.start().await;
    let shutdown = run(&replica);
    let is_read = || async { replica.state().await.upstreams[1].last_result.is_some() };
    until(is_read).await;
    let waiting = replica.state().await.upstreams[1].last_result.unwrap().work.waiting;
    assert_eq!((waiting, replica.listed("new").await), (2, Vec::new()));
    held.wait();
    until(|| async { replica.listed("new").await == ["9.0"] }).await;
    let refused = &replica.state().await.upstreams[1].refused;
    assert_eq!(*refused, [("both".to_owned(), Refusal::Shadowed)]);
    assert_eq!(replica.listed("both").await, Vec::<String>::new());
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}

#[tokio::test]
async fn the_first_that_has_a_name_gets_it_also_when_the_second_was_asked_before() {
    let (first, second) = (Scripted::start(), Scripted::start());
    versions(&first, &[("one", "1.0")], ONE);
    versions(&second, &[("two", "1.0")], TWO);
    let replica = two(&first, &second).await;
    replica.try_sync().await;
    // Only the second upstream has it, and is slow to respond.
    versions(&second, &[("two", "1.0"), ("late", "9.0")], TWO);
    let barrier = Arc::new(Barrier::new(2));
    let info = format!("---\n9.0 |checksum:{}\n", hex::encode(TWO));
    second.on("/info/late", Reply::Held(Arc::clone(&barrier), info.into_bytes()));
    let look = || {
        let mirror = Arc::clone(&replica.mirror);
        async move { mirror.sync_once(Scope::Changes, Progress::NONE).await }
    };
    let mut looks = JoinSet::new();
    looks.spawn(look());
    until(|| async { second.asked().contains(&"/info/late".to_owned()) }).await;
    versions(&first, &[("one", "1.0"), ("late", "1.0")], ONE);
    looks.spawn(look());
    until(|| async { replica.listed("late").await == ["1.0"] }).await;
    barrier.wait();
    looks.join_all().await;
    assert_eq!(replica.listed("late").await, ["1.0"]);
    let state = replica.state().await;
    assert_eq!(state.upstreams[1].refused, [("late".to_owned(), Refusal::Shadowed)]);
    assert_eq!([0, 1].map(|place| state.upstreams[place].counts.pending), [0, 0]);
    crate::store::assert_consistent(&**replica.store()).await;
}

#[tokio::test]
async fn hooks_of_one_upstream_do_not_wait_for_a_look_at_another() {
    let (silent, origin) = (Scripted::start(), Origin::start().await);
    origin.store().push(new("a", "1.0"), NOW).await.unwrap();
    let replica = beside_silence(&origin, &silent).await;
    let shutdown = run(&replica);
    until(|| async { !silent.asked().is_empty() }).await;
    origin.store().push(new("a", "2.0"), NOW).await.unwrap();
    replica.hook(ADD, "", spec("a", "2.0", &token())).await;
    until(|| async { replica.listed("a").await == ["1.0", "2.0"] }).await;
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}

#[tokio::test]
async fn hooks_of_one_upstream_do_not_wait_for_those_of_another() {
    let (silent, origin) = (Scripted::start(), Origin::start().await);
    let replica = beside_silence(&origin, &silent).await;
    let of_silent = spec("b", "1.0", &format!("{SECRET} silent"));
    assert_eq!(replica.hook(ADD, "", of_silent).await, StatusCode::OK);
    let shutdown = run(&replica);
    until(|| async { !silent.asked().is_empty() }).await;
    for name in ["a", "c"] {
        origin.store().push(new(name, "1.0"), NOW).await.unwrap();
        replica.hook(ADD, "", spec(name, "1.0", &token())).await;
        until(|| async { replica.listed(name).await == ["1.0"] }).await;
    }
    until(|| async { replica.state().await.hooks_waiting == 1 }).await;
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}

#[tokio::test]
async fn files_of_one_upstream_find_a_place_while_another_is_silent() {
    let (silent, origin) = (Scripted::start(), Origin::start().await);
    let sample = Sample::new("a", "1.0");
    origin.index.push_sample(&sample).await;
    silent.versions(&[silent.gem("b", &[("1.0", Sha256::digest("b").into())])]);
    let setup = Setup::new(&[("one", &origin.url()), ("silent", &silent.url())]);
    let replica = setup.change(|it| it.limits.file_fetches_max = 1).start().await;
    replica.try_sync().await;
    silent.on("/gems/b-1.0.gem", Reply::Silence);
    let other = async {
        until(|| async { silent.asked().contains(&"/gems/b-1.0.gem".to_owned()) }).await;
        replica.file("a-1.0").await
    };
    tokio::select! {
        silent = replica.file("b-1.0") => panic!("{}", silent.status),
        other = other => assert_eq!(other.body, sample.build()),
    }
}

#[tokio::test]
async fn one_look_at_all_waits_for_lists_and_not_for_gems() {
    let (first, second) = (Scripted::start(), Scripted::start());
    versions(&first, &[("one", "1.0"), ("both", "1.0")], ONE);
    versions(&second, &[("two", "1.0"), ("both", "9.0")], TWO);
    let hold = |path: &str, text: String| {
        let barrier = Arc::new(Barrier::new(2));
        first.on(path, Reply::Held(Arc::clone(&barrier), text.into_bytes()));
        barrier
    };
    let info = format!("---\n1.0 |checksum:{}\n", hex::encode(ONE));
    let lines = first.gem("one", &[("1.0", ONE)]) + &first.gem("both", &[("1.0", ONE)]);
    let list = hold("/versions", format!("---\n{lines}"));
    let gem = hold("/info/one", info);
    let replica = two(&first, &second).await;
    let mirror = Arc::clone(&replica.mirror);
    let mut look = JoinSet::new();
    look.spawn(async move { mirror.sync_once(Scope::Changes, Progress::NONE).await });
    let is_asked = async |upstream: &Scripted, path: &str| {
        until(|| async { upstream.asked().contains(&path.to_owned()) }).await;
    };
    is_asked(&first, "/versions").await;
    until(|| async { replica.store().counts("second").await.unwrap().names == 2 }).await;
    list.wait();
    until(|| async { replica.listed("two").await == ["1.0"] }).await;
    is_asked(&first, "/info/one").await;
    assert_eq!(replica.listed("one").await, Vec::<String>::new());
    gem.wait();
    for looked in look.join_next().await.unwrap().unwrap() {
        assert!(looked.unwrap().is_complete());
    }
    assert_eq!(replica.listed("both").await, ["1.0"]);
    let refused = &replica.state().await.upstreams[1].refused;
    assert_eq!(*refused, [("both".to_owned(), Refusal::Shadowed)]);
}
