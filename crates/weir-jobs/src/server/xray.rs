//! X-rays a queue or set of any size, in turns: other work continues in between, and jobs are counted
//! on another thread.

use std::collections::HashSet;
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::JobService;
use super::parsing::parse_location;
use super::walk::{self, ListWalk};
use crate::handle::{HandleError, SAMPLE_JOBS, SAMPLE_JOBS_MAX, XRAY_TOP, XRAY_TOP_MAX, XrayQuery};
use crate::key_path::KeyPath;
use crate::model::{EntryKey, JobLocation};
use crate::store::{Filter, Store, StoreError, StoredJob};
use crate::view;
use crate::xray::{Coverage, Tally};

/// Jobs that one turn draws.
const DRAW_JOBS: usize = 250;

/// Draws end after this time, with the samples that there are: an X-ray is ready within two seconds.
const DRAW_TIME_MAX: Duration = Duration::from_millis(1_500);

/// Up to this many jobs for each sample, all are read in order, which is cheaper for each job, and the result is exact.
const READ_ALL_PER_SAMPLE: u64 = 4;

/// Runs an X-ray.
pub(super) async fn xray<S: Store>(
    service: &JobService<S>,
    query: XrayQuery,
) -> Result<view::XrayView, HandleError> {
    let started = service.clock.now();
    let place = parse_location(&query.place, service)?;
    let by = query.by.as_deref().filter(|text| !text.is_empty()).map(str::parse::<KeyPath>);
    let by = by.transpose().map_err(|error| HandleError::Invalid(error.to_string()))?;
    let wanted = query.sample.unwrap_or(SAMPLE_JOBS).clamp(1, SAMPLE_JOBS_MAX);
    let total = walk::total(service, &place).await;
    let tally = Tally::new(place.clone(), by, started);
    let mut xray = Xray { service, place, tally, missing: None };
    let is_small = total <= READ_ALL_PER_SAMPLE.saturating_mul(wanted as u64);
    if !is_small {
        xray.draw(wanted, started + DRAW_TIME_MAX).await?;
    }
    let mut coverage = view::XrayCoverage::Samples;
    if is_small || query.full {
        // The samples have found the frequent values.
        xray.tally.start_over();
        let until = query.seconds.map(|seconds| started + Duration::from_secs(seconds.into()));
        coverage = xray.read_all(until).await?;
    }
    let known = match coverage {
        view::XrayCoverage::Samples => Coverage::Samples { total },
        view::XrayCoverage::Part => Coverage::First { total },
        // Jobs may have left since the total was read.
        view::XrayCoverage::All => Coverage::First { total: xray.tally.read },
    };
    Ok(view::XrayView {
        place: query.place,
        total: if coverage == view::XrayCoverage::All { xray.tally.read } else { total },
        read: xray.tally.read,
        coverage,
        seconds: service.clock.now().since(started).as_secs_f64(),
        by: query.by,
        groups: xray.tally.groups(known, query.top.unwrap_or(XRAY_TOP).min(XRAY_TOP_MAX)),
        missing: xray.missing,
    })
}

/// An X-ray in progress.
struct Xray<'a, S: Store> {
    service: &'a JobService<S>,
    place: JobLocation,
    tally: Tally,
    missing: Option<String>,
}

impl<S: Store> Xray<'_, S> {
    /// Draws `wanted` jobs, none of them twice: what was drawn before is drawn again.
    async fn draw(&mut self, wanted: usize, until: Timestamp) -> Result<(), StoreError> {
        let mut drawn: HashSet<EntryKey> = HashSet::new();
        while drawn.len() < wanted && self.service.clock.now() < until {
            // Never more than are counted: a store returns them in any order.
            let count = DRAW_JOBS.min(wanted - drawn.len());
            let mut sample = self.service.store.sample(&self.place, count).await?;
            self.missing = self.missing.take().or(sample.missing);
            // All jobs have left, or none can be read now.
            let is_gone =
                sample.jobs.is_empty() && walk::total(self.service, &self.place).await == 0;
            if is_gone {
                break;
            }
            sample.jobs.retain(|job| drawn.insert(job.key.clone()));
            self.count(sample.jobs).await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Reads all jobs that are there now, the oldest first.
    async fn read_all(
        &mut self,
        until: Option<Timestamp>,
    ) -> Result<view::XrayCoverage, StoreError> {
        let settings = self.service.settings();
        let place = self.place.clone();
        let mut walk =
            ListWalk::start(self.service, &settings, place, Filter::default()).await?.by_pages();
        while let Some(jobs) = walk.next(self.service).await? {
            self.count(jobs).await?;
            if until.is_some_and(|until| self.service.clock.now() >= until) && !walk.has_ended() {
                return Ok(view::XrayCoverage::Part);
            }
        }
        self.missing = self.missing.take().or(walk.into_missing());
        Ok(view::XrayCoverage::All)
    }

    async fn count(&mut self, jobs: Vec<StoredJob>) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let place = self.place.clone();
        let empty = Tally::new(place, None, self.service.clock.now());
        let mut tally = std::mem::replace(&mut self.tally, empty);
        let counted = tokio::task::spawn_blocking(move || {
            jobs.iter().for_each(|job| tally.add(job));
            tally
        });
        let ended_early = |error| StoreError::Failed(format!("the X-ray ended early: {error}"));
        self.tally = counted.await.map_err(ended_early)?;
        Ok(())
    }
}
