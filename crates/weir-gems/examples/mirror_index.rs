//! Mirrors an index and reports time, memory and requests.
//!
//! `mirror_index look URL FOLDER [postgres://..]` reads what has changed since the last time
//! (everything, the first time) into the store in FOLDER, or into that database, and says what it
//! took; `mirror_index compare URL FOLDER [postgres://..]` compares everything; `mirror_index push
//! DATABASE COUNT` pushes releases of as many gems into an upstream's store. `weir-bench gems --generate` and `weir gems import` make that store, `serve` serves it.

#![expect(clippy::print_stdout, reason = "a tool at a terminal")]
#![expect(clippy::unwrap_used, reason = "a tool at a terminal")]

use std::fs::read_to_string;
use std::path::Path;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use weir_base::clock::{Clock, Timestamp};
use weir_gems::mirror::policy::Policy;
use weir_gems::mirror::progress::Progress;
use weir_gems::mirror::settings::{MirrorSettings, UpstreamSettings};
use weir_gems::mirror::{Mirror, MirrorParts, Scope};
use weir_gems::package::PackageLimits;
use weir_gems::release::{Checksum, Identity, Release};
use weir_gems::store::{
    GemStore, NewRelease, PostgresMetrics, PostgresSettings, PostgresStore, SqliteSettings,
    SqliteStore, Store,
};
use weir_gems::{Files, MirrorMetrics};

const USAGE: &str = "look URL FOLDER [postgres://..] | compare URL FOLDER [postgres://..] | \
                     push DATABASE COUNT";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let clock = Clock::system();
    let start = clock.now();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["look", place @ ..] => mirror(place, Scope::Changes, clock.clone()).await,
        ["compare", place @ ..] => mirror(place, Scope::Everything, clock.clone()).await,
        ["push", database, count] => push(database, count.parse().unwrap(), start).await,
        _ => println!("{USAGE}"),
    }
    let status = read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!("{:.2} s, {peak}", clock.now().since(start).as_secs_f64());
}

async fn mirror(place: &[&str], scope: Scope, clock: Clock) {
    let (store, url, folder) = match place {
        [url, folder] => {
            let settings = SqliteSettings::new(Path::new(folder).join("gems.db"));
            (GemStore::from(SqliteStore::open(&settings, clock.now()).unwrap()), url, folder)
        }
        [url, folder, database] => {
            let settings = PostgresSettings::new(database.parse().unwrap());
            let metrics = PostgresMetrics::default();
            let store = PostgresStore::open(&settings, clock.clone(), metrics).unwrap();
            (GemStore::from(store), url, folder)
        }
        _ => return println!("{USAGE}"),
    };
    let upstream = UpstreamSettings {
        name: "upstream".parse().unwrap(),
        url: url.parse().unwrap(),
        credentials: None,
        redirect_hosts: Vec::new(),
        hook_secret: None,
    };
    let mirror = Mirror::new(MirrorParts {
        store: Arc::new(store),
        files: Files::open(Path::new(folder).join("files")).unwrap(),
        settings: MirrorSettings::new(vec![upstream]),
        policy: Policy::default(),
        package: PackageLimits::default(),
        clock,
        metrics: MirrorMetrics::register(&mut Registry::default()),
    });
    let mirror = mirror.unwrap();
    for looked in mirror.sync_once(scope, Progress::NONE).await {
        println!("{looked:?}");
    }
}

/// Pushes a release to each of the first gems, one after another.
async fn push(database: &str, count: usize, now: Timestamp) {
    let store = SqliteStore::open(&SqliteSettings::new(database), now).unwrap();
    let page = store.fragment_page(0, count).await.unwrap();
    for (name, _) in page.gems {
        let number = format!("1000.{}", now.as_micros());
        let release = Release {
            identity: Identity {
                number: number.parse().unwrap(),
                platform: "ruby".parse().unwrap(),
            },
            dependencies: "rack:>= 2".parse().unwrap(),
            checksum: Checksum([7; 32]),
            ruby: None,
            rubygems: None,
            created_at: now,
        };
        let new = NewRelease {
            name: name.parse().unwrap(),
            release,
            bytes: 1,
            gemspec_rz: Vec::new(),
            about: "{}".to_owned(),
        };
        store.push(new, now).await.unwrap();
    }
}
