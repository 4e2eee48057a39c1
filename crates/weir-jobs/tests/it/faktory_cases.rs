//! Each corner of the protocol as a conversation, over every store.

use std::time::Duration;

use crate::faktory_server::{STORES, Server};
use weir_jobs::settings::JobServerSettings;

/// A name, settings, and a conversation after HELLO as a worker `w1`.
pub(crate) type Case = (&'static str, fn(&mut JobServerSettings), &'static str);

pub(crate) fn plain(_: &mut JobServerSettings) {}

fn flush_allowed(settings: &mut JobServerSettings) {
    settings.allow_flush = true;
}

const PUSH: &[Case] = &[
    (
        "a job goes in and out with what the server fills in",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[1,"a"],"custom":{"x":1},"unknown":[1]}
        < +OK
        > FETCH default
        < ${"jid":"12345678","jobtype":"T","args":[1,"a"],"custom":{"x":1},"unknown":[1],"created_at":"*Z","queue":"default","retry":25,"enqueued_at":"*Z"}
        > ACK {"jid":"12345678"}
        < +OK
        > FETCH default
        < $-1
    "#,
    ),
    (
        "integers above 2^53 come back unchanged",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[109326485893512345,1e400,-0.0]}
        < +OK
        > FETCH default
        < $*"args":[109326485893512345,1e400,-0.0]*
    "#,
    ),
    (
        "one job's retry does not become the default of later ones",
        flush_allowed,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"retry":-1}
        < +OK
        > PUSH {"jid":"12345679","jobtype":"T","args":[]}
        < +OK
        > FETCH default
        < $*12345678*
        > FAIL {"jid":"12345678","errtype":"E","message":"m"}
        < +OK
        > FETCH default
        < $*12345679*
        > FAIL {"jid":"12345679","errtype":"E","message":"m"}
        < +OK
        > INFO
        < $*"sets":{"scheduled":0,"retries":1,"dead":1,"working":0}*
    "#,
    ),
    (
        "what a job must have",
        plain,
        r#"
        > PUSH {"jid":"1234567","jobtype":"T","args":[]}
        < -ERR jobs must have a reasonable jid parameter*
        > PUSH {"jobtype":"T","args":[]}
        < -ERR jobs must have a reasonable jid parameter*
        > PUSH {"jid":"12345678","args":[]}
        < -ERR jobs must have a jobtype parameter
        > PUSH {"jid":"12345678","jobtype":"","args":[]}
        < -ERR jobs must have a jobtype parameter
        > PUSH {"jid":"12345678","jobtype":"T"}
        < -ERR jobs must have an args parameter
        > PUSH {"jid":"12345678","jobtype":"T","args":{}}
        < -ERR *args*
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"a b"}
        < -ERR *queue name*
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"reserve_for":86401}
        < -ERR *reserve*
        > PUSH {"jid":"12345678"
        < -ERR malformed job: *
        > PUSH
        < -ERR malformed job: *
        > INFO
        < $*"total_enqueued":0*
    "#,
    ),
    (
        "a past time means now, a later one is scheduled",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"at":"2001-01-01T00:00:00Z"}
        < +OK
        > PUSH {"jid":"12345679","jobtype":"T","args":[],"at":"2999-01-01T00:00:00Z"}
        < +OK
        > FETCH default
        < $*12345678*
        > FETCH default
        < $-1
        > INFO
        < $*"scheduled":1*
    "#,
    ),
    (
        "PUSHB stores what it can and names the rest",
        plain,
        r#"
        > PUSHB [{"jid":"12345678","jobtype":"T","args":[]},{"jid":"12345679","jobtype":"T"},{"jid":"12345670","jobtype":"T","args":[]}]
        < ${"12345679":"jobs must have an args parameter"}
        > FETCH default
        < $*12345678*
        > FETCH default
        < $*12345670*
        > PUSHB []
        < ${}
        > PUSHB {"jid":"12345678"}
        < -ERR malformed job*
        > PUSHB
        < -ERR *
    "#,
    ),
    (
        "lines may end in a bare newline",
        plain,
        r#"
        >> PUSH {"jid":"12345678","jobtype":"T","args":[]}
        < +OK
        >> FETCH default
        < $*12345678*
    "#,
    ),
];

const MEMBERS: &[Case] = &[
    (
        "a null is an absent member, which strict workers need to be absent",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":null,"reserve_for":null,"retry":null,"backtrace":null,"at":null,"created_at":null,"custom":null}
        < +OK
        > FETCH default
        < ${"jid":"12345678","jobtype":"T","args":[],"created_at":"*Z","queue":"default","retry":25,"enqueued_at":"*Z"}
    "#,
    ),
    (
        "what a strict worker could not read is refused",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"custom":[]}
        < -ERR malformed job: custom must be an object
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"at":"2999-01-01 00:00:00Z"}
        < -ERR malformed job: at is not an RFC 3339 time: it must look like *
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"at":"2999-02-29T00:00:00Z"}
        < -ERR malformed job: at is not an RFC 3339 time: there is no such day*
    "#,
    ),
    (
        "retries and times without end are taken",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"retry":9223372036854775807}
        < +OK
        > FETCH default
        < $*"retry":9223372036854775807*
        > FAIL {"jid":"12345678"}
        < +OK
        > PUSH {"jid":"12345679","jobtype":"T","args":[],"at":"9999-12-31T23:59:59.9999999Z"}
        < +OK
        > INFO
        < $*"sets":{"scheduled":1,"retries":1,"dead":0,"working":0}*
        > MUTATE {"cmd":"requeue","target":"retries"}
        < +OK
        > FETCH default
        < $*"message":"unknown","errtype":"unknown"*
    "#,
    ),
];

const FETCH: &[Case] = &[
    (
        "queues are served in the order of the FETCH",
        plain,
        r#"
        > PUSH {"jid":"low-0001","jobtype":"T","args":[],"queue":"low"}
        < +OK
        > PUSH {"jid":"high-001","jobtype":"T","args":[],"queue":"high"}
        < +OK
        > FETCH high low
        < $*high-001*
        > FETCH high low
        < $*low-0001*
        > FETCH high low
        < $-1
    "#,
    ),
    (
        "a FETCH must name a queue",
        plain,
        r#"
        > FETCH
        < -ERR FETCH needs at least one queue*
        > FETCH a/b
        < -ERR queue name has a character outside*
    "#,
    ),
    (
        "paused queues are passed by",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"q.1_-"}
        < +OK
        > QUEUE PAUSE q.1_- unknown
        < +OK
        > FETCH q.1_-
        < $-1
        > QUEUE RESUME *
        < +OK
        > FETCH q.1_-
        < $*12345678*
    "#,
    ),
    (
        "ACK is OK for a jid that nobody holds, not for what is none",
        plain,
        r#"
        > ACK {"jid":"unknown-jid"}
        < +OK
        > ACK {"jid":7}
        < -ERR malformed ACK: *
        > ACK
        < -ERR malformed ACK: *
        > ACK {}
        < -ERR malformed ACK: *
    "#,
    ),
    (
        "a failed job is retried later, with its failure",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"retry":1}
        < +OK
        > FETCH default
        < $*12345678*
        > FAIL {"jid":"12345678","errtype":"E","message":"first","backtrace":["a","b"]}
        < +OK
        > INFO
        < $*"sets":{"scheduled":0,"retries":1,"dead":0,"working":0}*"total_failures":1*
        > MUTATE {"cmd":"requeue","target":"retries"}
        < +OK
        > FETCH default
        < $*"failure":{"retry_count":0,"remaining":*,"failed_at":"*","next_at":"*","message":"first","errtype":"E","backtrace":["a","b"]}*
        > FAIL {"jid":"12345678","errtype":"E","message":"second"}
        < +OK
        > INFO
        < $*"sets":{"scheduled":0,"retries":0,"dead":1,"working":0}*
    "#,
    ),
    (
        "retry 0 throws a failed job away",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"retry":0}
        < +OK
        > FETCH default
        < $*12345678*
        > FAIL {"jid":"12345678"}
        < +OK
        > INFO
        < $*"sets":{"scheduled":0,"retries":0,"dead":0,"working":0}*
    "#,
    ),
    (
        "FAIL of what nobody holds",
        plain,
        r#"
        > FAIL {"jid":"unknown-jid","errtype":"E","message":"m"}
        < -ERR Job not found unknown-jid
        > FAIL {"errtype":"E"}
        < -ERR malformed FAIL: *
    "#,
    ),
];

const OTHERS: &[Case] = &[
    (
        "BEAT answers OK, then the state once there is one",
        plain,
        r#"
        > BEAT {"wid":"w1","rss_kb":12}
        < +OK
        > BEAT {"wid":"w1","current_state":"quiet"}
        < ${"state":"quiet"}
        > BEAT {"wid":"w1","current_state":"running"}
        < ${"state":"quiet"}
        > BEAT {"wid":"w1","current_state":"terminate"}
        < ${"state":"terminate"}
        > BEAT {"wid":"w1"}
        < ${"state":"terminate"}
        > BEAT {"wid":"nobody"}
        < -ERR unknown worker nobody
        > BEAT nonsense
        < -ERR malformed BEAT: *
    "#,
    ),
    (
        "a BEAT is not lost over a state of another name or an odd number",
        plain,
        r#"
        > BEAT {"wid":"w1","current_state":"tired","rss_kb":-1}
        < +OK
        > BEAT {"wid":"w1","current_state":"quiet"}
        < ${"state":"quiet"}
        > BEAT {"wid":"w1","current_state":"tired"}
        < ${"state":"quiet"}
    "#,
    ),
    (
        "a quiet worker gets no job",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[]}
        < +OK
        > BEAT {"wid":"w1","current_state":"quiet"}
        < ${"state":"quiet"}
        > FETCH default
        < $-1
        > INFO
        < $*"queues":{"default":1}*
    "#,
    ),
    (
        "INFO has the members and types that strict clients read",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > INFO
        < ${"now":"*Z","server_utc_time":"*:*:* UTC","faktory":{"queues":{"a":1},"sets":{"scheduled":0,"retries":0,"dead":0,"working":0},"tasks":{"Busy":{"reaped":0,"size":0},"Dead":{"cycles":*,"enqueued":0,"size":0,"wall_time_sec":*},"Retries":{"cycles":*,"enqueued":0,"size":0,"wall_time_sec":*},"Scheduled":{"cycles":*,"enqueued":0,"size":0,"wall_time_sec":*},"Workers":{"reaped":0,"size":1}},"total_failures":0,"total_processed":0,"total_enqueued":1,"total_queues":1},"server":{"description":"Weir (with the commands of Faktory Enterprise)","faktory_version":"1.10.0","uptime":0,"connections":1,"command_count":1,"used_memory_mb":*}}
    "#,
    ),
    (
        "INFO's tasks have the sizes of what they look after",
        plain,
        r#"
        > PUSHB [{"jid":"12345678","jobtype":"T","args":[]},{"jid":"12345679","jobtype":"T","args":[],"retry":-1},{"jid":"12345680","jobtype":"T","args":[]},{"jid":"12345681","jobtype":"T","args":[],"at":"2100-01-01T00:00:00Z"}]
        < ${}
        > FETCH default
        < $*12345678*
        > FAIL {"jid":"12345678","errtype":"E","message":"m"}
        < +OK
        > FETCH default
        < $*12345679*
        > FAIL {"jid":"12345679","errtype":"E","message":"m"}
        < +OK
        > FETCH default
        < $*12345680*
        > INFO
        < $*"tasks":{"Busy":{"reaped":0,"size":1},"Dead":{"cycles":*,"enqueued":0,"size":1,"wall_time_sec":*},"Retries":{"cycles":*,"enqueued":0,"size":1,"wall_time_sec":*},"Scheduled":{"cycles":*,"enqueued":0,"size":1,"wall_time_sec":*},"Workers":{"reaped":0,"size":1}}*
    "#,
    ),
    (
        "FLUSH is refused unless allowed, and names its setting",
        plain,
        r#"
        > FLUSH
        < -ERR FLUSH is not allowed*jobs.allow_flush = true*
    "#,
    ),
    (
        "FLUSH leaves no names behind",
        flush_allowed,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > FLUSH
        < +OK
        > INFO
        < $*"queues":{},*"total_queues":0*
    "#,
    ),
    (
        "* stands for all queues, but not among names",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > QUEUE REMOVE b *
        < -ERR queue name has a character outside*
        > QUEUE REMOVE * b
        < -ERR queue name has a character outside*
        > INFO
        < $*"queues":{"a":1},*
        > QUEUE remove *
        < +OK
        > INFO
        < $*"queues":{},*
    "#,
    ),
    (
        "* does not stand for quarantined jobs",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > PUSH {"jid":"22345678","jobtype":"T","args":[],"queue":"quarantine.poison.a"}
        < +OK
        > QUEUE REMOVE *
        < +OK
        > INFO
        < $*"queues":{"quarantine.poison.a":1},*
    "#,
    ),
    (
        "a payload is an object, not its members in a row",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[]}
        < +OK
        > ACK ["12345678"]
        < -ERR malformed ACK: a JSON object must follow
        > FAIL ["12345678",null,null,null]
        < -ERR malformed FAIL: a JSON object must follow
        > BEAT ["w1",null,null]
        < -ERR malformed BEAT: a JSON object must follow
        > MUTATE ["clear","dead",null]
        < -ERR malformed MUTATE: a JSON object must follow
        > INFO
        < $*"queues":{"default":1},*
    "#,
    ),
    (
        "END closes without a word",
        plain,
        r"
        > END
        < closed
    ",
    ),
    (
        "QUEUE REMOVE forgets a queue, LATENCY says how long it waits",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > QUEUE LATENCY a unknown
        < ${"a":0.*,"unknown":0.0}
        > QUEUE LATENCY *
        < -ERR QUEUE LATENCY does not support wildcards
        > QUEUE latency unknown
        < ${"unknown":0.0}
        > QUEUE REMOVE a b
        < +OK
        > INFO
        < $*"queues":{},*
        > QUEUE PAUSE
        < -ERR malformed QUEUE: *
        > QUEUE
        < -ERR malformed QUEUE: *
        > QUEUE DANCE a
        < -ERR malformed QUEUE: *
        > QUEUE PAUSE a/b
        < -ERR queue name has a character outside*
        > QUEUE LATENCY
        < -ERR malformed QUEUE: *
    "#,
    ),
    (
        "what is no command",
        plain,
        r#"
        > push {}
        < -ERR unknown command push
        >
        < -ERR unknown command *
        > HELLO {"v":2}
        < -ERR unknown command HELLO
    "#,
    ),
];

const MUTATE: &[Case] = &[
    (
        "clear, and discard without a filter",
        plain,
        r#"
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"at":"2999-01-01T00:00:00Z"}
        < +OK
        > MUTATE { "cmd" : "clear" , "target" : "scheduled" , "filter" : {"jids":["other-jid"]} }
        < +OK
        > INFO
        < $*"scheduled":0*
        > PUSH {"jid":"12345678","jobtype":"T","args":[],"at":"2999-01-01T00:00:00Z"}
        < +OK
        > MUTATE {"cmd":"discard","target":"scheduled"}
        < +OK
        > INFO
        < $*"scheduled":0*
    "#,
    ),
    (
        "filters: a glob, a jobtype, jids that win",
        plain,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"A","args":["red"],"at":"2999-01-01T00:00:00Z"}
        < +OK
        > PUSH {"jid":"job-0002","jobtype":"A","args":["blue"],"at":"2999-01-01T00:00:00Z"}
        < +OK
        > PUSH {"jid":"job-0003","jobtype":"B","args":["red"],"at":"2999-01-01T00:00:00Z"}
        < +OK
        > MUTATE {"cmd":"kill","target":"scheduled","filter":{"regexp":"*\"re?\"*","jobtype":"A"}}
        < +OK
        > INFO
        < $*"scheduled":2,"retries":0,"dead":1*
        > MUTATE {"cmd":"requeue","target":"scheduled","filter":{"jids":["job-0003","job-0001"],"jobtype":"X"}}
        < +OK
        > FETCH default
        < $*job-0003*
        > MUTATE {"cmd":"requeue","target":"dead","filter":{"regexp":"job-0001"}}
        < +OK
        > FETCH default
        < $*job-0001*
        > INFO
        < $*"scheduled":1,"retries":0,"dead":0,"working":2*
        > MUTATE {"cmd":"kill","target":"dead"}
        < +OK
    "#,
    ),
    (
        "what MUTATE does not take",
        plain,
        r#"
        > MUTATE {"cmd":"dance","target":"dead"}
        < -ERR malformed MUTATE: cmd must be*
        > MUTATE {"cmd":"kill","target":"default"}
        < -ERR malformed MUTATE: target must be*
        > MUTATE
        < -ERR malformed MUTATE: *
    "#,
    ),
];

pub(crate) fn run(cases: &[Case]) {
    for store in STORES {
        for (name, settings, script) in cases {
            let server = Server::start(store, |all| {
                all.limits.fetch_wait = Duration::from_millis(20);
                settings(all);
            });
            let script = format!("# {store:?}: {name}\n{script}");
            server.worker("w1").talk(&script);
        }
    }
}

#[test]
fn jobs_are_pushed() {
    run(PUSH);
    run(MEMBERS);
}

#[test]
fn jobs_are_fetched_and_ended() {
    run(FETCH);
}

#[test]
fn workers_beat_queues_and_server_answer() {
    run(OTHERS);
}

#[test]
fn sets_are_mutated() {
    run(MUTATE);
}
