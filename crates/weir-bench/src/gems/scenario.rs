//! One run.

use anyhow::Result;

use super::load::ReadLoad;
use super::push::PushLoad;
use super::settings::{LoadSettings, Scenario};
use super::visibility::Watcher;
use crate::http::{self, HttpRun, Target};
use crate::latency::Latencies;

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) http: HttpRun,
    /// Scenario push.
    pub(crate) visible: Option<Visibility>,
}

/// Latencies from when a push was due until another client saw the gem.
#[derive(Debug)]
pub(crate) struct Visibility {
    pub(crate) latencies: Latencies,
    /// Accepted pushes that did not become visible.
    pub(crate) missing: u64,
}

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    let profile = settings.profile();
    if settings.scenario != Scenario::Push {
        let mut load = ReadLoad::prepare(&target.url, settings)?;
        return Ok(Run { http: http::run(target, &mut load, &profile)?, visible: None });
    }
    // Random, because a second run on a server must not push the same gems.
    let mut load = PushLoad::new(&target.url, settings, fastrand::u64(..));
    let watcher = Watcher::start(&target.url, load.prefix(), settings.timeout)?;
    let http = http::run(target, &mut load, &profile)?;
    let seen = watcher.finish(load.pushed().count())?;
    let mut visible = Visibility { latencies: Latencies::new(), missing: 0 };
    for (number, due_at) in load.pushed() {
        match seen.get(&number) {
            Some(at) => visible.latencies.record(at.saturating_duration_since(due_at)),
            None => visible.missing += 1,
        }
    }
    Ok(Run { http, visible: Some(visible) })
}
