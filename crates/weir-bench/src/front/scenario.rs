//! One run.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::load::{FrontLoad, Seen};
use super::settings::LoadSettings;
use crate::http::{self, HttpRun, HttpUrl, Target, ask};

/// Asked for where the URL has no path.
pub(crate) const PATH: &str = "/sleep";

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) http: HttpRun,
    pub(crate) seen: Seen,
}

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    probe(&target.url, settings.timeout)?;
    let mut load = FrontLoad::new(&target.url, settings);
    let http = http::run(target, &mut load, &settings.extent())?;
    Ok(Run { http, seen: load.seen })
}

/// Fails unless the app answers with 200.
pub(crate) fn probe(url: &HttpUrl, timeout: Duration) -> Result<()> {
    let answer = ask::get(url, "?us=0", "", timeout)?;
    ensure!(answer.status == 200, "asking {url}: the answer is {}, not 200", answer.status);
    Ok(())
}
