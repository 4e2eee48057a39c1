//! The names of the lists of blocked jobs: that of the queue, and behind it that of the class of types.

use std::sync::LazyLock;

use weir_jobs::model::QueueName;
use weir_jobs::settings::JobServerLimits;

/// Between the name of a queue and that of a class.
pub(super) const INFIX: &str = ".blocked.";

/// The names of lists are longer than those of their queues.
static ANY_LENGTH: LazyLock<JobServerLimits> = LazyLock::new(|| JobServerLimits {
    queue_name_bytes_max: usize::MAX,
    ..JobServerLimits::default()
});

/// Returns the queue and the class of a list of blocked jobs.
pub(super) fn split_name(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once(INFIX).filter(|(queue, class)| !queue.is_empty() && !class.is_empty())
}

/// Parses the name of a list of blocked jobs.
pub(super) fn parse_name(name: &str) -> Option<QueueName> {
    QueueName::parse(name, &ANY_LENGTH).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_list_has_the_queue_and_the_class() {
        assert_eq!(split_name("a.b.blocked.pay"), Some(("a.b", "pay")));
        assert_eq!(split_name("a.blocked.b.blocked.api.pay"), Some(("a.blocked.b", "api.pay")));
        for name in ["default", ".blocked.pay", "a.blocked.", "a.blocked"] {
            assert_eq!(split_name(name), None, "{name}");
        }
        let long = format!("{}.blocked.pay", "q".repeat(255));
        assert_eq!(parse_name(&long).unwrap().as_str(), long);
    }
}
