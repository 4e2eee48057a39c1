//! Steps of an action on all matching jobs. A task ([`super::tasks`]) runs all of them; a client of the admin API may
//! also request them one by one, with the cursor of the step before.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_base::clock::Timestamp;

use super::JobService;
use super::parsing::{parse_filter, parse_location};
use super::walk;
use crate::handle::{HandleError, StepAction, StepQuery, parse_time};
use crate::model::{EntryKey, EntryKeyError, JobLocation, QueueName, SetName};
use crate::quarantine::{self, Quarantine};
use crate::rules;
use crate::settings::JobServerLimits;
use crate::stamp;
use crate::store::{Action, Filter, ScanPage, ScanRequest, Selection, Store, StoredJob};
use crate::view;

/// Where an action is, and which jobs were there when it began. As text: `START|ORDER|JID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepCursor {
    /// Microseconds: in a queue and among dead jobs the order of the last job, otherwise the time.
    pub(super) start: u64,
    /// The last job that was examined. `None`: none.
    pub(super) after: Option<EntryKey>,
}

impl std::str::FromStr for StepCursor {
    type Err = EntryKeyError;

    fn from_str(text: &str) -> Result<Self, EntryKeyError> {
        let (start, after) = text.split_once('|').ok_or(EntryKeyError)?;
        let start = start.parse().map_err(|_| EntryKeyError)?;
        Ok(Self { start, after: Some(after.parse()?) })
    }
}

/// Runs one step.
pub(super) async fn step<S: Store>(
    service: &JobService<S>,
    query: StepQuery,
) -> Result<view::StepView, HandleError> {
    let settings = service.settings();
    let limits = &settings.limits;
    let place = parse_location(&query.place, service)?;
    let plan = Plan::new(&place, &query.action, limits)?;
    let cursor = match &query.cursor {
        Some(text) => parse_cursor(text)?,
        None => first_cursor(service, &place).await?,
    };
    let filter = parse_filter(query.search.as_deref(), query.jobtype);
    let StepPage { mut jobs, next, scanned, missing } =
        examine(service, &place, filter, &cursor).await?;
    jobs.retain(|job| plan.changes(job));
    let matched = jobs.len() as u64;
    let count = plan.run(service, &place, jobs, limits).await?;
    Ok(view::StepView {
        count,
        matched,
        scanned,
        total: walk::total(service, &place).await,
        next: next.map(|key| format!("{}|{key}", cursor.start)),
        missing,
    })
}

/// Parses `next` of a step.
pub(super) fn parse_cursor(text: &str) -> Result<StepCursor, HandleError> {
    text.parse().map_err(|_| {
        HandleError::Invalid("not a cursor: pass back `next` of the last step".to_owned())
    })
}

/// The jobs of one step.
pub(super) struct StepPage {
    /// Those that match and were there at the start.
    pub(super) jobs: Vec<StoredJob>,
    /// The last one that was examined. `None`: no job from before the start follows.
    pub(super) next: Option<EntryKey>,
    pub(super) scanned: u64,
    /// What could not be read.
    pub(super) missing: Option<String>,
}

/// Reads the jobs of the step behind `cursor`.
pub(super) async fn examine<S: Store>(
    service: &JobService<S>,
    place: &JobLocation,
    filter: Filter,
    cursor: &StepCursor,
) -> Result<StepPage, HandleError> {
    let settings = service.settings();
    let page = service.store.scan(ScanRequest {
        place: place.clone(),
        after: cursor.after.clone(),
        newest_first: false,
        limit: settings.limits.page_jobs_max,
        scan_max: settings.limits.scan_jobs_max,
        filter,
    });
    let ScanPage { mut jobs, next, scanned, missing } = page.await?;
    jobs.retain(|job| was_there(job, place, cursor.start));
    let is_sorted = is_sorted_by_arrival(service, place);
    let next = next.filter(|next| !is_sorted || next.order <= cursor.start);
    Ok(StepPage { jobs, next, scanned: scanned as u64, missing })
}

/// Returns whether jobs that arrive later come last, by their order. In a store that others share, the order of
/// a queue's job is the time by the clock of who pushed it.
fn is_sorted_by_arrival<S: Store>(service: &JobService<S>, place: &JobLocation) -> bool {
    match place {
        JobLocation::Queue(_) => !service.store.capabilities().shared,
        JobLocation::Set(set) => matches!(set, SetName::Dead),
    }
}

/// Returns the cursor of the first step of an action that begins now.
pub(super) async fn first_cursor<S: Store>(
    service: &JobService<S>,
    place: &JobLocation,
) -> Result<StepCursor, HandleError> {
    let now = service.clock.now().as_micros();
    if !is_sorted_by_arrival(service, place) {
        return Ok(StepCursor { start: now, after: None });
    }
    let last = ScanRequest {
        place: place.clone(),
        after: None,
        newest_first: true,
        limit: 1,
        scan_max: 1,
        filter: Filter::default(),
    };
    let last = service.store.scan(last).await?.jobs.into_iter().next().map(|job| job.key.order);
    let start = match place {
        JobLocation::Queue(_) => last.unwrap_or(now),
        // The order is a time. Another host's clock may be ahead.
        JobLocation::Set(_) => last.unwrap_or(now).min(now),
    };
    Ok(StepCursor { start, after: None })
}

/// Returns whether a job was in `place` at the start. A retry failed since then if it was not; a
/// scheduled job is judged by its `created_at`, and was there if that is no time.
fn was_there(job: &StoredJob, place: &JobLocation, start: u64) -> bool {
    let at = match place {
        JobLocation::Queue(_) | JobLocation::Set(SetName::Dead) => Some(job.key.order),
        JobLocation::Set(SetName::Retries) => {
            let failed_at = job.failure.as_ref().map(|failure| failure.failed_at);
            failed_at.or_else(|| created_at(job)).map(Timestamp::as_micros)
        }
        JobLocation::Set(SetName::Scheduled) => created_at(job).map(Timestamp::as_micros),
    };
    at.is_none_or(|at| at <= start)
}

fn created_at(job: &StoredJob) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Created {
        created_at: String,
    }
    let created: Created = serde_json::from_slice(&job.json).ok()?;
    stamp::parse(&created.created_at)
}

/// Returns an error if jobs of `place` can't be acted on so.
pub(super) fn check_place(place: &JobLocation, action: Action) -> Result<Action, HandleError> {
    match (action, place) {
        (Action::Reschedule(_), JobLocation::Queue(_) | JobLocation::Set(SetName::Dead)) => {
            let text = "only scheduled jobs and retries have a time at which they are due";
            Err(HandleError::Invalid(text.to_owned()))
        }
        _ => Ok(action),
    }
}

const ROUNDING_MICROS: u64 = 100;

/// What a step does, checked.
pub(super) enum Plan {
    Act(Action),
    Move(QueueName),
    Quarantine(Quarantine),
    /// The jobs are where they should be.
    Nothing,
}

impl Plan {
    pub(super) fn new(
        place: &JobLocation,
        action: &StepAction,
        limits: &JobServerLimits,
    ) -> Result<Self, HandleError> {
        let invalid = |text: String| HandleError::Invalid(text);
        Ok(match action {
            StepAction::Requeue => Self::Act(Action::Requeue),
            StepAction::Kill if *place == JobLocation::Set(SetName::Dead) => Self::Nothing,
            StepAction::Kill => Self::Act(Action::Kill),
            StepAction::Discard => Self::Act(Action::Discard),
            StepAction::Move(name) => {
                let name =
                    QueueName::parse(name, limits).map_err(|error| invalid(error.to_string()))?;
                match place {
                    JobLocation::Queue(queue) if *queue == name => Self::Nothing,
                    _ => Self::Move(name),
                }
            }
            StepAction::Reschedule(time) => {
                Self::Act(check_place(place, Action::Reschedule(parse_time(time)?))?)
            }
            StepAction::TakeBack => {
                let origin = match place {
                    JobLocation::Queue(queue) => quarantine::parts(queue.as_str()),
                    JobLocation::Set(_) => None,
                };
                let Some((_, origin)) = origin else {
                    return Err(invalid("only jobs of a quarantine can be taken back".to_owned()));
                };
                let origin = QueueName::parse(origin, limits);
                Self::Move(origin.map_err(|error| invalid(error.to_string()))?)
            }
            StepAction::Quarantine(name) => {
                if let JobLocation::Queue(queue) = place
                    && quarantine::parts(queue.as_str()).is_some()
                {
                    return Err(invalid(format!("{queue} is a quarantine already")));
                }
                let named = Quarantine::named(name);
                Self::Quarantine(named.map_err(|error| invalid(error.to_string()))?)
            }
        })
    }

    /// Returns whether it changes no job.
    pub(super) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Returns whether the job is not yet as it should be. A rescheduled one is found again at its new time.
    pub(super) fn changes(&self, job: &StoredJob) -> bool {
        match self {
            // In Redis, a time far ahead is rounded by some microseconds.
            Self::Act(Action::Reschedule(at)) => {
                let first = at.as_micros().saturating_sub(ROUNDING_MICROS);
                let last = at.as_micros().saturating_add(rules::SPREAD_MICROS + ROUNDING_MICROS);
                !(first..last).contains(&job.key.order)
            }
            _ => true,
        }
    }

    /// Acts on `jobs`, and returns the number of jobs affected.
    pub(super) async fn run<S: Store>(
        &self,
        service: &JobService<S>,
        place: &JobLocation,
        jobs: Vec<StoredJob>,
        limits: &JobServerLimits,
    ) -> Result<u64, HandleError> {
        let store = &service.store;
        if jobs.is_empty() {
            return Ok(0);
        }
        let keys = |jobs: Vec<StoredJob>| -> Vec<EntryKey> {
            jobs.into_iter().map(|job| job.key).collect()
        };
        Ok(match self {
            Self::Nothing => 0,
            Self::Act(action) => store.act(place, &Selection::Entries(keys(jobs)), *action).await?,
            Self::Move(queue) => {
                let keys: Vec<EntryKey> = keys(jobs);
                store.move_to(place, &keys, queue, false).await?
            }
            Self::Quarantine(quarantine) => {
                let mut by_queue: BTreeMap<QueueName, Vec<EntryKey>> = BTreeMap::new();
                for job in jobs {
                    by_queue.entry(job.queue).or_default().push(job.key);
                }
                let mut count = 0;
                for (queue, keys) in by_queue {
                    let target = quarantine.queue_for(&queue, limits);
                    let target = target.map_err(|error| HandleError::Invalid(error.to_string()))?;
                    count += store.move_to(place, &keys, &target, true).await?;
                }
                count
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back() {
        let key = EntryKey { order: 17, jid: "a|b".into() };
        let cursor: StepCursor = format!("42|{key}").parse().unwrap();
        assert_eq!(cursor, StepCursor { start: 42, after: Some(key) });
        for text in ["", "42", "x|1|a", "42|a"] {
            assert!(text.parse::<StepCursor>().is_err(), "{text}");
        }
    }
}
