//! Sessions are blocked by another one. The session at the end of each chain is the one to
//! terminate, unless others only wait behind a change of a table (`table_change`). Or commits wait for
//! a standby (`standby`).

mod standby;
mod table_change;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::table_change::TableChange;
use crate::finding::{Finding, Severity};
use crate::observation::{
    JobProcess, LockWait, Observation, SessionState, SidekiqObservation, is_sidekiq,
};
use crate::wording;

pub(crate) const NAME: &str = "lock-waits";

/// The wait event of a commit that no standby has confirmed yet.
const SYNC_REP: &str = "SyncRep";
/// The `backend_type` of a process that vacuums.
const AUTOVACUUM: &str = "autovacuum worker";
/// `pg_monitor` allows observing sessions, but not terminating them. `pg_signal_backend` does not
/// allow to end those of superusers.
pub(super) const RIGHT: &str = "Ending a session requires its own role, pg_signal_backend or, for one of a \
                     superuser, a superuser: name one after -U.";
/// An application takes an advisory lock by a number, so that no table has it.
const ADVISORY: &str = "The session holds an advisory lock: ending the session releases it. Behind \
                        PgBouncer in transaction mode, one that is taken for a session and not for \
                        a transaction stays with the server connection after its client has left: \
                        take it with pg_advisory_xact_lock, or without the pooler. ";
const ELECTION: &str = "This may be intended: programs elect a leader by an advisory lock, for which the \
                        others wait as long as the leader runs. No session of the web or of Sidekiq is \
                        known to wait for it, and no job has waited in a queue for long.";
/// Services that run no jobs of Sidekiq, by the programs that open their sessions. Any other name may
/// be one that an application sets for all its processes, or that of a pooler.
const OTHER_SERVICES: [&str; 5] = ["web", "streaming", "psql", "pg_dump", "pg_restore"];
/// Those of them that serve nobody.
const TOOLS: [&str; 3] = ["psql", "pg_dump", "pg_restore"];
/// Sidekiq lists a job with the next heartbeat, at most this long after it was started.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// Shorter waits are normal between transactions.
const WAIT_MIN: Duration = Duration::from_secs(10);
/// The source of [`LockWait::waited`].
const WAIT_START: &str = "waitstart in pg_locks, or the start of the statement";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let waits = observation.postgres.known().and_then(|postgres| postgres.lock_waits.known());
    let waits = waits.map(Vec::as_slice).unwrap_or_default();
    let mut victims: BTreeMap<u32, Vec<&LockWait>> = BTreeMap::new();
    for wait in waits.iter().filter(|wait| wait.waited >= WAIT_MIN) {
        for blocker in blockers(waits, wait) {
            victims.entry(blocker).or_default().push(wait);
        }
    }
    let found =
        |(blocker, victims): (&u32, &Vec<&LockWait>)| found(observation, waits, *blocker, victims);
    let found = victims.iter().flat_map(found);
    // A change of a table that waits for several sessions was found for each of them.
    let mut reported = BTreeSet::new();
    let mut is_new = |it: &Finding| reported.insert((it.subject.clone(), it.to_do()));
    standby::check(observation).into_iter().chain(found.filter(|it| is_new(it))).collect()
}

/// Reports whether every commit waits for a standby that is not connected.
pub(super) fn commits_wait(observation: &Observation) -> bool {
    standby::holds_up(observation)
}

/// Reports whether sessions of `service` wait for the lock of another session.
pub(super) fn holds_up(observation: &Observation, service: &str) -> bool {
    waiting_services(observation).any(|waiting| waiting == service)
}

/// Reports whether jobs of `queue` may wait for the lock of another session. They do not if every
/// session that waits is known to be of a service that does not serve the queue.
pub(super) fn may_hold_up(
    observation: &Observation,
    jobs: &SidekiqObservation,
    queue: &str,
) -> bool {
    let may_run_it = |service: &str| match is_sidekiq(service) {
        true => may_serve(jobs, service, queue),
        false => !OTHER_SERVICES.contains(&service),
    };
    waiting_services(observation).any(may_run_it)
}

/// Reports whether sessions that wait most likely hold up neither jobs nor requests. A session of
/// Sidekiq may have another name, for example that of a pooler; then jobs wait in a queue as well.
fn is_harmless(observation: &Observation, victims: &[&LockWait]) -> bool {
    let serves = |service: &str| is_sidekiq(service) || matches!(service, "web" | "streaming");
    !victims.iter().any(|wait| serves(&wait.waiting_service))
        && observation
            .jobs
            .known()
            .is_some_and(|jobs| jobs.queues.iter().all(|queue| queue.latency < WAIT_MIN))
}

/// Reports whether the session that waits may be that of a job: of Sidekiq, of a pooler, or unknown.
pub(crate) fn may_be_of_job(wait: &LockWait) -> bool {
    let service = wait.waiting_service.as_str();
    wait.maintenance.is_none() && (is_sidekiq(service) || !OTHER_SERVICES.contains(&service))
}

/// Says that the sessions that wait may be those of jobs in progress, although no name tells: at least as
/// many jobs have been running for as long.
fn may_be_jobs(observation: &Observation, victims: &[&LockWait]) -> Option<String> {
    if !victims.iter().all(|wait| may_be_of_job(wait)) {
        return None;
    }
    let shortest = victims.iter().map(|wait| wait.waited).min()?;
    let sessions = victims.iter().map(|wait| wait.waiting_pid).collect::<BTreeSet<_>>().len();
    let alive = observation.jobs.known()?.processes.iter().filter(|it| it.is_alive());
    let ages: Vec<_> = alive.flat_map(|it| &it.in_hand).map(|job| job.age).collect();
    let old = ages.iter().filter(|age| **age >= shortest).count();
    (old >= sessions).then(|| {
        format!(
            "{} in progress, of which {old} have been running for as long: the sessions that wait may be \
             theirs.",
            wording::number(ages.len() as u64, "job is", "jobs are")
        )
    })
}

/// Returns the service of each session that waits for a lock, other than for maintenance.
fn waiting_services(observation: &Observation) -> impl Iterator<Item = &str> {
    let waits = observation.postgres.known().and_then(|postgres| postgres.lock_waits.known());
    let long = waits.into_iter().flatten().filter(|wait| wait.waited >= WAIT_MIN);
    let long = long.filter(|wait| wait.maintenance.is_none());
    long.map(|wait| wait.waiting_service.as_str())
}

/// Reports whether processes of a service of Sidekiq may serve `queue`. "sidekiq push" stands for the
/// processes whose first queue is `push`; other names may stand for any process.
fn may_serve(jobs: &SidekiqObservation, service: &str, queue: &str) -> bool {
    let first = service.strip_prefix("sidekiq ");
    let is_it = |it: &&JobProcess| first.is_some() && it.served().next() == first;
    let mut own = jobs.processes.iter().filter(is_it).peekable();
    own.peek().is_none() || own.any(|process| process.serves(queue))
}

/// Returns the sessions that block `wait` and are not blocked themselves; those in between are
/// victims, too. In a cycle, which Postgres resolves by itself, returns the direct blocker.
fn blockers(waits: &[LockWait], wait: &LockWait) -> BTreeSet<u32> {
    let (mut ends, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut next = vec![wait.blocking_pid];
    while let Some(pid) = next.pop() {
        if !seen.insert(pid) {
            continue;
        }
        let before: Vec<u32> =
            waits.iter().filter(|it| it.waiting_pid == pid).map(|it| it.blocking_pid).collect();
        if before.is_empty() {
            ends.insert(pid);
        }
        next.extend(before);
    }
    if ends.is_empty() {
        ends.insert(wait.blocking_pid);
    }
    ends
}

/// Reports what blocks `victims`: the session at the end, and before it a change of a table that
/// some of them only wait behind.
fn found<'a>(
    observation: &'a Observation,
    waits: &'a [LockWait],
    blocker: u32,
    victims: &[&'a LockWait],
) -> Vec<Finding> {
    if blocker != 0 && victims.iter().all(|wait| wait.maintenance.is_some()) {
        return victims.iter().map(|wait| maintained(wait)).collect();
    }
    let blocked = |victims: &[&LockWait]| {
        let longest = victims.iter().map(|wait| wait.waited).max().unwrap_or_default();
        blocked_by(observation, waits, blocker, victims).since(longest, WAIT_START)
    };
    let Some(change) = TableChange::find(observation, waits, blocker, victims) else {
        return vec![blocked(victims)];
    };
    let mut findings = vec![change.finding(observation)];
    if !change.others.is_empty() {
        findings.push(blocked(&change.others));
    }
    findings
}

/// Reports a maintenance command that waits for the transactions of others to end, and for which no session
/// waits.
fn maintained(wait: &LockWait) -> Finding {
    let statement = wait.maintenance.as_deref().unwrap_or_default();
    let evidence = format!(
        "{statement} of {} waits until a transaction of session {} has ended, for {}; that is a session of \
         {}{}",
        wait.waiting_service,
        wait.blocking_pid,
        wording::duration(wait.waited),
        wait.blocking_service,
        doing(wait.blocking_state)
    );
    let subject = format!("session {}", wait.waiting_pid);
    Finding::new(NAME, Severity::Notice, subject, evidence).leads_to(
        "No other session waits for it, and no job is known to wait. It goes on when that transaction \
         has ended.",
    )
}

/// Names the lock that the session `blocker` holds, and whether some of `victims` only wait behind
/// others.
fn held_lock(
    waits: &[LockWait],
    blocker: u32,
    direct: Option<&LockWait>,
    victims: &[&LockWait],
) -> String {
    let holds = direct.and_then(|wait| wait.relation.as_deref());
    let lock = match (holds, direct.is_some_and(|wait| wait.is_advisory)) {
        (Some(relation), _) => format!("its lock on {relation}"),
        (None, true) => "its advisory lock".to_owned(),
        (None, false) => "its lock".to_owned(),
    };
    let is_direct = |victim: &&LockWait| {
        let mut own = waits.iter().filter(|it| it.waiting_pid == victim.waiting_pid);
        own.any(|it| it.blocking_pid == blocker)
    };
    match victims.iter().all(is_direct) {
        true => lock,
        false => format!("{lock} or behind sessions that do"),
    }
}

fn blocked_by(
    observation: &Observation,
    waits: &[LockWait],
    blocker: u32,
    victims: &[&LockWait],
) -> Finding {
    // Details of the blocker are taken from the sessions that it blocks directly.
    let direct = waits.iter().filter(|wait| wait.blocking_pid == blocker);
    let direct = direct.max_by_key(|wait| wait.waited).or_else(|| victims.first().copied());
    let is_advisory = direct.is_some_and(|wait| wait.is_advisory);
    let holds = held_lock(waits, blocker, direct, victims);
    let waiting = format!("{} for {holds}, {}", waiting(victims), longest(victims));
    if blocker == 0 {
        return prepared(observation, &waiting);
    }
    if let Some(other) = waits.iter().find(|wait| wait.waiting_pid == blocker) {
        return deadlock(observation, blocker, other.blocking_pid, &waiting);
    }
    let service = direct.map_or("another service", |wait| wait.blocking_service.as_str());
    let state = direct.and_then(|wait| wait.blocking_state);
    let event = direct.and_then(|wait| wait.blocking_event.as_deref());
    if event == Some(SYNC_REP) {
        return committed(observation, blocker, service, state, &waiting);
    }
    if service == AUTOVACUUM && state.is_none() {
        return vacuum(observation, blocker, direct, &waiting);
    }
    let evidence = format!("a session of {service}{}: {waiting}", doing(state));
    let is_harmless = is_advisory && is_harmless(observation, victims);
    let of_jobs = may_be_jobs(observation, victims).filter(|_| is_harmless);
    if is_harmless && of_jobs.is_none() {
        return Finding::new(NAME, Severity::Notice, format!("session {blocker}"), evidence)
            .leads_to(ELECTION);
    }
    let severity = if is_harmless { Severity::Warning } else { severity(victims) };
    let finding = Finding::new(NAME, severity, format!("session {blocker}"), evidence);
    let effect = match of_jobs {
        Some(of_jobs) => format!("{} {of_jobs}", effect(victims)),
        None => effect(victims).to_owned(),
    };
    let advisory = if is_advisory { ADVISORY } else { "" };
    ended(observation, finding, (blocker, service, state), &format!("{effect} {advisory}"))
}

/// Says how to end the session that holds the lock; `means` is what its lock does.
fn ended(
    observation: &Observation,
    finding: Finding,
    (blocker, service, state): (u32, &str, Option<(SessionState, Duration)>),
    means: &str,
) -> Finding {
    match state {
        Some((SessionState::IdleInTransaction, since))
            if may_be_job(observation, service, since) =>
        {
            finding
                .leads_to(format!("{means}{} {RIGHT}", held_by_job(blocker)))
                .next(observation.psql(&session_query(blocker)))
        }
        // A shorter pause may be one between two statements of a migration.
        Some((SessionState::IdleInTransaction, since)) if since >= WAIT_MIN => finding
            .leads_to(format!(
                "{means}The command ends the session and rolls back what it has not \
                 committed; its client gets an error. {RIGHT}"
            ))
            .next(observation.psql(&format!("SELECT pg_terminate_backend({blocker})"))),
        // It may be a migration or a process of the server, so an operator must decide whether to
        // terminate it.
        _ => finding
            .leads_to(format!(
                "{means}If its work may be lost, pg_terminate_backend({blocker}) ends it and rolls back \
                 what it has not committed{}. {RIGHT}",
                fate_of_job(service, state)
            ))
            .next(observation.psql(&session_query(blocker))),
    }
}

/// Says what happens to the job of a session that ends, if it is known to have one.
fn fate_of_job(service: &str, state: Option<(SessionState, Duration)>) -> &'static str {
    let works = matches!(state, Some((SessionState::Active | SessionState::IdleInTransaction, _)));
    match is_sidekiq(service) && works {
        true => "; its job of Sidekiq fails, and is run again",
        false => "",
    }
}

/// Says how long the victims have waited. A session that waits for a row may have waited for others that
/// held it before.
fn longest(victims: &[&LockWait]) -> String {
    let longest = victims.iter().max_by_key(|wait| wait.waited);
    let (waited, is_of_row) = longest.map(|it| (it.waited, it.is_of_row)).unwrap_or_default();
    let waited = wording::duration(waited);
    match is_of_row {
        true => format!("the longest in a statement that began {waited} ago"),
        false => format!("the longest for {waited}"),
    }
}

/// Reports a session that waits itself for one of those that it blocks.
fn deadlock(observation: &Observation, blocker: u32, other: u32, waiting: &str) -> Finding {
    let evidence = format!("it waits for session {other}, which it blocks: {waiting}");
    Finding::new(NAME, Severity::Critical, format!("session {blocker}"), evidence)
        .leads_to(
            "The sessions wait for each other, a deadlock. Postgres cancels the statement of one of \
             them after deadlock_timeout, whose usual value is 1 s; a job of which that is the \
             statement fails, and is run again. If this returns, let all jobs lock rows in the same \
             order.",
        )
        .next(observation.psql("SHOW deadlock_timeout"))
}

fn session_query(pid: u32) -> String {
    format!(
        "SELECT backend_type, application_name, usename, state, xact_start, query \
         FROM pg_stat_activity WHERE pid = {pid}"
    )
}

/// Reports whether a session that has been idle in its transaction for `since` may be that of a job in
/// progress, which then does something else meanwhile, such as an HTTP request.
pub(super) fn may_be_job(observation: &Observation, service: &str, since: Duration) -> bool {
    if !is_sidekiq(service) && OTHER_SERVICES.contains(&service) {
        return false;
    }
    let Some(jobs) = observation.jobs.known() else { return is_sidekiq(service) };
    let may_have_it = |process: &JobProcess| {
        let is_listed = process.in_hand.len() as u64 >= process.busy;
        // A job is listed with the next heartbeat.
        let is_new = since < HEARTBEAT && process.busy > 0;
        is_new || process.busy > 0 && !is_listed || process.in_hand.iter().any(|it| it.age >= since)
    };
    jobs.processes.iter().any(may_have_it)
}

fn held_by_job(blocker: u32) -> String {
    format!(
        "The transaction may be that of a job in progress, which does something else meanwhile, such \
         as an HTTP request. Its lock is released when the transaction ends: if the wait ends by \
         itself, do nothing now, and let the job make the request outside of its transaction. If it \
         does not, pg_terminate_backend({blocker}) rolls back what it has not committed; the job \
         fails, is run again, and repeats what it has done elsewhere, for example a payment."
    )
}

/// A session of a person or a backup that waits holds up no jobs and no requests.
fn severity(victims: &[&LockWait]) -> Severity {
    match victims.iter().all(|wait| TOOLS.contains(&wait.waiting_service.as_str())) {
        true => Severity::Warning,
        false => Severity::Critical,
    }
}

/// Says what the waiting does to the sessions that wait.
fn effect(victims: &[&LockWait]) -> &'static str {
    match victims.iter().any(|wait| is_sidekiq(&wait.waiting_service)) {
        true => "Waiting threads run no jobs, and hold their connections.",
        false => "Waiting sessions do nothing, and hold their connections.",
    }
}

/// Reports an autovacuum. Postgres cancels one that blocks others, unless it prevents the wraparound
/// of transaction IDs: that one starts again from the beginning if it is ended, and blocks again.
fn vacuum(
    observation: &Observation,
    blocker: u32,
    direct: Option<&LockWait>,
    waiting: &str,
) -> Finding {
    let evidence = format!("an autovacuum worker: {waiting}");
    let first = direct.map_or_else(String::new, |wait| {
        let pid = wait.waiting_pid;
        format!(
            " (pg_cancel_backend({pid}), as its role, with pg_signal_backend or as a superuser)"
        )
    });
    Finding::new(NAME, Severity::Critical, format!("session {blocker}"), evidence)
        .leads_to(format!(
            "Do not end it: an autovacuum that does not yield to others most likely prevents the \
             wraparound of transaction IDs. It would start again, and without it Postgres stops \
             accepting writes in the end. Let it finish; the command shows its progress. Only a \
             change of the table, such as a migration, waits for a vacuum, and other statements \
             wait for the change: cancel the change{first}, and run it after the vacuum, with a \
             lock_timeout."
        ))
        .next(observation.psql(&format!(
            "SELECT phase, heap_blks_scanned, heap_blks_vacuumed, heap_blks_total \
             FROM pg_stat_progress_vacuum WHERE pid = {blocker}"
        )))
}

/// Reports a session that waits for a standby. Its change is already committed locally and cannot
/// be undone.
fn committed(
    observation: &Observation,
    blocker: u32,
    service: &str,
    state: Option<(SessionState, Duration)>,
    waiting: &str,
) -> Finding {
    let since = state.map(|(_, since)| format!(" for {}", wording::duration(since)));
    let since = since.unwrap_or_default();
    let evidence = format!(
        "a session of {service} has committed and is waiting{since} for a synchronous standby: \
         {waiting}"
    );
    Finding::new(NAME, Severity::Critical, format!("session {blocker}"), evidence)
        .leads_to(
            "Every commit waits until a standby in synchronous_standby_names responds: start it, \
             or remove it from that setting. Ending the session rolls nothing back: its change \
             stays, but only on this server.",
        )
        .next(observation.psql(
            "SELECT application_name, state, sync_state, current_setting('synchronous_standby_names') \
             FROM pg_stat_replication",
        ))
}

/// Reports a prepared transaction. It belongs to no session and survives a restart.
fn prepared(observation: &Observation, waiting: &str) -> Finding {
    let evidence = format!("it was neither committed nor rolled back: {waiting}");
    Finding::new(NAME, Severity::Critical, "a prepared transaction", evidence)
        .leads_to(
            "Waiting threads run no jobs. COMMIT PREPARED or ROLLBACK PREPARED with its gid ends it; \
             the program that prepared it knows which, because the transaction may have been \
             committed elsewhere.",
        )
        .next(observation.psql("SELECT gid, prepared, owner, database FROM pg_prepared_xacts"))
}

/// Formats a state: ", idle in transaction for 5 min". The statement is omitted because it may
/// contain user data.
fn doing(state: Option<(SessionState, Duration)>) -> String {
    match state {
        None | Some((SessionState::Hidden | SessionState::Untracked, _)) => String::new(),
        Some((state, since)) => {
            // A session of a pooler may have begun its present statement just now.
            let since = match since < Duration::from_secs(1) {
                true => String::new(),
                false => format!(" for {}", wording::duration(since)),
            };
            format!(", {}{since}", state.words())
        }
    }
}

/// Formats the victims by service: "2 sessions of sidekiq and 1 of web wait".
fn waiting(victims: &[&LockWait]) -> String {
    let mut sessions: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for wait in victims {
        sessions.entry(&wait.waiting_service).or_default().insert(wait.waiting_pid);
    }
    let mut sessions: Vec<_> = sessions.iter().map(|(name, pids)| (pids.len(), *name)).collect();
    sessions.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let all: usize = sessions.iter().map(|(count, _)| count).sum();
    let each = sessions.iter().enumerate().map(|(place, (count, service))| match (place, count) {
        (0, 1) => format!("1 session of {service}"),
        (0, _) => format!("{count} sessions of {service}"),
        _ => format!("{count} of {service}"),
    });
    let each: Vec<String> = each.collect();
    let verb = if all == 1 { "waits" } else { "wait" };
    format!("{} {verb}", wording::list(each.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{Fact, JobInHand, PostgresAccess};

    fn wait(waiting_pid: u32, blocking_pid: u32, seconds: u64) -> LockWait {
        LockWait {
            waiting_pid,
            waiting_service: if waiting_pid < 50 { "sidekiq" } else { "web" }.to_owned(),
            blocking_service: format!("client {blocking_pid}"),
            blocking_pid,
            blocking_state: Some((SessionState::IdleInTransaction, Duration::from_secs(300))),
            blocking_event: None,
            relation: Some("statuses".to_owned()),
            is_advisory: false,
            is_of_row: false,
            maintenance: None,
            waited: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn a_lock_holds_up_the_queues_of_the_service_that_waits_for_it_or_of_an_unknown_one() {
        let held = |service: &str, queue: &str| {
            let mut observation = healthy::observation();
            let waiting_service = service.to_owned();
            *observation.postgres.known_mut().lock_waits.known_mut() =
                vec![LockWait { waiting_service, ..wait(1, 7, 20) }];
            let jobs = observation.jobs.known().unwrap();
            may_hold_up(&observation, jobs, queue)
        };
        assert!(!held("web", "push") && !held("streaming", "push") && !held("psql", "push"));
        assert!(held("sidekiq", "push") && held("sidekiq scheduler", "scheduler"));
        assert!(held("sidekiq default", "push"), "the process that begins with default serves it");
        assert!(!held("sidekiq scheduler", "push"), "its process serves only scheduler");
        assert!(held("sidekiq gone", "push"), "no process is known by that name");
        for unknown in ["another service", "shop@app from 10.0.0.5", "pgbouncer", ""] {
            assert!(held(unknown, "push"), "{unknown:?}");
        }
    }

    /// Lists the jobs in progress, which have just been started.
    fn list_jobs(observation: &mut Observation) {
        for process in &mut observation.jobs.known_mut().processes {
            let busy = usize::try_from(process.busy).unwrap();
            process.in_hand = vec![JobInHand::default(); busy];
        }
    }

    fn findings(waits: &[LockWait]) -> Vec<Finding> {
        let mut observation = healthy::observation();
        list_jobs(&mut observation);
        *observation.postgres.known_mut().lock_waits.known_mut() = waits.to_vec();
        check(&observation)
    }

    #[test]
    fn each_blocking_session_is_one_finding_with_what_it_does() {
        let findings = findings(&[
            wait(1, 7, 20),
            wait(2, 8, 9),
            wait(3, 9, 11),
            wait(4, 7, 95),
            wait(50, 7, 12),
        ]);
        assert_eq!(findings.len(), 2, "nine seconds are no wait");
        let expected = "a session of client 7, idle in transaction for 5 min: 2 sessions of sidekiq and 1 of \
                        web wait for its lock on statuses, the longest for 1 min 35 s";
        assert_eq!(findings[0].evidence, expected);
        assert_eq!(findings[0].next_step(), Some("psql -c 'SELECT pg_terminate_backend(7)'"));
        assert_eq!(findings[0].since.as_ref().unwrap().ago(), Duration::from_secs(95));
        assert_eq!(findings[1].subject, "session 9");
        assert!(findings[1].evidence.contains("1 session of sidekiq waits for its lock"));
    }

    #[test]
    fn who_waits_himself_is_a_victim_and_not_what_to_end() {
        // 7 blocks 8, which blocks 1 and 2; 1 also blocks 2.
        let chain = [wait(8, 7, 60), wait(1, 8, 50), wait(2, 8, 40), wait(2, 1, 40)];
        let findings = findings(&chain);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].subject, "session 7");
        assert!(findings[0].evidence.starts_with("a session of client 7, "));
        let expected = "3 sessions of sidekiq wait for its lock on statuses or behind sessions that \
                        do, the longest for 1 min";
        assert!(findings[0].evidence.ends_with(expected), "{findings:?}");
        assert_eq!(super::blockers(&[wait(1, 2, 1), wait(2, 1, 1)], &wait(1, 2, 1)), [2].into());
    }

    #[test]
    fn an_advisory_lock_is_named_with_what_releases_it() {
        for state in [SessionState::Idle, SessionState::IdleInTransaction, SessionState::Active] {
            let blocking_state = Some((state, Duration::from_secs(300)));
            let advisory =
                LockWait { relation: None, is_advisory: true, blocking_state, ..wait(1, 7, 20) };
            let finding = findings(&[advisory]).remove(0);
            let expected = "1 session of sidekiq waits for its advisory lock, the longest for 20 s";
            assert!(finding.evidence.ends_with(expected), "{finding:?}");
            assert!(finding.consequence.contains("holds an advisory lock"), "{finding:?}");
            assert!(finding.consequence.contains("PgBouncer in transaction mode"), "{finding:?}");
        }
        let other = findings(&[LockWait { relation: None, ..wait(1, 7, 20) }]).remove(0);
        assert!(other.evidence.contains("waits for its lock, the longest"), "{other:?}");
        assert!(!other.consequence.contains("advisory"), "{other:?}");
    }

    #[test]
    fn leaders_that_are_elected_by_an_advisory_lock_are_a_notice() {
        let mut observation = healthy::observation();
        let blocking_state = Some((SessionState::Idle, Duration::from_secs(60)));
        let waiting_service = "clock".to_owned();
        let wait = LockWait { relation: None, is_advisory: true, blocking_state, ..wait(1, 7, 20) };
        observation.postgres.known_mut().lock_waits =
            Fact::Known(vec![LockWait { waiting_service, ..wait.clone() }]);
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.next_step()), (Severity::Notice, None));
        assert!(!finding.consequence.contains("terminate"), "{}", finding.consequence);
        observation.jobs.known_mut().queue_mut("push").latency = Duration::from_secs(60);
        assert_eq!(check(&observation)[0].severity, Severity::Critical, "jobs wait");
        let waiting_service = "sidekiq push".to_owned();
        observation.postgres.known_mut().lock_waits =
            Fact::Known(vec![LockWait { waiting_service, ..wait }]);
        assert_eq!(check(&observation)[0].severity, Severity::Critical);
    }

    #[test]
    fn jobs_that_wait_for_an_advisory_lock_behind_a_pooler_elect_no_leader() {
        let mut observation = healthy::observation();
        let blocking_state = Some((SessionState::Idle, Duration::from_secs(1)));
        let waits = |pid| LockWait {
            waiting_service: "pgbouncer".to_owned(),
            blocking_service: "pgbouncer".to_owned(),
            relation: None,
            is_advisory: true,
            blocking_state,
            ..wait(pid, 7, 93)
        };
        observation.postgres.known_mut().lock_waits = Fact::Known(vec![waits(1), waits(2)]);
        let severity = |observation: &mut Observation, ages: &[u64]| {
            let in_hand =
                |age: &u64| JobInHand { age: Duration::from_secs(*age), ..JobInHand::default() };
            let process = &mut observation.jobs.known_mut().processes[0];
            process.in_hand = ages.iter().map(in_hand).collect();
            check(observation).remove(0).severity
        };
        assert_eq!(severity(&mut observation, &[95, 95, 2]), Severity::Warning);
        let finding = check(&observation).remove(0);
        assert!(finding.consequence.contains("3 jobs are in progress"), "{}", finding.consequence);
        assert_eq!(severity(&mut observation, &[95, 2, 2]), Severity::Notice, "one is as old");
    }

    #[test]
    fn an_index_that_is_created_concurrently_waits_and_delays_nobody() {
        let index = LockWait {
            waiting_service: "psql".to_owned(),
            blocking_service: "psql".to_owned(),
            blocking_state: Some((SessionState::Active, Duration::from_secs(73))),
            relation: None,
            maintenance: Some("CREATE INDEX".to_owned()),
            ..wait(60, 7, 35)
        };
        let finding = findings(std::slice::from_ref(&index)).remove(0);
        assert_eq!((finding.severity, finding.next_step()), (Severity::Notice, None));
        let expected = "CREATE INDEX of psql waits until a transaction of session 7 has ended, for 35 s; \
                        that is a session of psql, active for 1 min 13 s";
        assert_eq!((finding.subject.as_str(), finding.evidence.as_str()), ("session 60", expected));
        assert!(
            finding.consequence.starts_with("No other session waits for it, and no job is known")
        );
        assert!(!finding.consequence.contains("terminate"), "{}", finding.consequence);
        // Another session waits behind it.
        let findings = findings(&[index, wait(1, 60, 20)]);
        assert_eq!(findings[0].severity, Severity::Critical, "{findings:?}");
    }

    #[test]
    fn a_job_that_is_run_again_is_promised_only_of_a_session_of_sidekiq_that_works() {
        let says = |service: &str, state| {
            let blocking_service = service.to_owned();
            let blocking_state = Some((state, Duration::from_secs(40)));
            let wait = LockWait { blocking_service, blocking_state, ..wait(1, 7, 20) };
            findings(&[wait]).remove(0).consequence.contains("is run again")
        };
        assert!(says("sidekiq default", SessionState::Active));
        assert!(!says("sidekiq default", SessionState::Idle), "it runs none");
        assert!(!says("psql", SessionState::Active) && !says("pgbouncer", SessionState::Active));
    }

    #[test]
    fn sessions_that_wait_for_each_other_are_left_to_postgres() {
        let findings = findings(&[wait(1, 2, 20), wait(2, 1, 20)]);
        assert_eq!(findings.len(), 2);
        for (finding, other) in findings.iter().zip([2, 1]) {
            let expected = format!("it waits for session {other}, which it blocks: 1 session");
            assert!(finding.evidence.starts_with(&expected), "{}", finding.evidence);
            assert!(!format!("{finding:?}").contains("terminate"), "{finding:?}");
            assert_eq!(finding.next_step(), Some("psql -c 'SHOW deadlock_timeout'"));
        }
    }

    #[test]
    fn a_wait_for_a_row_is_as_old_as_its_statement() {
        let of_row = LockWait { is_of_row: true, ..wait(1, 7, 35) };
        let evidence = findings(&[of_row, wait(4, 7, 12)]).remove(0).evidence;
        assert!(evidence.ends_with("the longest in a statement that began 35 s ago"), "{evidence}");
    }

    #[test]
    fn a_prepared_transaction_has_no_session_to_end() {
        let finding = findings(&[wait(1, 0, 20)]).remove(0);
        assert_eq!(finding.subject, "a prepared transaction");
        assert!(finding.next_step().unwrap().contains("pg_prepared_xacts"));
    }

    #[test]
    fn a_commit_that_waits_for_a_standby_can_not_be_undone() {
        let active = (SessionState::Active, Duration::from_secs(40));
        let (blocking_state, blocking_event) = (Some(active), Some(SYNC_REP.to_owned()));
        let finding =
            findings(&[LockWait { blocking_state, blocking_event, ..wait(1, 7, 20) }]).remove(0);
        assert!(!format!("{finding:?}").contains("terminate"), "{finding:?}");
        assert!(
            finding.evidence.contains("has committed and is waiting for 40 s for a synchronous")
        );
        assert!(finding.next_step().unwrap().contains("pg_stat_replication"));
    }

    #[test]
    fn a_vacuum_that_prevents_wraparound_is_not_to_be_ended() {
        let vacuum = LockWait {
            blocking_service: AUTOVACUUM.to_owned(),
            blocking_state: None,
            ..wait(50, 7, 95)
        };
        // The migration 50 waits for the vacuum, and sidekiq's session 1 for the migration.
        let finding = findings(&[vacuum, wait(1, 50, 60)]).remove(0);
        let expected = "an autovacuum worker: 1 session of sidekiq and 1 of web wait for its lock \
                        on statuses or behind sessions that do, the longest for 1 min 35 s";
        assert_eq!(finding.evidence, expected);
        assert!(!format!("{finding:?}").contains("terminate"), "{finding:?}");
        assert!(finding.consequence.starts_with("Do not end it: "), "{finding:?}");
        assert!(finding.consequence.contains("pg_cancel_backend(50)"), "{finding:?}");
        assert!(finding.consequence.contains("lock_timeout"), "{finding:?}");
        assert!(
            finding.next_step().unwrap().contains("FROM pg_stat_progress_vacuum WHERE pid = 7")
        );
    }

    #[test]
    fn a_process_whose_state_is_unknown_is_looked_at_before_it_is_ended() {
        for blocking_state in [None, Some((SessionState::Hidden, Duration::ZERO))] {
            let finding = findings(&[LockWait { blocking_state, ..wait(1, 7, 20) }]).remove(0);
            let next = finding.next_step().unwrap().to_owned();
            assert!(next.contains("WHERE pid = 7") && !next.contains("terminate"), "{next}");
        }
        assert!(RIGHT.contains("for one of a superuser, a superuser"));
    }

    #[test]
    fn a_session_that_works_is_looked_at_before_it_is_ended() {
        let working = (SessionState::Active, Duration::from_secs(40));
        let finding =
            findings(&[LockWait { blocking_state: Some(working), ..wait(1, 7, 20) }]).remove(0);
        let next = finding.next_step().unwrap().to_owned();
        assert!(next.contains("WHERE pid = 7") && !next.contains("terminate"), "{next}");
        assert!(
            finding.consequence.contains("rolls back what it has not committed"),
            "{}",
            finding.consequence
        );
    }

    #[test]
    fn a_session_of_a_job_in_progress_is_not_simply_ended() {
        let since = Duration::from_secs(40);
        let blocking_state = Some((SessionState::IdleInTransaction, since));
        let ends = |blocker: &str, age: u64| {
            let mut observation = healthy::observation();
            list_jobs(&mut observation);
            let process = &mut observation.jobs.known_mut().processes[0];
            let age = Duration::from_secs(age);
            process.in_hand = vec![JobInHand { age, ..JobInHand::default() }];
            process.busy = 1;
            let blocking_service = blocker.to_owned();
            let wait = LockWait { blocking_service, blocking_state, ..wait(1, 7, 20) };
            *observation.postgres.known_mut().lock_waits.known_mut() = vec![wait];
            let finding = check(&observation).remove(0);
            let repeats = finding.consequence.contains("repeats what it has done elsewhere");
            let is_ended = finding.next_step().unwrap().contains("terminate");
            assert_ne!(repeats, is_ended);
            is_ended
        };
        assert!(!ends("sidekiq", 45), "the job is older than the pause");
        assert!(!ends("shop@db", 45), "that may be Sidekiq");
        assert!(ends("sidekiq", 30), "no job has had the transaction for so long");
        assert!(ends("psql", 45));
    }

    #[test]
    fn what_ends_a_session_goes_where_it_was_seen() {
        let mut observation = healthy::observation();
        list_jobs(&mut observation);
        *observation.postgres.known_mut().lock_waits.known_mut() = vec![wait(1, 7, 20)];
        observation.postgres_access = Some(PostgresAccess {
            host: "10.0.0.1".to_owned(),
            port: "5433".to_owned(),
            user: Some("weir".to_owned()),
            database: Some("mastodon".to_owned()),
            ..PostgresAccess::default()
        });
        let expected =
            "psql -h 10.0.0.1 -p 5433 -U weir -d mastodon -c 'SELECT pg_terminate_backend(7)'";
        assert_eq!(check(&observation)[0].next_step(), Some(expected));
    }

    #[test]
    fn what_is_hidden_is_not_made_up() {
        let hidden = LockWait {
            blocking_state: Some((SessionState::Hidden, Duration::ZERO)),
            ..wait(1, 7, 20)
        };
        assert!(findings(&[hidden])[0].evidence.starts_with("a session of client 7: 1 session"));
    }

    #[test]
    fn a_session_that_has_just_ended_a_statement_is_not_to_be_terminated() {
        let blocking_state = Some((SessionState::IdleInTransaction, Duration::from_secs(9)));
        let finding = findings(&[LockWait { blocking_state, ..wait(1, 7, 20) }]).remove(0);
        let next = finding.next_step().unwrap().to_owned();
        assert!(next.contains("WHERE pid = 7") && !next.contains("terminate"), "{next}");
        let finding = findings(&[wait(1, 7, 20)]).remove(0);
        let undoes = "rolls back what it has not committed; its client gets an error";
        assert!(finding.consequence.contains(undoes), "{}", finding.consequence);
    }

    #[test]
    fn a_tool_that_waits_holds_up_no_jobs() {
        for (service, severity, effect) in [
            ("pg_dump", Severity::Warning, "Waiting sessions do nothing"),
            ("web", Severity::Critical, "Waiting sessions do nothing"),
            ("sidekiq push", Severity::Critical, "Waiting threads run no jobs"),
        ] {
            let waiting_service = service.to_owned();
            let finding = findings(&[LockWait { waiting_service, ..wait(1, 7, 20) }]).remove(0);
            assert_eq!(finding.severity, severity, "{service}");
            assert!(finding.consequence.starts_with(effect), "{service}: {finding:?}");
        }
    }
}
