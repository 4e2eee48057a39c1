//! Queues in the format of `-q`, and the order in which Sidekiq fetches them.

use serde::Deserialize;
use weir_advisor::observation::Ordering;

/// How a process selects among its queues.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    /// `-q a -q b`.
    Strict,
    /// `-q a,1 -q b,1`.
    Random,
    /// `-q a,8 -q b,1`.
    Weighted,
}

/// Parses "push,6" as Sidekiq does; the weight is 0 if absent. The error describes what it is
/// instead.
pub(super) fn weighted(word: &str) -> Result<(String, u32), String> {
    if word.starts_with('-') {
        return Err(format!("{word:?} is an option; write only the queue, \"push\" or \"push,6\""));
    }
    // The result of a shell variable, a systemd specifier or a Ruby template is unknown.
    if word.contains(['$', '%', '`', '{', '<']) {
        return Err(format!("{word:?} contains a variable; write its value"));
    }
    let how = || format!("{word:?} is not a queue; write \"push\", or with a weight \"push,6\"");
    if word.contains(|letter: char| {
        letter.is_whitespace() || letter.is_control() || "'\"".contains(letter)
    }) {
        return Err(how());
    }
    let (queue, weight) = match word.split_once(',') {
        Some((queue, weight)) => (queue, weight.parse().ok()),
        None => (word, Some(0)),
    };
    let weight = weight.filter(|_| !queue.is_empty()).ok_or_else(how)?;
    Ok((queue.to_owned(), weight))
}

/// Returns the order that Sidekiq uses, and whether it is the intended one: with equal weights, and
/// all queues weighted.
pub(super) fn ordering(said: Option<Order>, queues: &[(String, u32)]) -> (Ordering, bool) {
    let weights = || queues.iter().map(|(_, weight)| *weight);
    if weights().all(|weight| weight == 0) {
        let ordering = match said {
            None | Some(Order::Strict) => Ordering::Strict,
            Some(Order::Random) => Ordering::Random,
            Some(Order::Weighted) => Ordering::Weighted,
        };
        return (ordering, true);
    }
    let ordering =
        if weights().all(|weight| weight == 1) { Ordering::Random } else { Ordering::Weighted };
    let is_meant = match said {
        None => true,
        Some(Order::Strict) => false,
        Some(Order::Random) => ordering == Ordering::Random,
        Some(Order::Weighted) => ordering == Ordering::Weighted,
    };
    (ordering, is_meant && weights().all(|weight| weight > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_of(said: Option<Order>, words: &[&str]) -> (Ordering, bool) {
        let queues: Vec<_> = words.iter().map(|word| weighted(word).expect("a queue")).collect();
        ordering(said, &queues)
    }

    #[test]
    fn one_weight_makes_all_queues_weighted_and_that_is_no_clear_order() {
        assert_eq!(order_of(None, &["a", "b"]), (Ordering::Strict, true));
        assert_eq!(order_of(None, &["a,1", "b,1"]), (Ordering::Random, true));
        assert_eq!(order_of(None, &["a,8", "b,1"]), (Ordering::Weighted, true));
        assert_eq!(order_of(None, &["a,8", "b"]), (Ordering::Weighted, false));
        assert_eq!(order_of(Some(Order::Strict), &["a,8", "b,1"]), (Ordering::Weighted, false));
        assert_eq!(order_of(Some(Order::Weighted), &["a", "b"]), (Ordering::Weighted, true));
    }

    #[test]
    fn a_queue_is_read_as_sidekiq_reads_it_and_nothing_is_guessed() {
        assert_eq!(weighted("push,6"), Ok(("push".to_owned(), 6)));
        assert_eq!(weighted("mail.out"), Ok(("mail.out".to_owned(), 0)));
        for (word, expected) in [
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
            let problem = weighted(word).expect_err(word);
            assert!(problem.contains(expected), "{word}: {problem}");
        }
    }
}
