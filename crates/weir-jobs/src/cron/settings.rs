//! The settings of a cron job.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use weir_settings::{Choice, Section};

use super::schedule::Schedule;

/// A time zone of the system's database, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronZone(pub(crate) TimeZone);

impl Default for CronZone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl FromStr for CronZone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = |error| {
            format!(
                "{text:?} is no time zone of this system ({error}); names such as \"Europe/Berlin\" come from its time zone database (package tzdata, in /usr/share/zoneinfo), and \"UTC\" is always known"
            )
        };
        match text {
            // Known without the system's database.
            "UTC" => Ok(Self(TimeZone::UTC)),
            name => TimeZone::get(name).map(Self).map_err(unknown),
        }
    }
}

impl fmt::Display for CronZone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

/// What becomes of the times at which Weir did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Choice)]
pub enum MissedRuns {
    /// Nothing is enqueued for them.
    #[default]
    Skip,
    /// One job is enqueued for all of them.
    #[choice("run-once")]
    RunOnce,
}

/// `[[jobs.cron]]`: a job that is enqueued at the times of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "jobs.cron[]")]
pub struct CronSettings {
    /// Name of the cron job, for `weir jobs cron` and across restarts.
    #[setting(required_text)]
    pub name: String,
    /// Minute, hour, day of month, month, day of week, as in cron: "0 3 * * mon-fri". Each is a number,
    /// *, a range, or a list of these, with an optional step.
    #[setting(parsed, default = "0 0 * * *".parse().expect("a schedule"))]
    pub schedule: Schedule,
    /// Time zone of the schedule, such as "Europe/Berlin". A time that does not exist because clocks are
    /// set forward counts as the moment after the change; one that exists twice counts once, unless the
    /// hour is *.
    #[setting(parsed)]
    pub timezone: CronZone,
    /// What becomes of times that were missed by more than a minute, because Weir did not run: nothing
    /// ("skip"), or one job for all of them ("run-once").
    #[setting(choice)]
    pub missed: MissedRuns,
    #[setting(section)]
    pub job: CronJobSettings,
}

/// `[jobs.cron.job]`: the job that is enqueued.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "jobs.cron[].job")]
pub struct CronJobSettings {
    /// Type of the job.
    #[setting(required_text)]
    pub jobtype: String,
    /// Its queue.
    #[setting(default = "default".to_owned())]
    pub queue: String,
    /// Its arguments, a list.
    #[setting(json, default = "[]".to_owned())]
    pub args: String,
    /// Its `custom`, a table.
    #[setting(json, default = "{}".to_owned())]
    pub custom: String,
    /// Retries after a failure, as in Faktory.
    #[setting(range = 0..=1_000, default = 25)]
    pub retry: u32,
    /// Seconds for which a worker may have the job.
    #[setting(range = 60..=86_400, default = 1_800)]
    pub reserve_for: u32,
}

impl CronJobSettings {
    /// Returns the JSON of the job with this jid.
    #[must_use]
    pub fn json(&self, jid: &str) -> String {
        let Self { args, custom, retry, reserve_for, .. } = self;
        let text = |text: &str| serde_json::Value::from(text);
        format!(
            r#"{{"jid":{},"jobtype":{},"queue":{},"args":{args},"retry":{retry},"reserve_for":{reserve_for},"custom":{custom}}}"#,
            text(jid),
            text(&self.jobtype),
            text(&self.queue),
        )
    }
}
