//! A mirror, its upstreams and its clients. Upstreams are indexes of this crate behind real
//! sockets, or scripts with responses that a correct index would not send.

mod asked;
mod confusion;
mod denied;
mod files;
mod hooks;
mod killed;
mod mutations;
mod order;
mod origin;
mod policies;
mod redirects;
mod replaced;
mod scripted;
mod silent;
mod spelling;
mod stores;
mod storm;
mod sync;
mod vanished;
mod wrong;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use prometheus_client::registry::Registry;
use weir_base::secret::Secret;
use weir_gems::mirror::progress::Progress;
use weir_gems::mirror::settings::{MirrorLimits, MirrorSettings, UpstreamSettings};
use weir_gems::mirror::state::MirrorState;
use weir_gems::mirror::{Looked, Mirror, MirrorDoor, MirrorError, MirrorParts, Scope};
use weir_gems::package::PackageLimits;
use weir_gems::store::{GemStore, Store, TextKind};
use weir_gems::{Files, MirrorMetrics};

use crate::client::{read_names, read_versions};
use crate::http::{Answer, Index};

pub(crate) const SECRET: &str = "hook secret";

/// An index that is a mirror.
pub(crate) struct Replica {
    pub(crate) index: Index,
    pub(crate) mirror: Arc<Mirror>,
    registry: Registry,
}

/// Settings of a mirror in a test. Waits are short, since scripts fail on purpose.
pub(crate) struct Setup {
    pub(crate) settings: MirrorSettings,
    pub(crate) policy: String,
}

impl Setup {
    pub(crate) fn new(upstreams: &[(&str, &str)]) -> Self {
        let upstreams = upstreams.iter().map(|(name, url)| UpstreamSettings {
            name: name.parse().unwrap(),
            url: url.parse().unwrap(),
            credentials: None,
            redirect_hosts: Vec::new(),
            hook_secret: Some(Secret::new(format!("{SECRET} {name}"))),
        });
        let mut settings = MirrorSettings::new(upstreams.collect());
        settings.limits = MirrorLimits {
            backoff_min: Duration::from_millis(1),
            backoff_max: Duration::from_millis(1),
            attempts_max: 2,
            batch_gems: 3,
            requests_max: 4,
            ..MirrorLimits::default()
        };
        Self { settings, policy: "none".to_owned() }
    }

    pub(crate) fn policy(mut self, policy: &str) -> Self {
        policy.clone_into(&mut self.policy);
        self
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut MirrorSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    pub(crate) async fn start(self) -> Replica {
        self.start_on(Index::new().await)
    }

    pub(crate) fn start_on(self, index: Index) -> Replica {
        let mut registry = Registry::default();
        let mirror = Mirror::new(MirrorParts {
            store: index.gems.shared_store(),
            files: Files::open(index.folder().join("files")).unwrap(),
            settings: self.settings,
            policy: self.policy.parse().unwrap(),
            package: PackageLimits::default(),
            clock: index.clock.clone(),
            metrics: MirrorMetrics::register(&mut registry),
        })
        .unwrap();
        let door: Arc<dyn MirrorDoor> = Arc::clone(&mirror) as _;
        assert!(index.gems.attach_mirror(door));
        Replica { index, mirror, registry }
    }
}

impl Replica {
    pub(crate) fn store(&self) -> &GemStore {
        self.index.gems.store()
    }

    pub(crate) async fn try_sync(&self) -> Vec<Result<Looked, MirrorError>> {
        self.mirror.sync_once(Scope::Changes, Progress::NONE).await
    }

    /// Synchronizes the first upstream, which must succeed.
    pub(crate) async fn sync(&self) -> Looked {
        self.try_sync().await.remove(0).unwrap()
    }

    pub(crate) async fn compare(&self) -> Looked {
        self.mirror.sync_once(Scope::Everything, Progress::NONE).await.remove(0).unwrap()
    }

    pub(crate) async fn state(&self) -> MirrorState {
        self.mirror.state().await.unwrap()
    }

    pub(crate) async fn file(&self, full_name: &str) -> Answer {
        self.index.get(&format!("/gems/{full_name}.gem")).await
    }

    /// Returns the releases that the mirror lists for a gem.
    pub(crate) async fn listed(&self, name: &str) -> Vec<String> {
        let text = self.store().text(TextKind::Versions).await.unwrap().to_vec();
        let known = read_versions(&text).remove(name).unwrap_or_default();
        known.versions.into_iter().collect()
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    pub(crate) async fn hook(&self, path: &str, authorization: &str, body: String) -> StatusCode {
        let headers = [("authorization", authorization)];
        self.index.ask("POST", path, &headers, Bytes::from(body)).await.status
    }
}

async fn text(store: &(impl Store + ?Sized), kind: TextKind) -> Vec<u8> {
    store.text(kind).await.unwrap().to_vec()
}

/// Checks that the mirror is consistent and has the same content as its upstream.
pub(crate) async fn assert_same(replica: &Replica, upstream: &GemStore) {
    crate::store::assert_consistent(&**replica.store()).await;
    let seen = |text: Vec<u8>| {
        let mut gems = read_versions(&text);
        gems.retain(|_, known| !known.versions.is_empty());
        gems
    };
    let theirs = seen(text(&**upstream, TextKind::Versions).await);
    assert_eq!(seen(text(&**replica.store(), TextKind::Versions).await), theirs);
    for name in theirs.keys() {
        let (ours, theirs) = (replica.store().info(name).await, upstream.info(name).await);
        assert_eq!(ours.unwrap(), theirs.unwrap(), "{name}");
    }
    let names = |text: Vec<u8>| {
        let mut names = read_names(&text);
        names.sort_unstable();
        names
    };
    assert_eq!(
        names(text(&**replica.store(), TextKind::Names).await),
        names(text(&**upstream, TextKind::Names).await)
    );
}
