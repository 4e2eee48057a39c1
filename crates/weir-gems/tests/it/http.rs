//! Tests the service with requests as clients send them, without sockets.

mod compact_index;
mod download;
mod memory;
mod older_clients;
mod push;
mod readers;
mod wrong_keys;
mod yank;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request, Response, StatusCode};
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::switch::{Off, Switches};
use weir_gems::package::sample::Sample;
use weir_gems::settings::GemsSettings;
use weir_gems::store::{GemStore, KeySettings, Scope, SqliteSettings, SqliteStore};
use weir_gems::{Files, Gems, GemsMetrics, GemsParts, keys};
use weir_net::server::ResponseBody;

use crate::store::NOW;

/// A temporary index.
pub(crate) struct Index {
    pub(crate) gems: Arc<Gems>,
    pub(crate) settings: Arc<ArcSwap<GemsSettings>>,
    pub(crate) clock: Clock,
    switches: Arc<Switches>,
    registry: Registry,
    folder: PathBuf,
    /// Removes the directory at the end of the test.
    _guard: Option<tempfile::TempDir>,
    /// A key with all scopes.
    pub(crate) key: String,
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

impl Index {
    pub(crate) async fn new() -> Self {
        let guard = tempfile::tempdir().unwrap();
        let mut index = Self::open(guard.path().to_owned(), Some(guard), Clock::manual(NOW));
        index.key = index.new_key(|_| {}).await;
        index
    }

    /// Opens the index again as after a restart, with only the data on disk.
    pub(crate) fn opened_again(self) -> Self {
        let Self { folder, _guard, clock, key, gems, .. } = self;
        drop(gems);
        Self { key, ..Self::open(folder, _guard, clock) }
    }

    /// Opens an index in another process's directory.
    pub(crate) fn at(folder: &Path) -> Self {
        Self::open(folder.to_owned(), None, Clock::manual(NOW))
    }

    fn open(folder: PathBuf, guard: Option<tempfile::TempDir>, clock: Clock) -> Self {
        let store = SqliteStore::open(&SqliteSettings::new(folder.join("gems.db")), NOW).unwrap();
        Self::with(store, folder, guard, clock)
    }

    /// Creates an index with the given store.
    pub(crate) async fn on(store: impl Into<GemStore>) -> Self {
        let guard = tempfile::tempdir().unwrap();
        let folder = guard.path().to_owned();
        let mut index = Self::with(store, folder, Some(guard), Clock::manual(NOW));
        index.key = index.new_key(|_| {}).await;
        index
    }

    fn with(
        store: impl Into<GemStore>,
        folder: PathBuf,
        guard: Option<tempfile::TempDir>,
        clock: Clock,
    ) -> Self {
        let mut registry = Registry::default();
        let settings = Arc::new(ArcSwap::from_pointee(GemsSettings::default()));
        let switches = Arc::new(Switches::default());
        let gems = Gems::new(GemsParts {
            store: store.into(),
            files: Files::open(folder.join("files")).unwrap(),
            settings: Arc::clone(&settings),
            clock: clock.clone(),
            metrics: GemsMetrics::register(&mut registry),
            switches: Arc::clone(&switches),
        });
        Self {
            gems,
            settings,
            clock,
            switches,
            registry,
            folder,
            _guard: guard,
            key: String::new(),
        }
    }

    /// Creates a key with all scopes, modified by `change`.
    pub(crate) async fn new_key(&self, change: impl FnOnce(&mut KeySettings)) -> String {
        let mut settings = KeySettings {
            name: "test".to_owned(),
            scopes: vec![Scope::PushRubygem, Scope::YankRubygem],
            gems: Vec::new(),
            expires_at_us: None,
        };
        change(&mut settings);
        let (secret, _) = keys::create(self.gems.store(), settings, NOW).await.unwrap();
        secret.expose().to_owned()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut GemsSettings)) {
        let mut settings = GemsSettings::clone(&self.settings.load());
        change(&mut settings);
        self.settings.store(Arc::new(settings));
    }

    pub(crate) fn turn_off(&self, endpoint: &str) {
        let off = Off { pattern: endpoint.parse().unwrap(), since_us: 0, until_us: None };
        self.switches.turn_off(off, NOW).unwrap();
    }

    /// Sends a request and returns the response with an unread body.
    pub(crate) async fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<ResponseBody> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.gems.answer(request.body(Full::new(body.into())).unwrap()).await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let (head, body) = self.begin(method, path, headers, body).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: head.status, headers: head.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], Bytes::new()).await
    }

    pub(crate) async fn push(&self, gem: impl Into<Bytes>) -> Answer {
        self.ask("POST", "/api/v1/gems", &[("authorization", &self.key)], gem).await
    }

    pub(crate) async fn push_sample(&self, sample: &Sample) {
        let answer = self.push(sample.build()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    }

    pub(crate) async fn yank(&self, form: &str) -> Answer {
        let headers =
            [("authorization", &*self.key), ("content-type", "application/x-www-form-urlencoded")];
        self.ask("DELETE", "/api/v1/gems/yank", &headers, form.to_owned()).await
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the files of releases, and the number of incomplete files.
    pub(crate) fn files(&self) -> (Vec<PathBuf>, usize) {
        let (mut gems, mut arriving) = (Vec::new(), 0);
        for folder in fs::read_dir(self.folder.join("files")).unwrap() {
            let folder = folder.unwrap();
            for file in fs::read_dir(folder.path()).unwrap() {
                match folder.file_name() == "arriving" {
                    true => arriving += 1,
                    false => gems.push(file.unwrap().path()),
                }
            }
        }
        (gems, arriving)
    }

    /// Returns the metrics in the format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}
