//! One run.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::load::{FrontLoad, ResponseStats};
use super::settings::LoadSettings;
use crate::http::{self, HttpRun, HttpUrl, Target, single_request};

/// Default path of the URL.
pub(crate) const PATH: &str = "/sleep";

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) http: HttpRun,
    pub(crate) stats: ResponseStats,
}

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    probe(&target.url, settings.timeout)?;
    let mut load = FrontLoad::new(&target.url, settings);
    let http = http::run(target, &mut load, &settings.profile())?;
    Ok(Run { http, stats: load.stats })
}

/// Fails unless the app answers with 200.
pub(crate) fn probe(url: &HttpUrl, timeout: Duration) -> Result<()> {
    let response = single_request::get(url, "?us=0", "", timeout)?;
    ensure!(response.status == 200, "asking {url}: the answer is {}, not 200", response.status);
    Ok(())
}
