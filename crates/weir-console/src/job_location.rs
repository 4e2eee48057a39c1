//! The sets and queues that contain jobs, as named in addresses and by the handle.

use serde::{Deserialize, Serialize};

use crate::address::address;

/// A set or a queue: `scheduled`, `retries`, `dead` or `queue:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum JobLocation {
    Scheduled,
    Retries,
    Dead,
    Queue(String),
}

impl JobLocation {
    /// Returns the handle's name for it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Scheduled => "scheduled".to_owned(),
            Self::Retries => "retries".to_owned(),
            Self::Dead => "dead".to_owned(),
            Self::Queue(name) => format!("queue:{name}"),
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "scheduled" => Some(Self::Scheduled),
            "retries" => Some(Self::Retries),
            "dead" => Some(Self::Dead),
            other => other.strip_prefix("queue:").map(|name| Self::Queue(name.to_owned())),
        }
    }

    /// Returns the address of its list with further query fields.
    pub(crate) fn address(&self, fields: &[(&str, &str)]) -> String {
        let path = match self {
            Self::Scheduled => "/scheduled",
            Self::Retries => "/retries",
            Self::Dead => "/dead",
            Self::Queue(name) => {
                return address("/queue", &[&[("name", name.as_str())], fields].concat());
            }
        };
        address(path, fields)
    }

    pub(crate) fn title(&self) -> String {
        match self {
            Self::Scheduled => "Scheduled".to_owned(),
            Self::Retries => "Retries".to_owned(),
            Self::Dead => "Dead".to_owned(),
            Self::Queue(name) => format!("Queue {name}"),
        }
    }

    /// Returns the phrase for a sentence.
    pub(crate) fn phrase(&self) -> String {
        match self {
            Self::Scheduled => "the scheduled set".to_owned(),
            Self::Retries => "the retry set".to_owned(),
            Self::Dead => "the dead set".to_owned(),
            Self::Queue(name) => format!("queue {name}"),
        }
    }

    /// Returns the meaning of the time of its jobs.
    pub(crate) const fn time_means(&self) -> &'static str {
        match self {
            Self::Scheduled => "Due",
            Self::Retries => "Next retry",
            Self::Dead => "Died",
            Self::Queue(_) => "Enqueued",
        }
    }
}

impl TryFrom<String> for JobLocation {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("the place must be scheduled, retries, dead or queue:NAME")
    }
}

impl From<JobLocation> for String {
    fn from(place: JobLocation) -> Self {
        place.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_locations_round_trip_through_text() {
        for text in ["scheduled", "retries", "dead", "queue:pull", "queue:..", "queue:"] {
            assert_eq!(JobLocation::parse(text).map(|place| place.name()).as_deref(), Some(text));
        }
        assert_eq!(JobLocation::parse("elsewhere"), None);
    }

    #[test]
    fn addresses_are_escaped() {
        let place = JobLocation::Queue("a&b".into());
        let address = place.address(&[("search", "x y"), ("jobtype", "")]);
        assert_eq!(address, "/queue?name=a%26b&search=x+y");
        assert_eq!(JobLocation::Dead.address(&[]), "/dead");
    }
}
