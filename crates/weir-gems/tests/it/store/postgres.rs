//! The store in Postgres: the suite, and tests of its particular failure modes.

mod failing;
mod mirrored;
mod proxy;
mod server;

use std::sync::atomic::{AtomicU32, Ordering};

use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use weir_base::clock::Clock;
use weir_gems::store::{
    ImportedGem, PostgresMetrics, PostgresSettings, PostgresStore, Repair, Store, StoreError,
    TextKind,
};

use self::server::{Server, server};
use super::contract::{assert_consistent, mirror};
use super::{NOW, identity, model, new, release};

/// A schema that exists while the tests run.
pub(crate) struct Place {
    server: &'static Server,
    schema: String,
}

impl Place {
    /// Creates a schema. Returns None if Postgres is not installed.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("weir_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Some(Self { server: server()?, schema })
    }

    pub(super) fn settings(&self) -> PostgresSettings {
        let mut settings = settings(&self.server.url(), &self.schema);
        settings.limits.connections_max = 4;
        settings
    }

    /// Returns the URL and schema with which another process can open the same store.
    pub(crate) fn address(&self) -> String {
        format!("{} {}", self.server.url(), self.schema)
    }

    pub(crate) fn store(&self) -> PostgresStore {
        open(&self.settings())
    }

    /// Changes the tables in a way that Weir never does.
    async fn tamper(&self, sql: &str) {
        let client = self.client().await;
        client.0.batch_execute(sql).await.unwrap();
    }

    async fn client(&self) -> (tokio_postgres::Client, JoinSet<()>) {
        let connected = tokio_postgres::connect(&self.server.url(), tokio_postgres::NoTls).await;
        let (client, connection) = connected.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move { connection.await.unwrap() });
        client.batch_execute(&format!("SET search_path = {}", self.schema)).await.unwrap();
        (client, driver)
    }
}

pub(super) fn settings(url: &str, schema: &str) -> PostgresSettings {
    let mut settings = PostgresSettings::new(url.parse().unwrap());
    settings.schema = schema.parse().unwrap();
    settings.import_batch = 2;
    settings
}

pub(super) fn open(settings: &PostgresSettings) -> PostgresStore {
    PostgresStore::open(settings, Clock::manual(NOW), PostgresMetrics::default()).unwrap()
}

fn postgres() -> Option<(Place, PostgresStore)> {
    let place = Place::new()?;
    let store = place.store();
    Some((place, store))
}

suite!(postgres);

#[tokio::test]
async fn a_client_that_fetches_tails_knows_what_is_there() {
    if server().is_some() {
        model::histories(|| postgres().unwrap()).await;
    }
}

#[tokio::test]
async fn a_mirror_of_an_earlier_format_keeps_the_files_that_it_has() {
    let Some((place, store)) = postgres() else { return };
    mirror::before(&store).await;
    drop(store);
    place
        .tamper(
            "DROP TABLE pins; DROP TABLE replaced_releases; DELETE FROM formats WHERE version = 9",
        )
        .await;
    mirror::what_is_here_is_what_was_first(&place.store()).await;
}

#[tokio::test]
async fn what_another_process_writes_is_seen() {
    let Some((place, store)) = postgres() else { return };
    let other = place.store();
    let before = store.text(TextKind::Versions).await.unwrap();
    other.push(new("shop", "1"), NOW).await.unwrap();
    let after = store.text(TextKind::Versions).await.unwrap();
    assert!(after.length() > before.length());
    assert!(store.info("shop").await.unwrap().is_some());
    store.push(new("shop", "2"), NOW).await.unwrap();
    other.rebaseline(NOW).await.unwrap();
    assert_consistent(&store).await;
    assert_consistent(&other).await;
}

#[tokio::test]
async fn two_processes_push_at_once() {
    const PUSHES: usize = 20;
    let Some(place) = Place::new() else { return };
    // Both create the tables at the same time, too.
    let stores = [place.store(), place.store()];
    let mut pushing = JoinSet::new();
    for number in 0..PUSHES {
        for (index, store) in stores.iter().enumerate() {
            let (store, clash) = (store.clone(), new("clash", &format!("{number}")));
            let own = new(&format!("own{index}"), &format!("{number}"));
            pushing.spawn(async move {
                store.push(own, NOW).await.unwrap();
                store.push(clash, NOW).await.is_ok()
            });
        }
    }
    let pushed = pushing.join_all().await;
    // Of two equal pushes one is rejected.
    assert_eq!(pushed.iter().filter(|is_pushed| **is_pushed).count(), PUSHES);
    for store in &stores {
        assert_consistent(store).await;
        let report = store.verify(Repair::Leave, NOW).await.unwrap();
        assert_eq!((report.gems, report.releases), (3, 3 * PUSHES as u64));
    }
}

#[tokio::test]
async fn readers_see_a_push_whole_or_not_at_all() {
    let Some((_place, store)) = postgres() else { return };
    store.push(new("shop", "0"), NOW).await.unwrap();
    let mut writing = JoinSet::new();
    let writer = store.clone();
    writing.spawn(async move {
        for number in 1..40 {
            writer.push(new("shop", &format!("{number}")), NOW).await.unwrap();
        }
    });
    while writing.try_join_next().is_none() {
        let before = store.info("shop").await.unwrap().unwrap();
        let text = store.text(TextKind::Versions).await.unwrap();
        assert_eq!(text.digests, weir_gems::index::digest::Digests::of(&text.to_vec()));
        let after = store.info("shop").await.unwrap().unwrap();
        let known = crate::client::read_versions(&text.to_vec());
        let versions = crate::client::versions_of_info;
        let (before, after) = (versions(&before.content).len(), versions(&after.content).len());
        assert!((before..=after).contains(&known["shop"].versions.len()));
    }
}

#[tokio::test]
async fn a_store_that_is_opened_again_is_as_it_was() {
    let Some((place, store)) = postgres() else { return };
    store.push(new("shop", "1"), NOW).await.unwrap();
    let before = store.text(TextKind::Versions).await.unwrap();
    drop(store);
    let store = place.store();
    let after = store.text(TextKind::Versions).await.unwrap();
    assert_eq!((after.digests, after.to_vec()), (before.digests, before.to_vec()));
    store.push(new("shop", "2"), NOW).await.unwrap();
    assert_consistent(&store).await;
}

#[tokio::test]
async fn damage_is_found_and_repaired() {
    for (sql, expected) in [
        ("UPDATE infos SET content = '\\x00' WHERE gem = 1", "what is stored of shop"),
        ("UPDATE infos SET md5 = '\\x00' WHERE gem = 1", "what is stored of shop"),
        ("UPDATE infos SET name = 'shob' WHERE gem = 1", "what is stored of shop"),
        ("DELETE FROM infos; DELETE FROM fragments", "what is stored of shop"),
        ("UPDATE fragments SET content = '\\x00' WHERE gem = 1", "what is stored of shop"),
        ("UPDATE gems SET live = 7", "what is stored of shop"),
        ("UPDATE texts SET state = '\\x00' WHERE kind = 1", "the digests of Versions"),
        ("UPDATE texts SET length = 7 WHERE kind = 2", "the digests of Names"),
        ("DELETE FROM pieces WHERE kind = 1 AND start > 50", "/versions has other releases"),
        ("DELETE FROM pieces WHERE kind = 2 AND start > 0", "/names is wrong about shop"),
        ("UPDATE releases SET yanked_at = 5 WHERE number = '2'", "/versions has other releases"),
        ("DELETE FROM releases WHERE gem = 2; DELETE FROM gems WHERE id = 2", "releases of other"),
        ("UPDATE releases SET ruby = '> 3'", "another digest of shop"),
    ] {
        let Some((place, store)) = postgres() else { return };
        store.push(new("shop", "1"), NOW).await.unwrap();
        store.push(new("shop", "2"), NOW).await.unwrap();
        store.push(new("other", "1"), NOW).await.unwrap();
        place.tamper(sql).await;
        let report = store.verify(Repair::Leave, NOW).await.unwrap();
        let all = report.problems.join("\n");
        assert!(all.contains(expected), "{sql}: {all}");
        assert!(!report.is_fixed);
        let report = store.verify(Repair::Fix, NOW).await.unwrap();
        assert!(report.is_fixed && report.problems_total > 0, "{sql}");
        // Opened again, because a process may have cached a text before it was damaged.
        let store = place.store();
        assert_consistent(&store).await;
        let report = store.verify(Repair::Fix, NOW).await.unwrap();
        assert_eq!((report.problems_total, report.is_fixed), (0, false), "{sql}");
    }
}

#[tokio::test]
async fn tables_from_the_future_are_left_alone() {
    let Some((place, store)) = postgres() else { return };
    store.prepare().await.unwrap();
    let row = "VALUES (99, 'later', '2030-01-01T00:00:00Z', '1')";
    place.tamper(&format!("INSERT INTO formats {row}")).await;
    let refused = place.store().prepare().await;
    assert!(matches!(refused, Err(StoreError::TooNew { found: 99, .. })), "{refused:?}");
    // A process that already runs continues: its tables still exist.
    store.push(new("shop", "1"), NOW).await.unwrap();
    let step = "UPDATE formats SET checksum = '1' WHERE version = 1; DELETE FROM formats WHERE version = 99";
    place.tamper(step).await;
    let refused = place.store().prepare().await.unwrap_err().to_string();
    assert!(refused.contains("V1__gems") && refused.contains("none of this Weir's"), "{refused}");
}

#[tokio::test]
async fn an_import_that_breaks_off_leaves_whole_batches() {
    let Some((_place, store)) = postgres() else { return };
    let gems = (0..10).map(|index: u32| {
        assert!(index < 7, "the source breaks off");
        ImportedGem {
            name: format!("gem{index}").parse().unwrap(),
            releases: vec![release("1", "")],
        }
    });
    assert!(matches!(
        store.import(Box::new(gems), &Clock::manual(NOW)).await,
        Err(StoreError::Abandoned(_))
    ));
    let names = store.text(TextKind::Names).await.unwrap().to_vec();
    // Batches of two.
    assert_eq!(crate::client::read_names(&names).len(), 6);
    assert_consistent(&store).await;
    store.push(new("shop", "1"), NOW).await.unwrap();
    store.yank(&"gem0".parse().unwrap(), &identity("1"), NOW).await.unwrap();
    assert_consistent(&store).await;
}

#[tokio::test]
async fn the_connection_is_encrypted_and_the_server_is_who_it_says() {
    let Some(place) = Place::new() else { return };
    let port = place.server.port;
    let tls = |host: &str, ca: bool| {
        let url = format!("postgres://weir@{host}:{port}/postgres?sslmode=require");
        let mut settings = settings(&url, &place.schema);
        settings.ca = ca.then(|| place.server.ca());
        open(&settings)
    };
    let store = tls("localhost", true);
    store.push(new("shop", "1"), NOW).await.unwrap();
    let client = place.client().await;
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE ssl AND application_name = 'weir-gems'";
    let row = client.0.query_one(encrypted, &[]).await.unwrap();
    assert!(row.get::<_, i64>(0) > 0);
    // An unknown authority, and a certificate for another host name.
    for (host, ca) in [("localhost", false), ("127.0.0.1", true)] {
        let refused = tls(host, ca).info("shop").await.unwrap_err();
        let text = refused.to_string();
        assert!(
            matches!(refused, StoreError::Unreachable(_)) && text.contains("ertificate"),
            "{text}"
        );
    }
}

fn metrics_of(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}
