//! What readers ask for.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

use super::settings::{LoadSettings, Scenario};
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
        names: Vec<String>,
        each: usize,
    },
    Nothing,
}

impl ReadLoad {
    /// Asks the server what it has.
    pub(crate) fn prepare(url: &HttpUrl, settings: &LoadSettings) -> Result<Self> {
        let names = |each| {
            let names = names(url, settings)?;
            ensure!(names.len() >= each, "the index has only {} names", names.len());
            Ok(Asked::Names { names, each })
        };
        let length = || {
            let versions = ask::get(url, "/versions", "", settings.timeout)?;
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
            after: format!(" HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", url.host),
            status,
            body_bytes,
        })
    }
}

fn names(url: &HttpUrl, settings: &LoadSettings) -> Result<Vec<String>> {
    let answer = ask::get(url, "/names", "", settings.timeout)?;
    ensure!(answer.status == 200, "/names is answered with {}", answer.status);
    let text = String::from_utf8(answer.body).context("/names is no text")?;
    let longest = REQUEST_BYTES_MAX / 2 / settings.names_per_request;
    let names = text.lines().skip_while(|line| *line != "---").skip(1);
    Ok(names.filter(|name| (1..=longest).contains(&name.len())).map(str::to_owned).collect())
}

impl Load for ReadLoad {
    /// What stands between the two texts.
    type Wanted = String;

    fn next(&mut self) -> String {
        let Self { asked, random, .. } = self;
        match asked {
            Asked::Nothing => String::new(),
            Asked::Names { names, each } => {
                let drawn = (0..*each).map(|_| names[random.usize(..names.len())].as_str());
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
