//! Quarantine: paused queues with names of their own, so that it survives, is listed, searched and
//! exported like any queue. A job of the queue `mail` that is quarantined as `poison` waits in
//! `quarantine.poison.mail`, and its name says where it goes back to.

use crate::model::{NameError, QueueName};
use crate::settings::JobServerLimits;

const PREFIX: &str = "quarantine.";

/// The start of the names of a quarantine's queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine(String);

/// A name under which no jobs can be quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of a quarantine consists of letters, digits, _ and -")]
pub struct QuarantineNameError;

impl Quarantine {
    /// Returns the quarantine of this name, which has no dots, so that a queue's name can follow.
    pub fn named(name: &str) -> Result<Self, QuarantineNameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || !name.bytes().all(is_allowed) {
            return Err(QuarantineNameError);
        }
        Ok(Self(format!("{PREFIX}{name}.")))
    }

    /// Returns the queue for quarantined jobs of `queue`.
    pub fn queue_for(
        &self,
        queue: &QueueName,
        limits: &JobServerLimits,
    ) -> Result<QueueName, NameError> {
        QueueName::parse(&format!("{}{queue}", self.0), limits)
    }

    /// Returns the queue from which the jobs of `queue` were quarantined. `None`: it is not of this
    /// quarantine.
    #[must_use]
    pub fn origin<'a>(&self, queue: &'a str) -> Option<&'a str> {
        queue.strip_prefix(&self.0).filter(|origin| !origin.is_empty())
    }
}

/// Returns the name of the quarantine that a queue belongs to, and the queue that its jobs come from.
#[must_use]
pub fn parts(queue: &str) -> Option<(&str, &str)> {
    queue
        .strip_prefix(PREFIX)?
        .split_once('.')
        .filter(|(name, origin)| Quarantine::named(name).is_ok() && !origin.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_knows_where_its_jobs_come_from() {
        let limits = JobServerLimits::default();
        let quarantine = Quarantine::named("poison").unwrap();
        let mail = QueueName::parse("mail.eu", &limits).unwrap();
        let queue = quarantine.queue_for(&mail, &limits).unwrap();
        assert_eq!(queue.as_str(), "quarantine.poison.mail.eu");
        assert_eq!(quarantine.origin(queue.as_str()), Some("mail.eu"));
        assert_eq!(parts(queue.as_str()), Some(("poison", "mail.eu")));
        for other in ["mail", "quarantine.poison.", "quarantine.poisoned.mail", "quarantine.x"] {
            assert_eq!(quarantine.origin(other), None);
        }
        assert_eq!(
            (parts("quarantine..mail"), parts("quarantine.x"), parts("mail")),
            (None, None, None)
        );
        for name in ["", "a.b", "a/b", "\u{e9}"] {
            assert_eq!(Quarantine::named(name), Err(QuarantineNameError));
        }
    }
}
