//! The statistics by type of job: what workers did, and how long it took.

use std::time::Duration;

use weir_jobs::job_types::OTHER_TYPES;
use weir_jobs::model::{FailureReport, Wid, WorkerEnd};
use weir_jobs::store::{Action, FailOutcome, Filter, Store};
use weir_jobs::view::{JobTypeDetails, TypeCounts};

use super::harness::Harness;
use super::world::{World, place, report, seconds};

/// The type of the jobs that [`World`] pushes.
const TYPE: &str = "Test";

fn details<H: Harness>(world: &World<H>) -> JobTypeDetails {
    let types = world.harness.metrics().types();
    types.read_one(TYPE, 60).expect("a job has started")
}

fn total<H: Harness>(world: &World<H>) -> TypeCounts {
    details(world).figures.total
}

/// The sum of all waits, to the second.
fn waited<H: Harness>(world: &World<H>) -> f64 {
    total(world).wait_seconds.round()
}

pub(crate) async fn a_type_counts_starts_ends_and_failures<H: Harness>(world: World<H>) {
    assert_eq!(world.harness.metrics().types().read_one(TYPE, 60), None);
    world.push_to("a", "job-a-01 job-a-02 job-a-03").await;
    world.push_to("b", "job-b-01").await;
    world.advance(seconds(4)).await;
    world.drain("a b").await;
    assert_eq!(details(&world).figures.running, 4);
    world.advance(seconds(30)).await;
    world.ack("job-a-01").await;
    world.advance(seconds(30)).await;
    world.ack("job-b-01").await;
    world.fail("job-a-02").await;
    let shown = details(&world);
    let figures = &shown.figures;
    let counts = TypeCounts {
        started: 4,
        ended: 3,
        failed: 1,
        returned: 0,
        failed_share: Some(1.0 / 3.0),
        wait_seconds: 16.0,
        run_seconds: 150.0,
    };
    assert_eq!((figures.running, rounded(&figures.total)), (1, counts.clone()));
    assert_eq!(rounded(&figures.recent), counts);
    let (wait, run) = (figures.wait.unwrap(), figures.run.unwrap());
    assert_eq!((wait.max.round(), run.max.round()), (4.0, 60.0));
    assert!((53.0..=60.0).contains(&run.p50), "the second of three: {}", run.p50);
    let queues: Vec<_> = shown.queues.iter().map(|it| (&*it.queue, it.total, it.recent)).collect();
    assert_eq!(queues, [("a", 3, 3), ("b", 1, 1)]);
    assert!((shown.queues[0].total_share - 0.75).abs() < 1e-9);
}

fn rounded(counts: &TypeCounts) -> TypeCounts {
    let (wait_seconds, run_seconds) = (counts.wait_seconds.round(), counts.run_seconds.round());
    TypeCounts { wait_seconds, run_seconds, ..counts.clone() }
}

pub(crate) async fn failures_are_grouped_by_their_class<H: Harness>(world: World<H>) {
    for (jid, class, message) in [
        ("job-00001", "Timeout", "no reply from a"),
        ("job-00002", "KeyError", "key"),
        ("job-00003", "Timeout", "no reply from b"),
    ] {
        world.push_with(jid, r#""retry":-1"#).await;
        world.fetch("default").await;
        world.advance(seconds(10)).await;
        let (errtype, message) = (class.to_owned(), message.to_owned());
        let report = FailureReport { errtype, message, ..report(jid) };
        assert_eq!(world.store().fail(report).await, Ok(FailOutcome::Dead));
    }
    let shown = details(&world);
    let groups: Vec<_> =
        shown.errors.iter().map(|it| (&*it.errtype, it.total, &*it.jid, &*it.message)).collect();
    let expected =
        [("Timeout", 2, "job-00003", "no reply from b"), ("KeyError", 1, "job-00002", "key")];
    assert_eq!(groups, expected);
    let first = &shown.errors[0];
    assert_eq!((first.last_at - first.first_at).round(), 20.0);
    let last = shown.figures.last_failure.unwrap();
    assert_eq!((&*last.errtype, last.since), ("Timeout", first.first_at));
}

pub(crate) async fn a_wait_begins_when_a_job_is_ready<H: Harness>(world: World<H>) {
    world.schedule("job-00001", seconds(600)).await;
    world.advance(seconds(600)).await;
    world.advance(seconds(3)).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00001"));
    assert_eq!(waited(&world), 3.0, "from its time");

    let FailOutcome::Retry { next_at } = world.fail("job-00001").await else {
        panic!("it is retried")
    };
    world.advance(next_at.since(world.now())).await;
    world.advance(seconds(20)).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00001"));
    assert_eq!(waited(&world), 23.0, "from the time of its retry");

    world.fail("job-00001").await;
    world.advance(seconds(5)).await;
    assert_eq!(world.act_on("retries", "job-00001", Action::Requeue).await, 1);
    world.advance(seconds(100)).await;
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00001"));
    assert_eq!(waited(&world), 123.0, "from when an operator put it back");
}

/// As the adapters of ActiveJob push them, for Sidekiq and for Faktory.
pub(crate) async fn a_wrapped_job_has_the_type_that_it_wraps<H: Harness>(world: World<H>) {
    let jobs = [
        ("job-00001", r#""wrapped":"CleanJob""#),
        ("job-00002", r#""custom":{"wrapped":"CleanJob"}"#),
    ];
    for (jid, members) in jobs {
        world.push_with(jid, members).await;
        let listed = async |jobtype: &str| {
            let filter = Filter { jobtype: Some(jobtype.to_owned()), ..Filter::default() };
            world.list_where(&place("queue:default"), filter, false).await.len()
        };
        let found = (listed("CleanJob").await, listed(TYPE).await, listed("Clean").await);
        assert_eq!(found, (1, 1, 0), "{jid}: also by the name of the wrapper");
        assert_eq!(world.fetch("default").await.as_deref(), Some(jid));
        assert_eq!(&*world.store().reservations(9).await[0].jobtype, "CleanJob");
        world.ack(jid).await;
    }
    let types = world.harness.metrics().types();
    assert_eq!(types.read_one("CleanJob", 60).unwrap().figures.total.ended, 2);
    assert_eq!(types.read_one(TYPE, 60), None);
}

pub(crate) async fn a_wait_does_not_begin_with_an_earlier_return<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001").await;
    world.fetch_as("w1", "default").await;
    assert_eq!(world.store().release(&Wid::new("w1"), WorkerEnd::Stopped).await, Ok(1));
    world.advance(seconds(500)).await;
    assert_eq!(world.act_on("queue:default", "job-00001", Action::Kill).await, 1);
    world.advance(seconds(3_000)).await;
    assert_eq!(world.act_on("dead", "job-00001", Action::Requeue).await, 1);
    world.advance(seconds(3)).await;
    world.fetch_as("w2", "default").await;
    assert_eq!(waited(&world), 3.0, "from when an operator put it back");
}

pub(crate) async fn a_job_of_a_worker_that_ended_waits_from_then_on<H: Harness>(world: World<H>) {
    world.push_to("default", "job-00001").await;
    world.fetch_as("w1", "default").await;
    world.advance(seconds(500)).await;
    assert_eq!(world.store().release(&Wid::new("w1"), WorkerEnd::Killed).await, Ok(1));
    let figures = details(&world).figures;
    assert_eq!((figures.running, figures.total.returned, figures.total.ended), (0, 1, 0));
    world.advance(seconds(7)).await;
    world.fetch_as("w2", "default").await;
    assert_eq!(waited(&world), 7.0, "not from its push");
    world.advance(seconds(2)).await;
    assert_eq!(world.ack("job-00001").await, 1);
    let total = total(&world);
    assert_eq!((total.started, total.ended, total.returned), (2, 1, 1));
    assert_eq!(total.run_seconds.round(), 2.0, "its first run did not end");
}

pub(crate) async fn what_does_not_end_is_returned<H: Harness>(world: World<H>) {
    let stuck = world.stuck_fetch("w1", "default").await;
    world.push_to("default", "job-00001").await;
    drop(stuck);
    assert_eq!(world.fetch("default").await.as_deref(), Some("job-00001"));
    assert_eq!(details(&world).figures.running, 1);
    world.store().flush().await.unwrap();
    let figures = details(&world).figures;
    let TypeCounts { started, ended, returned, .. } = figures.total;
    assert_eq!((figures.running, ended), (0, 0));
    assert_eq!(started, returned);
}

pub(crate) async fn a_lapsed_reservation_is_a_failure_of_its_type<H: Harness>(world: World<H>) {
    world.push_with("job-00001", r#""reserve_for":60"#).await;
    world.fetch("default").await;
    world.advance(seconds(60)).await;
    let shown = details(&world);
    assert_eq!((shown.figures.running, shown.figures.total.failed), (0, 1));
    assert_eq!(shown.errors[0].errtype, "ReservationExpired");
    assert_eq!(shown.figures.run.unwrap().max.round(), 60.0);
}

pub(crate) async fn types_beyond_the_limit_share_their_figures<H: Harness>(_: World<H>) {
    let world = World::<H>::with_limits(|limits| {
        limits.job_types_max = 2;
        limits.job_type_groups_max = 1;
    });
    for (number, class) in ["A", "B", "C", "D", "A"].into_iter().enumerate() {
        let jid = format!("job-0000{number}");
        let job = format!(r#"{{"jid":"{jid}","jobtype":"{class}","args":[],"retry":-1}}"#);
        world.push_json(&job).await.unwrap();
        assert_eq!(world.fetch("default").await, Some(jid.clone()));
        world.advance(Duration::from_millis(1)).await;
        let errtype = format!("Error{number}");
        world.store().fail(FailureReport { errtype, ..report(&jid) }).await.unwrap();
    }
    let shown = world.harness.metrics().types().read(60, None);
    let mut types: Vec<_> = shown.types.iter().map(|it| (&*it.jobtype, it.total.started)).collect();
    types.sort_unstable();
    assert_eq!(types, [("A", 2), ("B", 1)]);
    assert_eq!(
        shown.other.map(|it| (it.jobtype, it.total.failed)),
        Some((OTHER_TYPES.to_owned(), 2))
    );
    let a = world.harness.metrics().types().read_one("A", 60).unwrap();
    assert_eq!((a.errors.len(), a.other_errors.unwrap().total), (1, 1));
    let hits = world.harness.metrics().limit_hits();
    let of = |name: &str| hits.iter().find(|hit| hit.limit == name).map(|hit| hit.hits);
    assert_eq!((of("job_types_max"), of("job_type_groups_max")), (Some(2), Some(2)));
}
