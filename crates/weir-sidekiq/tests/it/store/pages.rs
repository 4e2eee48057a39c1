//! Walks through lists as Sidekiq's clients and other programs fill them.

use redis::Commands as _;
use weir_jobs::model::{EntryKey, JobLocation, SetName};
use weir_jobs::store::{Action, Filter, ScanRequest, Selection, Store};
use weir_sidekiq::RedisEndpoint;

use super::rig::{Node, queue_name, run};
use crate::shared_redis::client;

/// Far more pages than any walk here has.
const PAGES_MAX: usize = 1_000;

fn fill(redis: &RedisEndpoint, texts: impl Iterator<Item = String>) {
    let texts: Vec<String> = texts.collect();
    let mut client = client(redis);
    let _: u64 = client.sadd("queues", "q").unwrap();
    let _: u64 = client.lpush("queue:q", texts).unwrap();
}

fn job(number: usize, enqueued_at: f64) -> String {
    format!(
        r#"{{"class":"Test","args":[],"jid":"job-{number:05}","queue":"q","enqueued_at":{enqueued_at}}}"#
    )
}

/// Returns the keys of all jobs, page by page.
async fn walk(node: &Node, newest_first: bool, limit: usize) -> Vec<EntryKey> {
    walk_place(node, &JobLocation::Queue(queue_name("q")), newest_first, limit).await
}

async fn walk_place(
    node: &Node,
    place: &JobLocation,
    newest_first: bool,
    limit: usize,
) -> Vec<EntryKey> {
    let place = place.clone();
    let filter = Filter::default();
    let mut request =
        ScanRequest { place, after: None, newest_first, limit, scan_max: 10_000, filter };
    let mut keys = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = node.store.scan(request.clone()).await.unwrap();
        keys.extend(page.jobs.into_iter().map(|job| job.key));
        match page.next {
            Some(next) => request.after = Some(next),
            None => return keys,
        }
    }
    panic!("the walk does not end");
}

/// `push_bulk` of Sidekiq gives all its jobs one time of enqueueing.
#[test]
fn jobs_pushed_in_bulk_are_listed_once_and_found() {
    run(async |redis| {
        fill(
            &redis,
            (0..3_000).map(|number| job(number, 1_795_202_902.5 + f64::from(number >= 500))),
        );
        let walked = Node::open(&redis);
        let keys = walk(&walked, false, 1_000).await;
        let expected: Vec<String> = (0..3_000).map(|number| format!("job-{number:05}")).collect();
        assert!(keys.iter().map(|key| &*key.jid).eq(expected.iter().map(String::as_str)));
        let backwards = walk(&walked, true, 700).await;
        assert!(backwards.iter().rev().eq(&keys));
        // A node that has listed nothing goes on where another one stopped, and acts there.
        let other = Node::open(&redis);
        let place = JobLocation::Queue(queue_name("q"));
        let after = Some(keys[2_799].clone());
        let request = ScanRequest {
            place: place.clone(),
            after,
            newest_first: false,
            limit: 1_000,
            scan_max: 1_000,
            filter: Filter::default(),
        };
        let page = other.store.scan(request).await.unwrap();
        assert_eq!((page.jobs.len(), &page.jobs[0].key), (200, &keys[2_800]));
        let selection = Selection::Entries(vec![keys[2_800].clone()]);
        assert_eq!(other.store.act(&place, &selection, Action::Discard).await, Ok(1));
    });
}

#[test]
fn lists_without_an_order_in_time_are_listed_completely() {
    run(async |redis| {
        // Two clocks that differ by ten minutes, and texts that are all the same.
        let skewed =
            (0..2_000).map(|number| job(number, 1_795_202_902.5 + [0.0, 600.0][number % 2]));
        let same = (0..1_500).map(|_| r#"{"class":"Test","args":[],"queue":"q"}"#.to_owned());
        fill(&redis, skewed.chain(same));
        let node = Node::open(&redis);
        for newest_first in [false, true] {
            let keys = walk(&node, newest_first, 100).await;
            let of_clocks = keys.iter().filter(|key| key.jid.starts_with("job-")).count();
            assert_eq!((keys.len(), of_clocks), (3_500, 2_000));
        }
    });
}

/// The digests of all users are scheduled for nine o'clock.
#[test]
fn more_jobs_with_one_time_than_are_read_at_once_are_listed_once_and_changed() {
    const JOBS: usize = 25_000;
    run(async |redis| {
        let mut connection = client(&redis);
        for start in (0..JOBS).step_by(5_000) {
            let jobs: Vec<(u64, String)> = (start..start + 5_000)
                .map(|number| (4_000_000_000, job(number, 1_795_202_902.5)))
                .collect();
            let _: u64 = connection.zadd_multiple("schedule", &jobs).unwrap();
        }
        let node = Node::open(&redis);
        let place = JobLocation::Set(SetName::Scheduled);
        let expected: Vec<String> = (0..JOBS).map(|number| format!("job-{number:05}")).collect();
        let keys = walk_place(&node, &place, false, 4_000).await;
        assert!(keys.iter().map(|key| &*key.jid).eq(expected.iter().map(String::as_str)));
        let backwards = walk_place(&node, &place, true, 4_000).await;
        assert!(backwards.iter().rev().eq(&keys));
        let what = Selection::Entries(vec![keys[3].clone(), keys[JOBS - 3].clone()]);
        assert_eq!(node.store.act(&place, &what, Action::Kill).await, Ok(2));
    });
}
