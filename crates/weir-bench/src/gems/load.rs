//! What readers ask for.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

use super::settings::{LoadSettings, Popularity, Scenario};
use crate::http::{Answer, HttpUrl, Load, REQUEST_BYTES_MAX, ask};

/// One scenario that only reads.
#[derive(Debug)]
pub(crate) struct ReadLoad {
    asked: Asked,
    random: Rng,
    /// In front of what each request asks for, and behind it.
    before: String,
    after: String,
    status: u16,
    /// `None`: it differs, or is not known.
    body_bytes: Option<usize>,
}

#[derive(Debug)]
enum Asked {
    /// So many of these names.
    Names {
        /// Those that are asked for more often come first.
        names: Vec<String>,
        popularity: Popularity,
        each: usize,
    },
    Nothing,
}

impl ReadLoad {
    /// Asks the server what it has.
    pub(crate) fn prepare(url: &HttpUrl, settings: &LoadSettings) -> Result<Self> {
        let authorization = authorization(&settings.api_key);
        let names = |each| {
            let mut names = names(url, settings, &authorization)?;
            ensure!(names.len() >= each, "the index has only {} names", names.len());
            let popularity = settings.popularity;
            if popularity == Popularity::Skewed {
                Rng::with_seed(settings.seed).shuffle(&mut names);
            }
            Ok(Asked::Names { names, popularity, each })
        };
        let length = || {
            let versions = ask::get(url, "/versions", &authorization, settings.timeout)?;
            ensure!(versions.status == 200, "/versions is answered with {}", versions.status);
            Ok(versions.body.len())
        };
        let (path, fields, status, asked, body_bytes) = match settings.scenario {
            Scenario::Info => ("/info/", String::new(), 200, names(1)?, None),
            Scenario::Dependencies => {
                let asked = names(settings.names_per_request)?;
                ("/api/v1/dependencies?gems=", String::new(), 200, asked, None)
            }
            Scenario::VersionsFull => {
                ("/versions", String::new(), 200, Asked::Nothing, Some(length()?))
            }
            Scenario::VersionsTail => {
                let start = length()?.checked_sub(settings.tail_bytes);
                let start = start.context("--tail-bytes is more than /versions has")?;
                let range = format!("Range: bytes={start}-\r\n");
                ("/versions", range, 206, Asked::Nothing, Some(settings.tail_bytes))
            }
            Scenario::Push => bail!("a push is no reading"),
        };
        Ok(Self {
            asked,
            random: Rng::with_seed(settings.seed),
            before: format!("GET {}{path}", url.path),
            after: format!(" HTTP/1.1\r\nHost: {}\r\n{fields}{authorization}\r\n", url.host),
            status,
            body_bytes,
        })
    }
}

/// The field that carries a key, if there is one.
fn authorization(api_key: &str) -> String {
    match api_key {
        "" => String::new(),
        key => format!("Authorization: {key}\r\n"),
    }
}

fn names(url: &HttpUrl, settings: &LoadSettings, authorization: &str) -> Result<Vec<String>> {
    let answer = ask::get(url, "/names", authorization, settings.timeout)?;
    ensure!(answer.status == 200, "/names is answered with {}", answer.status);
    let text = String::from_utf8(answer.body).context("/names is no text")?;
    let longest = REQUEST_BYTES_MAX / 2 / settings.names_per_request;
    let names = text.lines().skip_while(|line| *line != "---").skip(1);
    Ok(names.filter(|name| (1..=longest).contains(&name.len())).map(str::to_owned).collect())
}

/// A place among so many names.
#[expect(clippy::cast_precision_loss, reason = "names are far fewer than 2^52")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below count")]
fn place(popularity: Popularity, count: usize, random: &mut Rng) -> usize {
    match popularity {
        Popularity::Uniform => random.usize(..count),
        // The first r of n names have ln r / ln n of all requests.
        Popularity::Skewed => ((count as f64).powf(random.f64()) as usize).clamp(1, count) - 1,
    }
}

impl Load for ReadLoad {
    /// What stands between the two texts.
    type Wanted = String;

    fn next(&mut self) -> String {
        let Self { asked, random, .. } = self;
        match asked {
            Asked::Nothing => String::new(),
            Asked::Names { names, popularity, each } => {
                let drawn =
                    (0..*each).map(|_| names[place(*popularity, names.len(), random)].as_str());
                drawn.collect::<Vec<_>>().join(",")
            }
        }
    }

    fn write(&self, wanted: &String, out: &mut Vec<u8>) {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{}{wanted}{}", self.before, self.after);
    }

    fn judge(&mut self, wanted: &String, answer: &Answer<'_>, _: Duration) -> Result<(), String> {
        if answer.status != self.status {
            return Err(format!(
                "an answer was {}, not {} ({wanted:.80})",
                answer.status, self.status
            ));
        }
        match self.body_bytes {
            Some(bytes) if answer.body_bytes != bytes => {
                Err(format!("an answer has {} bytes, not {bytes}", answer.body_bytes))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skewed_load_asks_for_few_names_most_of_the_time_and_for_all_at_some_time() {
        let shares = |popularity| {
            let mut random = Rng::with_seed(1);
            let places: Vec<usize> =
                (0..40_000).map(|_| place(popularity, 1_000, &mut random)).collect();
            let share = |below| places.iter().filter(|place| **place < below).count() / 400;
            (share(10), share(100), places.into_iter().max())
        };
        // ln 10 / ln 1000, ln 100 / ln 1000.
        assert!(matches!(shares(Popularity::Skewed), (31..=36, 64..=69, Some(990..1_000))));
        assert!(matches!(shares(Popularity::Uniform), (0..=2, 9..=11, Some(990..1_000))));
    }
}
