//! Guarantees of every store about API keys.

use std::time::Duration;

use weir_gems::store::{KeySettings, NewKey, Scope, Store};

use crate::store::NOW;

pub(crate) async fn keys_are_found_by_their_digests(store: impl Store) {
    let settings = |name: &str| KeySettings {
        name: name.to_owned(),
        scopes: vec![Scope::PushRubygem],
        gems: vec!["shop-*".parse().unwrap()],
        expires_at_us: Some(NOW.as_micros()),
    };
    let key = |name, hash| NewKey { settings: settings(name), hash: [hash; 32], created_at: NOW };
    let one = store.add_key(key("ci", 1)).await.unwrap();
    let two = store.add_key(key("laptop", 2)).await.unwrap();
    assert_ne!(one.id, two.id);
    assert_eq!(store.key([1; 32]).await.unwrap(), Some(one.clone()));
    assert_eq!(store.key([3; 32]).await.unwrap(), None);
    assert_eq!(store.keys().await.unwrap(), [one.clone(), two.clone()]);
    assert!(one.is_for("shop-web") && !one.is_for("shop") && one.has_scope(Scope::PushRubygem));
    assert!(one.is_expired(NOW) && !one.is_expired(NOW - Duration::from_secs(1)));
    assert!(!one.has_scope(Scope::YankRubygem));
    assert!(store.remove_key(one.id).await.unwrap());
    assert!(!store.remove_key(one.id).await.unwrap());
    assert_eq!(store.keys().await.unwrap(), [two]);
}
