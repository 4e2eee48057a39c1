//! Guarantees of every store about webhook events.

use std::time::Duration;

use weir_base::clock::Clock;
use weir_base::clock::Timestamp;
use weir_gems::store::webhooks::{Change, Claim, Claimed, Settled, WebhookStore};
use weir_gems::store::{ImportedGem, PushError};

use super::super::{NOW, identity, new, release};

const HELD: Duration = Duration::from_secs(30);

async fn listen(store: &(impl WebhookStore + ?Sized), names: &[&str]) {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    store.set_webhook_endpoints(names, 100).await.unwrap();
}

async fn claim(
    store: &(impl WebhookStore + ?Sized),
    endpoint: &str,
    holder: &str,
    now: Timestamp,
) -> Option<Claimed> {
    let (endpoint, holder) = (endpoint.to_owned(), holder.to_owned());
    let claim = Claim { endpoint, holder, held_until: now + HELD, events_max: 3 };
    store.claim_webhooks(claim, now).await.unwrap()
}

fn settled(endpoint: &str, holder: &str, done: Option<u64>) -> Settled {
    let (endpoint, holder) = (endpoint.to_owned(), holder.to_owned());
    Settled { endpoint, holder, done, failures: 0, due_at: NOW, held_until: None }
}

fn told(claimed: &Claimed) -> Vec<String> {
    let all = claimed.events.iter();
    all.map(|it| format!("{} {:?} {} {}", it.id, it.change, it.name, it.number)).collect()
}

pub(crate) async fn an_event_is_kept_with_its_change(store: impl WebhookStore) {
    store.push(new("before", "1"), NOW).await.unwrap();
    listen(&store, &["a"]).await;
    store.push(new("shop", "1.0-java"), NOW).await.unwrap();
    assert!(matches!(store.push(new("shop", "1.0-java"), NOW).await, Err(PushError::Conflict(_))));
    let later = NOW + Duration::from_secs(5);
    store.yank(&"shop".parse().unwrap(), &identity("1.0-java"), later).await.unwrap();
    assert!(store.yank(&"shop".parse().unwrap(), &identity("9"), NOW).await.is_err());
    let gem = ImportedGem { name: "i".parse().unwrap(), releases: vec![release("1", "")] };
    store.import(Box::new([gem].into_iter()), &Clock::manual(NOW)).await.unwrap();
    let state = &store.webhook_endpoints().await.unwrap()[0];
    assert_eq!((state.name.as_str(), state.waiting, state.oldest_at), ("a", 2, Some(NOW)));
    let claimed = claim(&store, "a", "me", NOW).await.unwrap();
    assert_eq!(told(&claimed), ["1 Pushed shop 1.0", "2 Yanked shop 1.0"]);
    assert_eq!((claimed.failures, claimed.dropped), (0, 0));
    let yanked = &claimed.events[1];
    assert_eq!(
        (yanked.change, yanked.platform.as_str(), yanked.at),
        (Change::Yanked, "java", later)
    );
    for (event, is_yanked) in claimed.events.iter().zip([false, true]) {
        let release: serde_json::Value = serde_json::from_str(&event.release).unwrap();
        assert_eq!(release["sha"], "07".repeat(32));
        assert_eq!(release["yanked"], is_yanked);
        assert_eq!(release["dependencies"]["runtime"][0]["requirements"], "< 4, >= 2");
    }
}

pub(crate) async fn each_endpoint_has_its_own_place(store: impl WebhookStore) {
    listen(&store, &["a", "b"]).await;
    for version in ["1", "2", "3", "4"] {
        store.push(new("shop", version), NOW).await.unwrap();
    }
    let of_a = claim(&store, "a", "me", NOW).await.unwrap();
    assert_eq!(told(&of_a)[2..], ["3 Pushed shop 3"]);
    assert!(store.settle_webhooks(settled("a", "me", Some(2))).await.unwrap());
    assert_eq!(told(&claim(&store, "a", "me", NOW).await.unwrap())[..1], ["3 Pushed shop 3"]);
    assert_eq!(told(&claim(&store, "b", "me", NOW).await.unwrap())[..1], ["1 Pushed shop 1"]);
    // A new endpoint starts now, a removed one is deleted, and others keep their positions.
    listen(&store, &["a", "c"]).await;
    assert!(claim(&store, "b", "me", NOW).await.is_none());
    assert!(claim(&store, "c", "me", NOW).await.unwrap().events.is_empty());
    let waiting = store.webhook_endpoints().await.unwrap().into_iter();
    let waiting: Vec<_> = waiting.map(|it| (it.name, it.waiting)).collect();
    assert_eq!(waiting, [("a".to_owned(), 2), ("c".to_owned(), 0)]);
    store.push(new("shop", "5"), NOW).await.unwrap();
    assert_eq!(told(&claim(&store, "c", "me", NOW).await.unwrap()), ["5 Pushed shop 5"]);
    listen(&store, &[]).await;
    store.push(new("shop", "6"), NOW).await.unwrap();
    listen(&store, &["a"]).await;
    assert_eq!(store.webhook_endpoints().await.unwrap()[0].waiting, 0);
}

pub(crate) async fn one_sender_has_an_endpoint(store: impl WebhookStore) {
    listen(&store, &["a"]).await;
    store.push(new("shop", "1"), NOW).await.unwrap();
    assert!(claim(&store, "a", "one", NOW).await.is_some());
    assert!(claim(&store, "a", "two", NOW).await.is_none());
    // The holder may continue; a killed sender loses the claim.
    assert!(claim(&store, "a", "one", NOW).await.is_some());
    let later = NOW + HELD;
    assert!(claim(&store, "a", "two", later).await.is_some());
    assert!(!store.settle_webhooks(settled("a", "one", Some(1))).await.unwrap());
    assert_eq!(store.webhook_endpoints().await.unwrap()[0].waiting, 1);
    // A failed event is due later, for other senders as well.
    let failed = Settled { failures: 4, due_at: later + HELD, ..settled("a", "two", None) };
    assert!(store.settle_webhooks(failed).await.unwrap());
    assert!(claim(&store, "a", "one", later).await.is_none());
    let again = claim(&store, "a", "one", later + HELD).await.unwrap();
    assert_eq!((again.failures, again.events.len()), (4, 1));
}

pub(crate) async fn so_many_events_are_kept(store: impl WebhookStore) {
    store.set_webhook_endpoints(vec!["a".to_owned()], 2).await.unwrap();
    for version in ["1", "2", "3", "4", "5"] {
        store.push(new("shop", version), NOW).await.unwrap();
    }
    let claimed = claim(&store, "a", "me", NOW).await.unwrap();
    assert_eq!(told(&claimed), ["4 Pushed shop 4", "5 Pushed shop 5"]);
    assert_eq!(claimed.dropped, 3);
    // Dropped events are counted once.
    assert_eq!(claim(&store, "a", "me", NOW).await.unwrap().dropped, 0);
    assert!(store.settle_webhooks(settled("a", "me", Some(5))).await.unwrap());
    assert!(claim(&store, "a", "me", NOW).await.unwrap().events.is_empty());
}
