//! Queues in the format of `-q`, and the order in which Sidekiq fetches them.

use serde::Deserialize;
use weir_advisor::observation::Ordering;

/// How a process selects among its queues.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum QueueOrder {
    /// `-q a -q b`.
    Strict,
    /// `-q a,1 -q b,1`.
    Random,
    /// `-q a,8 -q b,1`.
    Weighted,
}

/// Parses "push,6" as Sidekiq does; the weight is 0 if absent. The error describes what it is
/// instead.
pub(super) fn parse_weighted(text: &str) -> Result<(String, u32), String> {
    if text.starts_with('-') {
        return Err(format!("{text:?} is an option; write only the queue, \"push\" or \"push,6\""));
    }
    // The result of a shell variable, a systemd specifier or a Ruby template is unknown.
    if text.contains(['$', '%', '`', '{', '<']) {
        return Err(format!("{text:?} contains a variable; write its value"));
    }
    let how = || format!("{text:?} is not a queue; write \"push\", or with a weight \"push,6\"");
    if text.contains(|letter: char| {
        letter.is_whitespace() || letter.is_control() || "'\"".contains(letter)
    }) {
        return Err(how());
    }
    let (queue, weight) = match text.split_once(',') {
        Some((queue, weight)) => (queue, weight.parse().ok()),
        None => (text, Some(0)),
    };
    let weight = weight.filter(|_| !queue.is_empty()).ok_or_else(how)?;
    Ok((queue.to_owned(), weight))
}

/// Returns the order that Sidekiq uses, and whether it is the intended one: with equal weights, and
/// all queues weighted.
pub(super) fn effective_ordering(
    requested: Option<QueueOrder>,
    queues: &[(String, u32)],
) -> (Ordering, bool) {
    let weights = || queues.iter().map(|(_, weight)| *weight);
    if weights().all(|weight| weight == 0) {
        let ordering = match requested {
            None | Some(QueueOrder::Strict) => Ordering::Strict,
            Some(QueueOrder::Random) => Ordering::Random,
            Some(QueueOrder::Weighted) => Ordering::Weighted,
        };
        return (ordering, true);
    }
    let ordering =
        if weights().all(|weight| weight == 1) { Ordering::Random } else { Ordering::Weighted };
    let is_meant = match requested {
        None => true,
        Some(QueueOrder::Strict) => false,
        Some(QueueOrder::Random) => ordering == Ordering::Random,
        Some(QueueOrder::Weighted) => ordering == Ordering::Weighted,
    };
    (ordering, is_meant && weights().all(|weight| weight > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective_order_of(requested: Option<QueueOrder>, words: &[&str]) -> (Ordering, bool) {
        let queues: Vec<_> =
            words.iter().map(|text| parse_weighted(text).expect("a queue")).collect();
        effective_ordering(requested, &queues)
    }

    #[test]
    fn one_weight_makes_all_queues_weighted() {
        assert_eq!(effective_order_of(None, &["a", "b"]), (Ordering::Strict, true));
        assert_eq!(effective_order_of(None, &["a,1", "b,1"]), (Ordering::Random, true));
        assert_eq!(effective_order_of(None, &["a,8", "b,1"]), (Ordering::Weighted, true));
        assert_eq!(effective_order_of(None, &["a,8", "b"]), (Ordering::Weighted, false));
        assert_eq!(
            effective_order_of(Some(QueueOrder::Strict), &["a,8", "b,1"]),
            (Ordering::Weighted, false)
        );
        assert_eq!(
            effective_order_of(Some(QueueOrder::Weighted), &["a", "b"]),
            (Ordering::Weighted, true)
        );
    }

    #[test]
    fn queue_arguments_are_parsed_as_sidekiq_does() {
        assert_eq!(parse_weighted("push,6"), Ok(("push".to_owned(), 6)));
        assert_eq!(parse_weighted("mail.out"), Ok(("mail.out".to_owned(), 0)));
        for (text, expected) in [
            ("push,", "is not a queue"),
            ("push,x", "is not a queue"),
            ("push,-1", "is not a queue"),
            ("default,push", "is not a queue"),
            ("default,8,push,6", "is not a queue"),
            ("push, 6", "is not a queue"),
            ("default push", "is not a queue"),
            ("\"default\"", "is not a queue"),
            (",6", "is not a queue"),
            ("", "is not a queue"),
            ("-qdefault", "is an option"),
            ("-q default", "is an option"),
            ("$QUEUE", "contains a variable"),
            ("${QUEUE},8", "contains a variable"),
            ("%i", "contains a variable"),
            ("<%= queue %>", "contains a variable"),
        ] {
            let problem = parse_weighted(text).expect_err(text);
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }
}
