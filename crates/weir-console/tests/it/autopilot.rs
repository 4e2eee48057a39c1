//! The autopilot's page: its mode, and values set by hand.

use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weir_autopilot::load::{DatabaseActivity, JobsLoad};
use weir_autopilot::metrics::AutopilotMetrics;
use weir_autopilot::sources::{Actuator, CarriedLimits, DatabaseSource, JobSource};
use weir_autopilot::{
    Autopilot, AutopilotHandle, AutopilotParts, AutopilotSettings, JobSystem, Mode,
};
use weir_base::clock::Clock;

use crate::site::Site;

/// A system in which nothing happens.
struct Idle;

impl JobSource for Idle {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<JobsLoad>, String>> {
        Box::pin(async { Ok(Some(JobsLoad::default())) })
    }
}

impl DatabaseSource for Idle {
    fn activity(&mut self) -> BoxFuture<'_, Result<DatabaseActivity, String>> {
        Box::pin(async { Ok(DatabaseActivity::default()) })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Actuator for Idle {
    fn apply<'a>(
        &'a mut self,
        _: &'a CarriedLimits,
        _: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

fn autopilot(directory: &Path, clock: &Clock) -> (Autopilot, AutopilotHandle) {
    let settings = AutopilotSettings { mode: Mode::Advise, ..AutopilotSettings::default() };
    let parts = AutopilotParts {
        settings,
        directory: directory.to_owned(),
        clock: clock.clone(),
        metrics: AutopilotMetrics::default(),
        system: JobSystem::JobServer,
        jobs: Box::new(Idle),
        jobs_interval: Duration::ZERO,
        database: Some(Box::new(Idle)),
        actuator: Ok(Box::new(Idle)),
        lease: None,
        machine: String::new(),
    };
    Autopilot::open(parts).expect("its files")
}

#[tokio::test]
async fn a_value_is_set_and_ended_and_the_autopilot_is_turned_off() {
    let mut site = Site::open();
    let folder = tempfile::tempdir().expect("a folder");
    let (autopilot, handle) = autopilot(folder.path(), &site.clock);
    site.set_autopilot(handle.clone());
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    running.spawn(autopilot.run(stop.clone()));
    let mut browser = site.browser();
    let page = browser.get("/autopilot").await;
    page.assert_shows("Nothing is limited.");
    page.assert_shows("autopilot.manage is empty");
    let set = [("action", "set"), ("class", "<b>Hog"), ("jobs", "3"), ("minutes", "10")];
    let response = browser.submit(&page, "/autopilot/act", &set).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER);
    let page = browser.get(response.header("location")).await;
    page.assert_shows("The value is set.");
    page.assert_shows("console limited &#60;b&#62;Hog to 3 at once for 600 s");
    assert_eq!(handle.status().limits.len(), 1);
    // What is not set by hand cannot be ended, and "on" may change nothing here.
    let end = [("action", "end"), ("class", "Mail")];
    let rejected = browser.submit(&page, "/autopilot/act", &end).await;
    assert_eq!(rejected.status, StatusCode::BAD_REQUEST);
    let on = [("action", "mode"), ("mode", "on")];
    assert_eq!(browser.submit(&page, "/autopilot/act", &on).await.status, StatusCode::BAD_REQUEST);
    let end = [("action", "end"), ("class", "<b>Hog")];
    browser.submit(&page, "/autopilot/act", &end).await;
    assert!(handle.status().limits.is_empty());
    let off = [("action", "mode"), ("mode", "off")];
    let response = browser.submit(&page, "/autopilot/act", &off).await;
    let page = browser.get(response.header("location")).await;
    page.assert_shows("The autopilot is off, and all limits have ended.");
    assert_eq!(handle.status().mode, Mode::Off);
    stop.cancel();
    running.join_next().await;
}

#[tokio::test]
async fn without_an_autopilot_there_is_no_page() {
    let site = Site::open();
    let page = site.browser().get("/autopilot").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
}
