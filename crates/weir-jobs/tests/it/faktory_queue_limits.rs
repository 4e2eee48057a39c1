//! Limits on the jobs that wait in a queue, over the real port.

use weir_jobs::model::QueueName;
use weir_jobs::settings::{JobServerSettings, QueueSettings};

use crate::faktory_cases::{Case, run};

/// Two jobs may wait in `a`.
fn two_jobs(settings: &mut JobServerSettings) {
    let queue = QueueName::parse("a", &settings.limits).unwrap();
    let limited = QueueSettings { jobs_max: Some(2), ..QueueSettings::default() };
    settings.queues.insert(queue, limited);
}

const CASES: &[Case] = &[
    (
        "a push to a full queue is rejected until a worker fetches",
        two_jobs,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > PUSH {"jid":"job-0002","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > PUSH {"jid":"job-0003","jobtype":"T","args":[],"queue":"a"}
        < -BUSY retry-after=5 queue a is full: 2 of 2 jobs wait (jobs.queues.a.jobs_max); Weir has just started, and its rate is not known yet
        > PUSH {"jid":"job-0004","jobtype":"T","args":[]}
        < +OK
        > FETCH a
        < $*job-0001*
        > PUSH {"jid":"job-0003","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > PUSH {"jid":"job-0005","jobtype":"T","args":[],"queue":"a"}
        < -BUSY*
    "#,
    ),
    (
        "a PUSHB stores the jobs that have room, and names the others",
        two_jobs,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[],"queue":"a"},{"jid":"job-0002","jobtype":"T","args":[]},{"jid":"job-0003","jobtype":"T","args":[],"queue":"a"},{"jid":"job-0004","jobtype":"T","args":[],"queue":"a"}]
        < ${"job-0004":"BUSY retry-after=*"}
        > FETCHB 9 a default
        < [$*job-0001* $*job-0003* $*job-0002*]
    "#,
    ),
    (
        "a push that would add no job is not rejected because of a full queue",
        two_jobs,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[],"queue":"a","custom":{"unique_for":60}}
        < +OK
        > PUSH {"jid":"job-0002","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > PUSH {"jid":"job-0003","jobtype":"T","args":[],"queue":"a","custom":{"unique_for":60}}
        < -NOTUNIQUE Job not unique
        > PUSHB [{"jid":"job-0004","jobtype":"T","args":[1],"queue":"a","custom":{"unique_for":60}},{"jid":"job-0005","jobtype":"T","args":[],"queue":"a","custom":{"unique_for":60}}]
        < ${"job-0004":"BUSY *","job-0005":"NOTUNIQUE Job not unique"}
    "#,
    ),
    (
        "jobs that return to a full queue, and jobs for later, are accepted",
        two_jobs,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[],"queue":"a"},{"jid":"job-0002","jobtype":"T","args":[],"queue":"a"}]
        < ${}
        > PUSH {"jid":"job-0003","jobtype":"T","args":[],"queue":"a","at":"2999-01-01T00:00:00Z"}
        < +OK
        > FETCH a
        < $*job-0001*
        > FAIL {"jid":"job-0001","errtype":"E","message":"m"}
        < +OK
        > PUSH {"jid":"job-0004","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > MUTATE {"cmd":"requeue","target":"retries"}
        < +OK
        > MUTATE {"cmd":"requeue","target":"scheduled"}
        < +OK
        > FETCHB 9 a
        < [$*job-0002* $*job-0004* * *]
    "#,
    ),
];

#[test]
fn queues_are_limited() {
    run(CASES);
}
