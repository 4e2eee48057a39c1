//! Kills a process during pushes, yanks and imports. Acknowledged changes must be present, and the
//! store must be consistent.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use weir_base::clock::Clock;
use weir_gems::store::webhooks::{Change, Claim, WebhookStore};
use weir_gems::store::{ImportedGem, SqliteSettings, SqliteStore, Store};

use super::contract::assert_consistent;
use super::postgres::Place;
use super::{NOW, identity, new, postgres_at, release};
use crate::client::versions_of_info;

/// Location of the child's store: a directory, or a URL and a schema.
const TARGET: &str = "WEIR_GEMS_KILLED_TARGET";
const KILLS: usize = 8;
/// Maximum number of lines that the child prints before it is killed.
const ACKNOWLEDGED_MAX: usize = 40;
/// More than there are.
const EVENTS_MAX: u64 = 100_000;

fn sqlite(folder: PathBuf) -> SqliteStore {
    let settings =
        SqliteSettings { import_batch: 3, ..SqliteSettings::new(folder.join("gems.db")) };
    SqliteStore::open(&settings, NOW).unwrap()
}

/// Not a test by itself: runs as the process that is killed.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "this is how the parent names its store")]
async fn child() {
    let Ok(target) = std::env::var(TARGET) else { return };
    match target.contains(' ') {
        false => work(sqlite(target.into())).await,
        true => work(postgres_at(&target)).await,
    }
}

/// Prints each change after it was made.
async fn work(store: impl WebhookStore) {
    store.set_webhook_endpoints(vec!["a".to_owned()], EVENTS_MAX).await.unwrap();
    let first = versions(&store).await.len();
    for number in first.. {
        store.push(new("shop", &format!("{number}.0")), NOW).await.unwrap();
        println!("pushed {number}.0");
        let gems = (0..7).map(move |index| ImportedGem {
            name: format!("gem{number}-{index}").parse().unwrap(),
            releases: vec![release("1", "rack:>= 0"), release("2", "")],
        });
        store.import(Box::new(gems), &Clock::manual(NOW)).await.unwrap();
        println!("imported {number}");
        if number % 3 == 2 {
            let name = format!("gem{number}-0").parse().unwrap();
            store.yank(&name, &identity("1"), NOW).await.unwrap();
            println!("yanked {number}");
        }
    }
}

async fn versions(store: &(impl Store + ?Sized)) -> Vec<String> {
    let info = store.info("shop").await.unwrap();
    info.map(|info| versions_of_info(&info.content)).unwrap_or_default()
}

/// Returns the pushes that webhook events report.
async fn told(store: &(impl WebhookStore + ?Sized)) -> Vec<String> {
    let claim = Claim {
        endpoint: "a".to_owned(),
        holder: "test".to_owned(),
        held_until: NOW,
        events_max: u32::MAX,
    };
    let events = store.claim_webhooks(claim, NOW).await.unwrap().unwrap().events;
    let pushes = events.into_iter().filter(|event| event.change == Change::Pushed);
    let mut numbers: Vec<_> = pushes.map(|event| event.number).collect();
    // As an /info has them, of the same time.
    numbers.sort_unstable();
    numbers
}

/// Runs a child and kills it after some lines. Returns its output.
fn kill_after(target: &str, lines: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::killed::child", "--nocapture"])
        .env(TARGET, target)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut said = Vec::new();
    for line in output.lines() {
        let line = line.unwrap();
        // The harness prints its own, one of them before ours on the same line.
        said.extend(
            ["pushed ", "imported ", "yanked "]
                .iter()
                .find_map(|word| line.find(word).map(|at| line[at..].to_owned())),
        );
        if said.len() == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    said
}

#[tokio::test]
async fn what_was_acknowledged_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    let open = || sqlite(folder.path().to_owned());
    survives_kills(folder.path().to_str().unwrap(), open).await;
}

#[tokio::test]
async fn what_postgres_acknowledged_survives_kills_of_weir() {
    let Some(place) = Place::new() else { return };
    survives_kills(&place.address(), || place.store()).await;
}

async fn survives_kills<S: WebhookStore>(target: &str, open: impl Fn() -> S) {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..KILLS {
        let said = kill_after(target, random.usize(1..ACKNOWLEDGED_MAX));
        assert!(!said.is_empty());
        let store = open();
        assert_consistent(&store).await;
        let versions = versions(&store).await;
        assert_eq!(told(&store).await, versions);
        for line in &said {
            let (what, which) = line.split_once(' ').unwrap();
            let gem = |index: u32| format!("gem{which}-{index}");
            match what {
                "pushed" => assert!(versions.iter().any(|it| it == which), "{line}"),
                "imported" => {
                    let info = store.info(&gem(6)).await.unwrap().expect(line);
                    assert_eq!(versions_of_info(&info.content), ["1", "2"], "{line}");
                }
                _ => {
                    let info = store.info(&gem(0)).await.unwrap().expect(line);
                    assert_eq!(versions_of_info(&info.content), ["2"], "{line}");
                }
            }
        }
    }
}
