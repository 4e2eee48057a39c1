//! Requests of read-only scenarios.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

use super::settings::{LoadSettings, Popularity, Scenario};
use crate::http::{HttpUrl, Load, REQUEST_BYTES_MAX, Response, single_request};

/// The load of a read-only scenario.
#[derive(Debug)]
pub(crate) struct ReadLoad {
    target: RequestTarget,
    random: Rng,
    /// The parts of a request before and after the requested names.
    request_prefix: String,
    request_suffix: String,
    status: u16,
    /// Expected length of the body, if it is known.
    body_bytes: Option<usize>,
}

#[derive(Debug)]
enum RequestTarget {
    /// Each request asks for some of these names.
    Names {
        /// The most popular names first.
        names: Vec<String>,
        popularity: Popularity,
        names_per_request: usize,
    },
    Fixed,
}

impl ReadLoad {
    /// Prepares the load: fetches names and lengths from the server.
    pub(crate) fn prepare(url: &HttpUrl, settings: &LoadSettings) -> Result<Self> {
        let authorization = authorization(&settings.api_key);
        let names_target = |names_per_request| {
            let mut names = fetch_names(url, settings, &authorization)?;
            ensure!(names.len() >= names_per_request, "the index has only {} names", names.len());
            let popularity = settings.popularity;
            if popularity == Popularity::Skewed {
                Rng::with_seed(settings.seed).shuffle(&mut names);
            }
            Ok(RequestTarget::Names { names, popularity, names_per_request })
        };
        let length = || {
            let versions = single_request::get(url, "/versions", &authorization, settings.timeout)?;
            ensure!(versions.status == 200, "/versions is answered with {}", versions.status);
            Ok(versions.body.len())
        };
        let (path, fields, status, target, body_bytes) = match settings.scenario {
            Scenario::Info => ("/info/", String::new(), 200, names_target(1)?, None),
            Scenario::Dependencies => {
                let target = names_target(settings.names_per_request)?;
                ("/api/v1/dependencies?gems=", String::new(), 200, target, None)
            }
            Scenario::VersionsFull => {
                ("/versions", String::new(), 200, RequestTarget::Fixed, Some(length()?))
            }
            Scenario::VersionsTail => {
                let start = length()?.checked_sub(settings.tail_bytes);
                let start = start.context("--tail-bytes is more than /versions has")?;
                let range = format!("Range: bytes={start}-\r\n");
                ("/versions", range, 206, RequestTarget::Fixed, Some(settings.tail_bytes))
            }
            Scenario::Push => bail!("a push is no reading"),
        };
        Ok(Self {
            target,
            random: Rng::with_seed(settings.seed),
            request_prefix: format!("GET {}{path}", url.path),
            request_suffix: format!(
                " HTTP/1.1\r\nHost: {}\r\n{fields}{authorization}\r\n",
                url.host
            ),
            status,
            body_bytes,
        })
    }
}

/// Returns the header field with the key, if there is one.
fn authorization(api_key: &str) -> String {
    match api_key {
        "" => String::new(),
        key => format!("Authorization: {key}\r\n"),
    }
}

fn fetch_names(url: &HttpUrl, settings: &LoadSettings, authorization: &str) -> Result<Vec<String>> {
    let response = single_request::get(url, "/names", authorization, settings.timeout)?;
    ensure!(response.status == 200, "/names is answered with {}", response.status);
    let text = String::from_utf8(response.body).context("/names is no text")?;
    let longest = REQUEST_BYTES_MAX / 2 / settings.names_per_request;
    let names = text.lines().skip_while(|line| *line != "---").skip(1);
    Ok(names.filter(|name| (1..=longest).contains(&name.len())).map(str::to_owned).collect())
}

/// Draws the index of one of `count` names.
#[expect(clippy::cast_precision_loss, reason = "names are far fewer than 2^52")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below count")]
fn draw_index(popularity: Popularity, count: usize, random: &mut Rng) -> usize {
    match popularity {
        Popularity::Uniform => random.usize(..count),
        // The first r of n names have ln r / ln n of all requests.
        Popularity::Skewed => ((count as f64).powf(random.f64()) as usize).clamp(1, count) - 1,
    }
}

impl Load for ReadLoad {
    /// The requested names.
    type Item = String;

    fn next(&mut self) -> String {
        let Self { target, random, .. } = self;
        match target {
            RequestTarget::Fixed => String::new(),
            RequestTarget::Names { names, popularity, names_per_request } => {
                let drawn = (0..*names_per_request)
                    .map(|_| names[draw_index(*popularity, names.len(), random)].as_str());
                drawn.collect::<Vec<_>>().join(",")
            }
        }
    }

    fn write(&self, item: &String, out: &mut Vec<u8>) {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{}{item}{}", self.request_prefix, self.request_suffix);
    }

    fn check_response(
        &mut self,
        item: &String,
        response: &Response<'_>,
        _: Duration,
    ) -> Result<(), String> {
        if response.status != self.status {
            return Err(format!(
                "an answer was {}, not {} ({item:.80})",
                response.status, self.status
            ));
        }
        match self.body_bytes {
            Some(bytes) if response.body_bytes != bytes => {
                Err(format!("an answer has {} bytes, not {bytes}", response.body_bytes))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_load_prefers_few_names_and_requests_all_eventually() {
        let shares = |popularity| {
            let mut random = Rng::with_seed(1);
            let places: Vec<usize> =
                (0..40_000).map(|_| draw_index(popularity, 1_000, &mut random)).collect();
            let share = |below| places.iter().filter(|place| **place < below).count() / 400;
            (share(10), share(100), places.into_iter().max())
        };
        // ln 10 / ln 1000, ln 100 / ln 1000.
        assert!(matches!(shares(Popularity::Skewed), (31..=36, 64..=69, Some(990..1_000))));
        assert!(matches!(shares(Popularity::Uniform), (0..=2, 9..=11, Some(990..1_000))));
    }
}
