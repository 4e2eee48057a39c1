//! More webhooks than can be processed before the mirror is interrupted.

use std::time::Duration;

use futures_util::future::join_all;
use hyper::StatusCode;
use weir_base::clock::Clock;
use weir_gems::store::{ImportedGem, TextKind};

use super::hooks::{ADD, RUBYGEMS, done, signed, spec, token};
use super::origin::Origin;
use super::{Replica, Setup, assert_same};
use crate::store::{NOW, release};

const GEMS: usize = 500;
const PARTS: usize = 20;

/// Publishes the releases of a part of the storm at the upstream.
async fn publish(origin: &Origin, part: usize) {
    let gems = (0..GEMS).map(move |gem| ImportedGem {
        name: format!("gem-{gem}").parse().unwrap(),
        releases: vec![weir_gems::release::Release {
            created_at: NOW + Duration::from_secs(part as u64),
            ..release(&format!("{part}.0"), "")
        }],
    });
    origin.store().import(Box::new(gems), &Clock::manual(NOW)).await.unwrap();
}

async fn storm(replica: &Replica, part: usize) {
    let hooks = (0..GEMS).map(|gem| {
        let (name, version) = (format!("gem-{gem}"), format!("{part}.0"));
        async move {
            match gem % 2 {
                0 => replica.hook(ADD, "", spec(&name, &version, &token())).await,
                _ => {
                    let (authorization, body) = signed(&name, &version, &token());
                    replica.hook(RUBYGEMS, &authorization, body).await
                }
            }
        }
    });
    let answers = join_all(hooks).await;
    assert!(answers.iter().all(|status| *status == StatusCode::OK), "{answers:?}");
}

fn restarted(replica: Replica, url: &str) -> Replica {
    let Replica { index, mirror, .. } = replica;
    drop(mirror);
    setup(url).start_on(index.opened_again())
}

fn setup(url: &str) -> Setup {
    Setup::new(&[("one", url)]).change(|settings| settings.limits.batch_gems = 100)
}

#[tokio::test]
async fn ten_thousand_hooks_and_restarts_lose_nothing() {
    let origin = Origin::start().await;
    let mut replica = setup(&origin.url()).start().await;
    let mut random = fastrand::Rng::with_seed(3);
    let mut cut = 0;
    for part in 0..PARTS {
        publish(&origin, part).await;
        storm(&replica, part).await;
        // The work is interrupted at random points; every fourth time a new process continues.
        let patience = Duration::from_micros(random.u64(1..60_000));
        let worked = tokio::time::timeout(patience, replica.mirror.work_off_hooks()).await;
        cut += u32::from(worked.is_err());
        if part % 4 == 3 {
            replica = restarted(replica, &origin.url());
        }
    }
    assert!(cut > 0, "nothing was broken off");
    let waiting = replica.state().await.hooks_waiting;
    let worked = replica.mirror.work_off_hooks().await.unwrap();
    assert_eq!(worked, done(waiting, 0, 0));
    assert_eq!(replica.store().waiting_hooks().await.unwrap(), 0);
    assert_same(&replica, origin.store()).await;
    // Clients that follow /versions see each gem's releases in the order in which they came.
    let text = replica.store().text(TextKind::Versions).await.unwrap().to_vec();
    let text = String::from_utf8(text).unwrap();
    let mut next = vec![0; GEMS];
    for line in text.lines().filter(|line| line.starts_with("gem-")) {
        let mut words = line.split(' ');
        let gem: usize = words.next().unwrap()["gem-".len()..].parse().unwrap();
        for version in words.next().unwrap().split(',') {
            assert_eq!(version, format!("{}.0", next[gem]), "gem-{gem}");
            next[gem] += 1;
        }
    }
    assert!(next.iter().all(|count| *count == PARTS));
}
