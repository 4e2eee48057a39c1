//! One run.

use anyhow::Result;

use super::load::ReadLoad;
use super::push::PushLoad;
use super::settings::{LoadSettings, Scenario};
use super::visible::Watcher;
use crate::http::{self, HttpRun, Target};
use crate::latency::Latencies;

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) http: HttpRun,
    /// Scenario push.
    pub(crate) visible: Option<Visible>,
}

/// From when a gem was to be pushed until another client saw it.
#[derive(Debug)]
pub(crate) struct Visible {
    pub(crate) latencies: Latencies,
    /// Pushes that were acknowledged and not seen.
    pub(crate) missing: u64,
}

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    let extent = settings.extent();
    if settings.scenario != Scenario::Push {
        let mut load = ReadLoad::prepare(&target.url, settings)?;
        return Ok(Run { http: http::run(target, &mut load, &extent)?, visible: None });
    }
    // By chance: a second run on a server must not push the same gems.
    let mut load = PushLoad::new(&target.url, settings, fastrand::u64(..));
    let watcher = Watcher::start(&target.url, load.prefix(), settings.timeout)?;
    let http = http::run(target, &mut load, &extent)?;
    let seen = watcher.finish(load.pushed().count())?;
    let mut visible = Visible { latencies: Latencies::new(), missing: 0 };
    for (number, begun) in load.pushed() {
        match seen.get(&number) {
            Some(at) => visible.latencies.record(at.saturating_duration_since(begun)),
            None => visible.missing += 1,
        }
    }
    Ok(Run { http, visible: Some(visible) })
}
