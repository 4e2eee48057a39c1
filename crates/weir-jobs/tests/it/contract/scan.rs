//! Walks through places, and actions on what they list.

use std::collections::{BTreeMap, BTreeSet};

use weir_jobs::model::{EntryKey, SetName};
use weir_jobs::store::{Action, Filter, JobState, ScanRequest, Selection, Store};

use super::harness::Harness;
use super::world::{World, place, seconds};

async fn schedule_many<H: Harness>(world: &World<H>, count: u64) -> Vec<String> {
    let jids: Vec<String> = (0..count).map(|n| format!("job-{n:05}")).collect();
    for (jid, after) in jids.iter().zip(1..) {
        world.schedule(jid, seconds(after)).await;
    }
    jids
}

pub(crate) async fn a_place_is_paged_through_in_both_directions<H: Harness>(world: World<H>) {
    let jids = schedule_many(&world, 10).await;
    world.push_to("default", &jids.join(" ")).await;
    for name in ["scheduled", "queue:default"] {
        let listed = world.list(&place(name)).await;
        let found: Vec<_> = listed.iter().map(|job| job.key.jid.to_string()).collect();
        assert_eq!(found, jids);
        assert!(
            listed.windows(2).all(|pair| pair[0].key < pair[1].key && pair[0].at <= pair[1].at)
        );
        let backwards = world.list_where(&place(name), Filter::default(), true).await;
        assert_eq!(backwards, listed.into_iter().rev().collect::<Vec<_>>());
    }
    assert!(world.list(&place("dead")).await.is_empty());
    assert!(world.list(&place("queue:nobody")).await.is_empty());
}

pub(crate) async fn a_page_looks_at_only_so_many_jobs<H: Harness>(world: World<H>) {
    let jids = schedule_many(&world, 10).await;
    let filter = Filter { jids: vec![jids[7].clone()], ..Filter::default() };
    let request = |after: Option<EntryKey>| ScanRequest {
        place: place("scheduled"),
        after,
        newest_first: false,
        limit: 5,
        scan_max: 4,
        filter: filter.clone(),
    };
    let first = world.store().scan(request(None)).await.unwrap();
    assert_eq!((first.jobs.len(), first.scanned), (0, 4));
    assert_eq!(first.next.as_ref().unwrap().jid.as_ref(), jids[3]);
    let second = world.store().scan(request(first.next)).await.unwrap();
    assert_eq!((second.jobs.len(), second.scanned), (1, 4));
    let third = world.store().scan(request(second.next)).await.unwrap();
    assert_eq!((third.jobs.len(), third.scanned, third.next), (0, 2, None));
}

pub(crate) async fn filters_choose_jobs<H: Harness>(world: World<H>) {
    let json = |jid: &str, jobtype: &str, args: &str| {
        format!(r#"{{"jid":"{jid}","jobtype":"{jobtype}","args":[{args}]}}"#)
    };
    world.push_json(&json("job-00001", "Mail", r#""uid:1""#)).await.unwrap();
    world.push_json(&json("job-00002", "Mail", r#""uid:2""#)).await.unwrap();
    world.push_json(&json("job-00003", "Report", r#""uid:1""#)).await.unwrap();
    let queue = place("queue:default");
    let found = async |pattern: Option<&str>, jobtype: Option<&str>, jids: &[&str]| {
        let filter = Filter {
            pattern: pattern.map(str::to_owned),
            jobtype: jobtype.map(str::to_owned),
            jids: jids.iter().map(|jid| (*jid).to_owned()).collect(),
        };
        let jobs = world.list_where(&queue, filter, false).await;
        jobs.iter().map(|job| job.key.jid.replace("job-0000", "")).collect::<String>()
    };
    assert_eq!(found(None, None, &[]).await, "123");
    assert_eq!(found(Some("*uid:1*"), None, &[]).await, "13");
    assert_eq!(found(Some("uid:1"), None, &[]).await, "", "a glob is over the whole text");
    assert_eq!(found(Some("*uid:?*"), Some("Mail"), &[]).await, "12");
    assert_eq!(found(None, Some("Report"), &[]).await, "3");
    assert_eq!(found(Some("*nowhere*"), Some("None"), &["job-00002", "x"]).await, "2");
}

pub(crate) async fn a_scan_of_a_changing_set_misses_nothing_that_stays<H: Harness>(
    world: World<H>,
) {
    let jids = schedule_many(&world, 20).await;
    let scheduled = place("scheduled");
    let (mut seen, mut after, mut pages) = (BTreeSet::new(), None, 0);
    let leaving: BTreeSet<&String> = jids.iter().skip(2).step_by(3).collect();
    loop {
        let page = world.page(&scheduled, after, &Filter::default(), false).await;
        seen.extend(page.jobs.iter().map(|job| job.key.jid.to_string()));
        // The last job of the page leaves, so the walk goes on from a key that is gone.
        if let Some(last) =
            page.jobs.last().filter(|job| leaving.contains(&job.key.jid.to_string()))
        {
            let key = last.key.clone();
            world.act("scheduled", Selection::Entries(vec![key]), Action::Discard).await;
        }
        world.schedule(&format!("new-{pages:05}"), seconds(5)).await;
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(pages >= 6);
    for jid in &jids {
        assert!(seen.contains(jid), "{jid} was there all the time, or until it was seen");
    }
}

pub(crate) async fn jobs_of_the_same_time_are_all_listed<H: Harness>(world: World<H>) {
    let jids: BTreeSet<String> = (0..10).map(|n| format!("job-{n:05}")).collect();
    for jid in &jids {
        world.schedule(jid, seconds(60)).await;
    }
    for newest_first in [false, true] {
        let listed = world.list_where(&place("scheduled"), Filter::default(), newest_first).await;
        assert_eq!(listed.len(), 10);
        let found: BTreeSet<String> = listed.iter().map(|job| job.key.jid.to_string()).collect();
        assert_eq!(found, jids);
    }
}

pub(crate) async fn a_jid_used_twice_does_not_hold_up_a_walk<H: Harness>(world: World<H>) {
    for jid in ["twin-001", "twin-001", "twin-001", "twin-001", "other-01"] {
        world.schedule(jid, seconds(60)).await;
    }
    for newest_first in [false, true] {
        let listed = world.list_where(&place("scheduled"), Filter::default(), newest_first).await;
        assert!(listed.iter().any(|job| &*job.key.jid == "other-01"), "{newest_first}");
    }
}

pub(crate) async fn a_walk_goes_on_when_its_last_job_leaves_others_of_its_time<H: Harness>(
    world: World<H>,
) {
    for newest_first in [false, true] {
        let jids: BTreeSet<String> = (0..8).map(|n| format!("job-{n:05}")).collect();
        for jid in &jids {
            world.schedule(jid, seconds(60)).await;
        }
        let scheduled = place("scheduled");
        let (mut seen, mut after) = (BTreeSet::new(), None);
        loop {
            let page = world.page(&scheduled, after, &Filter::default(), newest_first).await;
            seen.extend(page.jobs.iter().map(|job| job.key.jid.to_string()));
            after = page.next;
            let Some(key) = after.clone() else { break };
            let last = Selection::Entries(vec![key]);
            world.act("scheduled", last, Action::Discard).await;
        }
        assert_eq!(seen, jids, "newest first: {newest_first}");
        world.act("scheduled", Selection::All, Action::Discard).await;
    }
}

pub(crate) async fn the_last_page_says_so<H: Harness>(world: World<H>) {
    schedule_many(&world, 6).await;
    let scheduled = place("scheduled");
    let first = world.page(&scheduled, None, &Filter::default(), false).await;
    assert_eq!(first.jobs.len(), 3);
    let last = world.page(&scheduled, first.next, &Filter::default(), false).await;
    assert_eq!((last.jobs.len(), last.next), (3, None));
}

pub(crate) async fn an_action_never_hits_another_job<H: Harness>(world: World<H>) {
    world.schedule("job-00001", seconds(10)).await;
    world.schedule("job-00002", seconds(10)).await;
    let stale = world.key("scheduled", "job-00001").await;
    let wrong = [
        EntryKey { order: stale.order + 1, jid: stale.jid.clone() },
        EntryKey { order: stale.order, jid: Box::from("job-00003") },
    ];
    let selection = Selection::Entries(wrong.to_vec());
    assert_eq!(world.act("scheduled", selection, Action::Discard).await, 0);
    let selection = Selection::Entries(vec![stale.clone()]);
    assert_eq!(world.act("retries", selection.clone(), Action::Discard).await, 0, "elsewhere");
    assert_eq!(world.act("queue:default", selection.clone(), Action::Discard).await, 0);
    world.act("scheduled", selection.clone(), Action::Requeue).await;
    assert_eq!(world.act("scheduled", selection.clone(), Action::Kill).await, 0, "it has left");
    assert_eq!(world.act("queue:default", selection, Action::Kill).await, 0, "with a new place");
    let twice = world.key("queue:default", "job-00001").await;
    let twice = Selection::Entries(vec![twice.clone(), twice]);
    assert_eq!(world.act("queue:default", twice, Action::Discard).await, 1);
    assert_eq!(world.census().await, (0, 0, 1, 0, 0));

    world.push_to("default", "job-00004").await;
    let flushed = world.key("queue:default", "job-00004").await;
    world.store().flush().await.unwrap();
    world.push_to("default", "job-00004").await;
    let flushed = Selection::Entries(vec![flushed]);
    assert_eq!(world.act("queue:default", flushed, Action::Kill).await, 0);
}

pub(crate) async fn an_action_on_all_says_how_many<H: Harness>(world: World<H>) {
    let jids = schedule_many(&world, 600).await;
    assert_eq!(world.act("scheduled", Selection::All, Action::Requeue).await, 600);
    assert_eq!(world.act("scheduled", Selection::All, Action::Requeue).await, 0);
    assert_eq!(world.depth("default").await, 600);
    assert_eq!(world.jids("queue:default").await, jids.join(" "));
    assert_eq!(world.act("queue:default", Selection::All, Action::Kill).await, 600);
    assert_eq!(world.act("dead", Selection::All, Action::Requeue).await, 600);
    assert_eq!(world.act("queue:default", Selection::All, Action::Discard).await, 600);
    assert_eq!(world.census().await, (0, 0, 0, 0, 0));
}

pub(crate) async fn a_job_is_found_wherever_it_is<H: Harness>(world: World<H>) {
    let state = async |jid: &str| world.found(jid).await.map(|job| job.state);
    assert_eq!(state("job-00001").await, None);
    world.schedule("job-00001", seconds(5)).await;
    assert_eq!(state("job-00001").await, Some(JobState::In(SetName::Scheduled)));
    world.advance(seconds(5)).await;
    let found = world.found("job-00001").await.unwrap();
    assert_eq!(found.state, JobState::Enqueued);
    assert_eq!((found.retry, found.reserve_for_seconds, found.at), (25, 1_800, world.now()));
    assert_eq!((&*found.jobtype, found.queue.as_str()), ("Test", "default"));
    let delivery = world.fetch_as("w1", "default").await.unwrap();
    assert_eq!(delivery.json, found.json);
    assert!(matches!(state("job-00001").await, Some(JobState::Reserved { .. })));
    world.fail("job-00001").await;
    assert_eq!(state("job-00001").await, Some(JobState::In(SetName::Retries)));
    world.act_on("retries", "job-00001", Action::Kill).await;
    assert_eq!(state("job-00001").await, Some(JobState::In(SetName::Dead)));
}

/// Draws jobs as the X-ray does.
async fn drawn<H: Harness>(world: &World<H>, name: &str, count: usize) -> BTreeMap<String, usize> {
    let mut draws = BTreeMap::new();
    let mut total = 0;
    for _call in 0..100_000 {
        let sample = world.store().sample(&place(name), count - total).await.unwrap();
        assert!(sample.jobs.len() <= count - total, "more than was asked for");
        assert_eq!(sample.missing, None);
        total += sample.jobs.len();
        for job in sample.jobs {
            *draws.entry(job.key.jid.to_string()).or_default() += 1;
        }
        if total == count {
            return draws;
        }
    }
    panic!("{total} draws in so many calls");
}

pub(crate) async fn samples_are_drawn_uniformly<H: Harness>(world: World<H>) {
    let scheduled = schedule_many(&world, 400).await;
    let waiting: Vec<String> = (0..400).map(|n| format!("wait-{n:05}")).collect();
    world.push_to("default", &waiting.join(" ")).await;
    world.push_to("other", "other-001").await;
    // Some leave from either end and from the middle.
    for jid in ["wait-00000", "wait-00001", "wait-00200", "wait-00399"] {
        world.act_on("queue:default", jid, Action::Discard).await;
    }
    let first = scheduled[0].clone();
    world.act_on("scheduled", &first, Action::Kill).await;
    for (name, jobs) in [("queue:default", 396), ("scheduled", 399)] {
        let draws = drawn(&world, name, 8_000).await;
        assert_eq!(draws.len(), jobs, "{name}: every job is drawn, and no other");
        assert!(!draws.contains_key(&first) && !draws.contains_key("wait-00200"));
        // Chi-square: its mean is the degrees of freedom, and 1.5 of that is seven standard deviations.
        let expected = 8_000.0 / jobs as f64;
        let square = |count: &usize| (*count as f64 - expected).powi(2) / expected;
        let chi: f64 = draws.values().map(square).sum();
        assert!(chi < 1.5 * jobs as f64, "{name}: {chi}");
    }
    let dead = drawn(&world, "dead", 10).await;
    assert_eq!(dead.into_iter().collect::<Vec<_>>(), [(first, 10)]);
}

pub(crate) async fn samples_of_nothing_are_empty<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001").await;
    world.fetch("default").await.unwrap();
    for name in ["queue:default", "queue:nobody", "dead"] {
        let sample = world.store().sample(&place(name), 10).await.unwrap();
        assert!(sample.jobs.is_empty(), "{name}: a reserved job is not there");
    }
}
