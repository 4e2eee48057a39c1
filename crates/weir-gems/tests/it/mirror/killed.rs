//! A mirror that is interrupted at any point, or killed, continues where it stopped.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;
use weir_gems::mirror::progress::Progress;
use weir_gems::mirror::{Mirror, Read, Scope};

use super::origin::Origin;
use super::scripted::Scripted;
use super::{Replica, Setup, assert_same};
use crate::http::Index;
use crate::store::{NOW, identity, new, postgres_at, postgres_place};

/// Interrupts a synchronization after a number of progress reports. Returns whether it was
/// interrupted.
async fn cut_after(mirror: &Mirror, scope: Scope, reports: u32) -> bool {
    let (count, cut) = (AtomicU32::new(0), Arc::new(Notify::new()));
    let ring = Arc::clone(&cut);
    let report = move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == reports {
            ring.notify_one();
        }
    };
    tokio::select! {
        biased;
        () = cut.notified() => true,
        _ = mirror.sync_once(scope, Progress(&report)) => false,
    }
}

#[tokio::test]
async fn whatever_is_cut_off_is_done_by_the_next_looks() {
    let origin = Origin::start().await;
    for number in 0..30 {
        let name = format!("gem-{number}");
        origin.store().push(new(&name, "1.0"), NOW).await.unwrap();
    }
    let url = origin.url();
    let setup = || Setup::new(&[("one", &url)]);
    let mut replica = setup().start().await;
    let (mut cuts, mut last) = (0, 0);
    for step in 0..24_u32 {
        let number = step % 30;
        let name = format!("gem-{number}");
        origin.store().push(new(&name, &format!("2.{step}")), NOW).await.unwrap();
        origin.store().yank(&name.parse().unwrap(), &identity("1.0"), NOW).await.unwrap();
        if step % 7 == 3 {
            origin.store().rebaseline(NOW).await.unwrap();
        }
        let scope = if step % 5 == 4 { Scope::Everything } else { Scope::Changes };
        cuts += u32::from(cut_after(&replica.mirror, scope, step % 6).await);
        // As after a killed process: only the data on disk remains.
        let Replica { index, mirror, .. } = replica;
        drop(mirror);
        replica = setup().start_on(index.opened_again());
        crate::store::assert_consistent(&**replica.store()).await;
        let counts = replica.store().counts("one").await.unwrap();
        last = last.max(counts.names - counts.pending);
    }
    assert!(cuts > 10, "only {cuts} were cut off");
    assert!(last > 0, "nothing was done between the cuts");
    replica.sync().await;
    assert_same(&replica, origin.store()).await;
    assert_eq!(replica.sync().await.read, Read::Unchanged);
}

#[tokio::test]
async fn what_was_applied_is_not_fetched_again() {
    let upstream = Scripted::start();
    let lines: Vec<_> =
        (0..30).map(|number| upstream.gem(&format!("g{number}"), &[("1.0", [1; 32])])).collect();
    upstream.versions(&lines);
    let replica = Setup::new(&[("one", &upstream.url())]).start().await;
    // Batches of three: the first reports are of /versions.
    assert!(cut_after(&replica.mirror, Scope::Changes, 6).await);
    let Replica { index, mirror, .. } = replica;
    drop(mirror);
    let replica = Setup::new(&[("one", &upstream.url())]).start_on(index.opened_again());
    let counts = replica.store().counts("one").await.unwrap();
    let done = counts.names - counts.pending;
    assert!((3..30).contains(&done), "{counts:?}");
    upstream.forget();
    let looked = replica.sync().await;
    assert_eq!((looked.read, looked.requests), (Read::Unchanged, 1 + counts.pending));
    assert_eq!(replica.state().await.upstreams[0].counts.pending, 0);
}

const UPSTREAM: &str = "WEIR_GEMS_MIRROR_KILLED_UPSTREAM";
/// One of these: a folder, or a URL and a schema.
const FOLDER: &str = "WEIR_GEMS_MIRROR_KILLED_FOLDER";
const DATABASE: &str = "WEIR_GEMS_MIRROR_KILLED_DATABASE";
const KILLS: u32 = 6;

/// Not a test by itself: runs as the process that is killed.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "this is how the parent names its store")]
async fn child() {
    let Ok(url) = std::env::var(UPSTREAM) else { return };
    let setup = Setup::new(&[("one", &url)]);
    match (std::env::var(FOLDER), std::env::var(DATABASE)) {
        (Ok(folder), _) => work(setup.start_on(Index::at(Path::new(&folder)))).await,
        (_, Ok(address)) => work(setup.start_on(Index::on(postgres_at(&address)).await)).await,
        _ => panic!("no store is named"),
    }
}

/// Prints the progress.
async fn work(replica: Replica) {
    let report = |progress| println!("at {progress:?}");
    for _ in 0..100 {
        for scope in [Scope::Changes, Scope::Everything] {
            let looked = replica.mirror.sync_once(scope, Progress(&report)).await;
            println!("at {looked:?}");
        }
    }
}

/// Runs a child and kills it after some lines.
fn kill_after((variable, store): (&str, &str), url: &str, lines: u32) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mirror::killed::child", "--nocapture"])
        .envs([(variable, store), (UPSTREAM, url)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        said += u32::from(line.unwrap().contains("at "));
        if said == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(said >= lines, "it ended by itself after {said} lines");
}

#[tokio::test]
async fn a_process_that_is_killed_leaves_nothing_half_done() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().to_str().unwrap();
    survives_kills((FOLDER, store), async || Index::at(folder.path())).await;
}

#[tokio::test]
async fn nor_does_it_in_postgres() {
    let Some(place) = postgres_place() else { return };
    let store = place.address();
    survives_kills((DATABASE, &store), async || Index::on(place.store()).await).await;
}

async fn survives_kills((variable, store): (&'static str, &str), open: impl AsyncFn() -> Index) {
    let origin = Origin::start().await;
    let mut random = fastrand::Rng::with_seed(11);
    for kill in 0..KILLS {
        for number in 0..40 {
            let name = format!("gem-{number}");
            origin.store().push(new(&name, &format!("{kill}.0")), NOW).await.unwrap();
        }
        let (store, url, lines) = (store.to_owned(), origin.url(), random.u32(2..16));
        // The origin answers on threads of its own.
        let killing =
            tokio::task::spawn_blocking(move || kill_after((variable, &store), &url, lines));
        killing.await.unwrap();
        crate::store::assert_consistent(&**open().await.gems.store()).await;
    }
    let replica = Setup::new(&[("one", &origin.url())]).start_on(open().await);
    replica.sync().await;
    assert_same(&replica, origin.store()).await;
}
