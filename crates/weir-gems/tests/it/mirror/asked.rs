//! A mirror synchronizes on request and reports the outcome.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use weir_base::shutdown::{Drained, ShutdownToken};
use weir_gems::mirror::Scope;
use weir_gems::view::{MirrorView, ReadView};

use super::origin::Origin;
use super::{Replica, Setup};
use crate::store::{NOW, new};

async fn view(replica: &Replica) -> MirrorView {
    replica.index.gems.mirrored().await.unwrap().unwrap()
}

pub(super) async fn until<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}

#[tokio::test]
async fn who_asks_is_answered_by_a_look_that_began_later() {
    let origin = Origin::start().await;
    origin.store().push(new("a", "1.0"), NOW).await.unwrap();
    let replica = Setup::new(&[("one", &origin.url())]).start().await;
    let before = view(&replica).await;
    assert_eq!((before.rounds_done, before.upstreams[0].last_success_at), (0, None));
    let (shutdown, mirror) = (ShutdownToken::new(), Arc::clone(&replica.mirror));
    let twin = shutdown.clone();
    shutdown.spawn(async move { mirror.run(&twin).await });
    until(|| async { view(&replica).await.rounds_done == 1 }).await;

    // The clock stands still, so nothing else starts a synchronization.
    origin.store().push(new("a", "2.0"), NOW).await.unwrap();
    let round = replica.index.gems.request_synchronization(Scope::Changes).unwrap();
    until(|| async { view(&replica).await.rounds_done == round }).await;
    assert_eq!(replica.listed("a").await, ["1.0", "2.0"]);
    let upstream = view(&replica).await.upstreams.remove(0);
    let looked = upstream.last_result.unwrap();
    assert_eq!((looked.read, looked.names, looked.added), (ReadView::Tail, 1, 1));
    assert_eq!((looked.requests, upstream.names, upstream.pending), (2, 1, 0));
    assert_eq!((upstream.progress, upstream.last_error), (None, None));

    let round = replica.index.gems.request_synchronization(Scope::Everything).unwrap();
    until(|| async { view(&replica).await.rounds_done == round }).await;
    let looked = view(&replica).await.upstreams.remove(0).last_result.unwrap();
    assert_eq!((looked.read, looked.names), (ReadView::Whole, 0));
    assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
}
