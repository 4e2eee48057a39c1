//! A store over several Redis servers: placement, servers that die, that are added and removed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use weir_jobs::model::{JobLocation, SetName, Wid, WorkerEnd};
use weir_jobs::node::NodeReport;
use weir_jobs::stamp::rfc3339;
use weir_jobs::store::{
    Action, Filter, QueueAction, ScanRequest, Selection, Store, StoreCondition, StoreError,
    WorkerReport,
};

use super::rig::{queue_name, report};
use super::sharded_rig::{ShardedNode, eventually, in_turn, queues, run, run_durable};
use crate::redis_server::RedisServer;

const LONG: Duration = Duration::from_secs(30);

fn length(server: &RedisServer, key: &str) -> u64 {
    redis::cmd("LLEN").arg(key).query(&mut server.client()).unwrap()
}

/// The queues that the server has, whether they are empty or not.
fn queues_of(server: &RedisServer) -> BTreeSet<String> {
    redis::cmd("SMEMBERS").arg("queues").query(&mut server.client()).unwrap()
}

#[test]
fn each_queue_is_on_one_shard_and_all_are_fetched() {
    run(async |[one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open(&[&one, &two]);
        let queues = queues(40);
        for (number, queue) in queues.iter().enumerate() {
            for part in 0..2 {
                node.push(queue, &format!("job-{number:03}-{part}")).await.unwrap();
            }
        }
        let (of_one, of_two) = (queues_of(&one), queues_of(&two));
        assert!(of_one.is_disjoint(&of_two));
        assert_eq!(of_one.len() + of_two.len(), 40);
        assert!(of_one.len() > 8 && of_two.len() > 8, "{} and {}", of_one.len(), of_two.len());
        let jids = node.drain(&queues).await;
        assert_eq!(jids.len(), 80);
        // The order of the request holds over both servers.
        assert!(jids.is_sorted(), "{jids:?}");
        // Each server's statistics count the jobs that came from it.
        node.close().await;
        for (server, queues) in [(&one, of_one), (&two, of_two)] {
            let processed: usize =
                redis::cmd("GET").arg("stat:processed").query(&mut server.client()).unwrap();
            assert_eq!(processed, 2 * queues.len());
        }
    });
}

#[test]
fn pushes_in_turn_are_fetched_from_all_shards_in_turn() {
    run(async |[one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open_with(tempfile::tempdir().unwrap(), &[&one, &two], in_turn);
        for number in 0..20 {
            node.push("q", &format!("job-{number:05}")).await.unwrap();
        }
        assert_eq!((length(&one, "queue:q"), length(&two, "queue:q")), (10, 10));
        let queues = ["q".to_owned()];
        for _ in 0..10 {
            assert_eq!(node.fetch(&queues, 1, Duration::ZERO).await.unwrap().len(), 1);
        }
        assert_eq!((length(&one, "queue:q"), length(&two, "queue:q")), (5, 5));
        // A page merges both, and goes on behind its last job.
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let request = ScanRequest {
                place: JobLocation::Queue(queue_name("q")),
                after,
                newest_first: false,
                limit: 3,
                scan_max: 100,
                filter: Filter::default(),
            };
            let page = node.store.scan(request).await.unwrap();
            listed.extend(page.jobs.into_iter().map(|job| job.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(listed.len(), 10, "{listed:?}");
        assert!(listed.is_sorted(), "{listed:?}");
        let some = Selection::Entries(listed[..6].to_vec());
        let queue = JobLocation::Queue(queue_name("q"));
        assert_eq!(node.store.act(&queue, &some, Action::Kill).await, Ok(6));
        assert_eq!(node.storage().await.shards.iter().map(|shard| shard.dead).sum::<u64>(), 6);
    });
}

#[test]
fn jobs_of_one_time_on_several_shards_are_listed_once() {
    run(async |[one, two, three]: [RedisServer; 3]| {
        let servers = [&one, &two, &three];
        let node = ShardedNode::open_with(tempfile::tempdir().unwrap(), &servers, in_turn);
        let at = rfc3339(weir_base::clock::Clock::system().now() + Duration::from_secs(3_600));
        for number in 0..30 {
            let at = format!(r#","at":"{at}""#);
            node.push_with("q", &format!("job-{number:05}"), &at).await.unwrap();
        }
        for newest_first in [false, true] {
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                let request = ScanRequest {
                    place: JobLocation::Set(SetName::Scheduled),
                    after,
                    newest_first,
                    limit: 4,
                    scan_max: 100,
                    filter: Filter::default(),
                };
                let page = node.store.scan(request).await.unwrap();
                listed.extend(page.jobs.into_iter().map(|job| job.key.jid));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(listed.len(), 30, "{listed:?}");
            assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), 30, "{listed:?}");
        }
    });
}

#[test]
fn a_worker_is_a_process_of_every_shard_with_the_jobs_from_there() {
    run(async |[one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open_with(tempfile::tempdir().unwrap(), &[&one, &two], in_turn);
        for number in 0..3 {
            node.push("q", &format!("job-{number:05}")).await.unwrap();
        }
        assert_eq!(node.fetch(&["q".to_owned()], 3, Duration::ZERO).await.unwrap().len(), 3);
        let worker = WorkerReport {
            wid: Wid::new("w1"),
            hostname: "host".to_owned(),
            pid: 7,
            labels: Vec::new(),
            started: Default::default(),
            rss_kb: 1,
            queues: vec![queue_name("q")],
            quiet: false,
            busy: 3,
        };
        assert_eq!(
            node.store.exchange_reports(NodeReport::default(), vec![worker.clone()]).await,
            []
        );
        let mut busy = 0;
        for server in [&one, &two] {
            let mut client = server.client();
            let process: Vec<String> =
                redis::cmd("SMEMBERS").arg("processes").query(&mut client).unwrap();
            let of_process: u64 =
                redis::cmd("HGET").arg(&process[0]).arg("busy").query(&mut client).unwrap();
            let work = format!("{}:work", process[0]);
            let jobs: u64 = redis::cmd("HLEN").arg(work).query(&mut client).unwrap();
            assert_eq!(of_process, jobs);
            busy += of_process;
            server.run(&[&["LPUSH", &format!("{}-signals", process[0]), "TSTP"]]);
        }
        assert_eq!(busy, 3);
        let directives = node.store.exchange_reports(NodeReport::default(), vec![worker]).await;
        assert!(directives.iter().all(|(wid, _)| wid.as_str() == "w1"));
        assert_eq!(directives.len(), 2);
    });
}

/// What a producer and a worker have seen.
#[derive(Default)]
struct Seen {
    stored: RefCell<BTreeSet<String>>,
    uncertain: Cell<usize>,
    fetched: RefCell<BTreeSet<String>>,
    unacknowledged: RefCell<BTreeSet<String>>,
    stop: Cell<bool>,
}

impl Seen {
    async fn produce(&self, node: &ShardedNode, queues: &[String]) {
        for number in 0.. {
            if self.stop.get() {
                return;
            }
            let jid = format!("job-{number:06}");
            match node.push(&queues[number % queues.len()], &jid).await {
                Ok(()) => drop(self.stored.borrow_mut().insert(jid)),
                Err(StoreError::Uncertain(_)) => self.uncertain.set(self.uncertain.get() + 1),
                Err(error) => panic!("a push that no other shard took: {error}"),
            }
            tokio::task::yield_now().await;
        }
    }

    async fn work(&self, node: &ShardedNode, queues: &[String]) {
        while !self.stop.get() {
            let wait = Duration::from_millis(20);
            for job in node.fetch(queues, 3, wait).await.unwrap_or_default() {
                let jid = String::from(job.jid);
                self.fetched.borrow_mut().insert(jid.clone());
                if node.store.ack(&[&jid]).await.is_err() {
                    self.unacknowledged.borrow_mut().insert(jid);
                }
            }
        }
    }

    async fn until_stored(&self, more: usize) {
        let before = self.stored.borrow().len();
        eventually(async || self.stored.borrow().len() >= before + more).await;
    }
}

#[test]
fn a_killed_shard_loses_nothing_and_holds_nothing_up() {
    run_durable(async |[mut one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open(&[&one, &two]);
        let (queues, seen) = (queues(8), Seen::default());
        let load = async { tokio::join!(seen.produce(&node, &queues), seen.work(&node, &queues)) };
        let scenario = async {
            seen.until_stored(300).await;
            one.kill();
            // The queues of the dead shard go on as well.
            seen.until_stored(300).await;
            let condition = node.storage().await.condition;
            assert!(matches!(condition, StoreCondition::Degraded(_)), "{condition:?}");
            let away = node.shard("one").await;
            assert!(away.away_since.is_some() && away.problem.is_some(), "{away:?}");
            one.start_again();
            node.until_whole().await;
            seen.until_stored(300).await;
            seen.stop.set(true);
        };
        tokio::join!(load, scenario);
        // What was reserved while the shard died returns; what could not be acknowledged is now.
        eventually(async || {
            for job in node.fetch(&queues, 100, Duration::from_millis(10)).await.unwrap() {
                let jid = String::from(job.jid);
                assert_eq!(node.store.ack(&[&jid]).await, Ok(vec![]));
                seen.fetched.borrow_mut().insert(jid);
            }
            let left: Vec<String> = seen.unacknowledged.take().into_iter().collect();
            let left: Vec<&str> = left.iter().map(String::as_str).collect();
            node.store.ack(&left).await.unwrap();
            let counts = node.store.counts().await;
            counts.reserved == 0 && counts.queues.iter().all(|queue| queue.depth == 0)
        })
        .await;
        let (stored, fetched) = (seen.stored.take(), seen.fetched.take());
        let lost: Vec<_> = stored.difference(&fetched).collect();
        assert!(lost.is_empty(), "{lost:?} of {}", stored.len());
        assert!(seen.uncertain.get() < 20, "{}", seen.uncertain.get());
    });
}

#[test]
fn the_jobs_of_a_shard_that_is_away_are_there_when_it_returns() {
    run_durable(async |[mut one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open(&[&one, &two]);
        let queues = queues(20);
        for (number, queue) in queues.iter().enumerate() {
            node.push(queue, &format!("old-{number:05}")).await.unwrap();
        }
        let of_one = queues_of(&one);
        let found = node.store.find("old-00003").await.unwrap().job().unwrap();
        assert_eq!(&*found.key.jid, "old-00003");
        one.kill();
        eventually(async || node.shard("one").await.away_since.is_some()).await;
        for (number, queue) in queues.iter().enumerate() {
            node.push(queue, &format!("new-{number:05}")).await.unwrap();
        }
        let jids = node.drain(&queues).await;
        assert_eq!(jids.len(), 40 - of_one.len(), "{jids:?}");
        // Operators are told that an answer is partial.
        let request = ScanRequest {
            place: JobLocation::Queue(queue_name(of_one.first().unwrap())),
            after: None,
            newest_first: false,
            limit: 10,
            scan_max: 10,
            filter: Filter::default(),
        };
        let page = node.store.scan(request).await.unwrap();
        assert!(page.missing.unwrap().contains("shard one"));
        let cleared = node.store.act_on_queues(&[queue_name("queue-0")], QueueAction::Clear).await;
        assert!(matches!(cleared, Err(StoreError::Unavailable(_))), "{cleared:?}");
        assert!(node.store.flush().await.is_err());
        let found = node.store.find("old-nowhere").await;
        assert!(
            matches!(found, Ok(weir_jobs::store::FindOutcome::NotSearched { .. })),
            "{found:?}"
        );
        assert!(node.store.counts().await.age > Duration::ZERO);
        one.start_again();
        // A FETCH that waits gets them.
        let waiting = node.fetch(&queues, 1, LONG).await.unwrap();
        let jid = String::from(waiting[0].jid.clone());
        assert_eq!(node.store.ack(&[&jid]).await, Ok(vec![]));
        node.until_whole().await;
        assert_eq!(1 + node.drain(&queues).await.len(), of_one.len());
    });
}

#[test]
fn a_stopped_shard_holds_the_others_up_for_one_timeout() {
    run(async |[one, two]: [RedisServer; 2]| {
        let directory = tempfile::tempdir().unwrap();
        let node = ShardedNode::open_with(directory, &[&one, &two], |options| {
            options.settings.command_timeout = Duration::from_secs(2);
        });
        let queues = queues(20);
        for (number, queue) in queues.iter().enumerate() {
            node.push(queue, &format!("old-{number:05}")).await.unwrap();
        }
        let of_one: Vec<String> = queues_of(&one).into_iter().collect();
        one.signal("STOP");
        // Its first push may or may not be stored there.
        let first = node.push(&of_one[0], "uncertain-1").await;
        assert!(matches!(first, Err(StoreError::Uncertain(_))), "{first:?}");
        for (number, queue) in queues.iter().enumerate() {
            node.push(queue, &format!("new-{number:05}")).await.unwrap();
        }
        assert_eq!(node.drain(&queues).await.len(), 40 - of_one.len());
        assert!(node.shard("one").await.away_since.is_some());
        one.signal("CONT");
        node.until_whole().await;
        let back = node.drain(&queues).await;
        let old = back.iter().filter(|jid| jid.starts_with("old")).count();
        assert_eq!(old, of_one.len(), "{back:?}");
    });
}

#[test]
fn a_workers_jobs_return_with_the_shard_that_was_away() {
    run_durable(async |[mut one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open_with(tempfile::tempdir().unwrap(), &[&one, &two], in_turn);
        for number in 0..4 {
            node.push("q", &format!("job-{number:05}")).await.unwrap();
        }
        let queues = ["q".to_owned()];
        assert_eq!(node.fetch(&queues, 4, Duration::ZERO).await.unwrap().len(), 4);
        one.kill();
        eventually(async || node.shard("one").await.away_since.is_some()).await;
        // The living shard's jobs return at once.
        assert_eq!(node.store.release(&Wid::new("w1"), WorkerEnd::Killed).await, Ok(2));
        // It returns and ends in order, which does not excuse the other ones.
        assert_eq!(node.store.release(&Wid::new("w1"), WorkerEnd::Stopped).await, Ok(0));
        assert_eq!(node.drain(&queues).await.len(), 2);
        one.start_again();
        node.until_whole().await;
        assert_eq!(node.drain(&queues).await.len(), 2);
        let kills = redis::cmd("HLEN").arg("weir:kills").query(&mut one.client());
        assert_eq!(kills, Ok(2));
    });
}

#[test]
fn a_paused_queue_stays_paused_on_the_shard_that_takes_over() {
    run_durable(async |[mut one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open(&[&one, &two]);
        let queues = queues(10);
        for queue in &queues {
            node.push(queue, "first-job").await.unwrap();
        }
        let queue = queues_of(&one).pop_first().unwrap();
        node.drain(&queues).await;
        node.store.act_on_queues(&[queue_name(&queue)], QueueAction::Pause).await.unwrap();
        one.kill();
        eventually(async || node.shard("one").await.away_since.is_some()).await;
        node.push(&queue, "second-job").await.unwrap();
        assert_eq!(length(&two, &format!("queue:{queue}")), 1);
        assert_eq!(node.drain(&queues).await, [""; 0]);
        one.start_again();
        node.until_whole().await;
        node.store.act_on_queues(&[queue_name(&queue)], QueueAction::Resume).await.unwrap();
        assert_eq!(node.drain(&queues).await, ["second-job"]);
    });
}

#[test]
fn an_added_shard_gets_its_part_and_the_old_jobs_are_still_fetched() {
    run(async |[one, two, three]: [RedisServer; 3]| {
        let node = ShardedNode::open(&[&one, &two]);
        let queues = queues(60);
        for (number, queue) in queues.iter().enumerate() {
            node.push(queue, &format!("old-{number:05}")).await.unwrap();
        }
        let before = [queues_of(&one), queues_of(&two)];
        // Its place in the list does not matter.
        let node = ShardedNode::open_with(node.close().await, &[&one, &two, &three], |options| {
            options.shards.rotate_right(1);
        });
        for (number, queue) in queues.iter().enumerate() {
            node.push(queue, &format!("new-{number:05}")).await.unwrap();
        }
        assert_eq!([queues_of(&one), queues_of(&two)], before, "no queue moved between them");
        let moved = queues_of(&three).len();
        assert!((8..=34).contains(&moved), "about a third moves: {moved} of 60");
        assert_eq!(node.drain(&queues).await.len(), 120);
    });
}

#[test]
fn a_shard_that_drains_ends_empty() {
    run(async |[one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open(&[&one, &two]);
        let queues = queues(20);
        let later = weir_base::clock::Clock::system().now() + Duration::from_secs(3_600);
        let at = format!(r#","at":"{}""#, rfc3339(later));
        for (number, queue) in queues.iter().enumerate() {
            node.push(queue, &format!("old-{number:05}")).await.unwrap();
            node.push_with(queue, &format!("scheduled-{number:05}"), &at).await.unwrap();
            let dead = format!("dead-{number:05}");
            node.push_with("dying", &dead, r#","retry":-1"#).await.unwrap();
            assert_eq!(node.fetch(&["dying".to_owned()], 1, LONG).await.unwrap().len(), 1);
            node.store.fail(report(&dead)).await.unwrap();
        }
        let (of_one, of_two) = (node.shard("one").await, node.shard("two").await);
        let leaving = if of_one.dead > 0 { "one" } else { "two" };
        assert!(of_one.enqueued > 0 && of_two.enqueued > 0);
        let node = ShardedNode::open_with(node.close().await, &[&one, &two], |options| {
            options.shards.iter_mut().for_each(|shard| shard.drain = shard.name == leaving);
        });
        let before = node.shard(leaving).await;
        for (number, queue) in queues.iter().enumerate() {
            node.push(queue, &format!("new-{number:05}")).await.unwrap();
        }
        let after = node.shard(leaving).await;
        assert!(after.drains);
        assert_eq!(after.enqueued, before.enqueued, "it gets no more jobs");
        assert_eq!(node.drain(&queues).await.len(), 40);
        eventually(async || {
            let shard = node.shard(leaving).await;
            shard.enqueued + shard.reserved + shard.scheduled + shard.retries + shard.dead == 0
        })
        .await;
        let counts = node.store.counts().await;
        assert_eq!((counts.scheduled, counts.dead), (20, 20), "nothing is lost or doubled");
        let left = if leaving == "one" { &one } else { &two };
        for key in ["schedule", "retry", "dead"] {
            let size: u64 = redis::cmd("ZCARD").arg(key).query(&mut left.client()).unwrap();
            assert_eq!(size, 0, "{key}");
        }
    });
}

#[test]
fn one_database_under_two_names_is_an_error() {
    run(async |[one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open(&[&one, &one]);
        let error = node.store.check_layouts().await.unwrap_err().to_string();
        assert!(error.contains("one and two"), "{error}");
        let node = ShardedNode::open(&[&one, &two]);
        assert_eq!(node.store.check_layouts().await, Ok(()));
    });
}

#[test]
fn a_walk_counts_each_job_once_that_it_has_examined() {
    run(async |[one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open(&[&one, &two]);
        for (number, queue) in queues(40).iter().enumerate() {
            for part in 0..5 {
                let at = format!(r#","at":"2999-01-01T00:{part:02}:{number:02}Z""#);
                node.push_with(queue, &format!("job-{number:03}-{part}"), &at).await.unwrap();
            }
        }
        for (limit, scan_max) in [(7, 1_000), (1_000, 7), (1_000, 1_000)] {
            let mut request = ScanRequest {
                place: JobLocation::Set(SetName::Scheduled),
                after: None,
                newest_first: false,
                limit,
                scan_max,
                filter: Filter::default(),
            };
            let mut scanned = 0;
            loop {
                let page = node.store.scan(request.clone()).await.unwrap();
                scanned += page.scanned;
                match page.next {
                    Some(next) => request.after = Some(next),
                    None => break,
                }
            }
            assert_eq!(scanned, 200, "{limit} {scan_max}");
        }
    });
}
