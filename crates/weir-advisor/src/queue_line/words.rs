//! Formats a list of queues: flags for the default capsule, Ruby for the others.

use crate::observation::{Capsule, JobProcess, Ordering, WeightedQueue};
use crate::shell;

const DEFAULT: &str = "default";

/// Returns the line with all queues of a capsule.
pub(super) fn line(capsule: &Capsule, queues: &[WeightedQueue]) -> String {
    match is_by_flags(capsule) {
        true => flags(capsule.ordering, queues),
        false => in_ruby(capsule.ordering, queues),
    }
}

/// Returns where that line belongs.
pub(super) fn place(process: &JobProcess, capsule: &Capsule) -> String {
    let identity = &process.identity;
    let name = &capsule.name;
    if !is_by_flags(capsule) {
        // Heartbeats before 8.0.8 do not contain names of capsules, which are then numbered.
        let of = if name.starts_with("capsule ") { "" } else { "the capsule " };
        return format!(
            "all queues of {of}{name} of {identity} (config.capsule in its initializer, or :capsules: of its \
             sidekiq.yml)"
        );
    }
    let of = if process.capsules.len() > 1 { "the default capsule of " } else { "" };
    let weights = match capsule.ordering {
        Ordering::Unknown => "; Sidekiq 6 does not report weights: keep the existing ones",
        _ => "",
    };
    format!(
        "all queues of {of}{identity} (its command line, or :queues: of its sidekiq.yml{weights})"
    )
}

/// Reports whether `-q` flags configure the capsule: they apply to the default one only.
fn is_by_flags(capsule: &Capsule) -> bool {
    ["", DEFAULT].contains(&capsule.name.as_str())
}

pub(super) fn flags(ordering: Ordering, queues: &[WeightedQueue]) -> String {
    let flag = |queue: &WeightedQueue| {
        let name = shell::word(&queue.name);
        match ordering {
            Ordering::Strict | Ordering::Unknown => format!("-q {name}"),
            Ordering::Random | Ordering::Weighted => format!("-q {name},{}", queue.weight.max(1)),
        }
    };
    queues.iter().map(flag).collect::<Vec<_>>().join(" ")
}

/// Formats the queues as Ruby. Single-quoted strings have no interpolation.
fn in_ruby(ordering: Ordering, queues: &[WeightedQueue]) -> String {
    let word = |queue: &WeightedQueue| {
        let name = queue.name.replace('\\', r"\\").replace('\'', r"\'");
        match ordering {
            Ordering::Strict | Ordering::Unknown => format!("'{name}'"),
            Ordering::Random | Ordering::Weighted => format!("'{name},{}'", queue.weight.max(1)),
        }
    };
    format!("cap.queues = [{}]", queues.iter().map(word).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::process;

    #[test]
    fn another_capsule_than_the_default_one_has_its_queues_in_ruby() {
        let queue = |name: &str| WeightedQueue { name: name.to_owned(), weight: 2 };
        let mut process = process(7, 5, Ordering::Strict, &[("a", 0)]);
        process.capsules.push(Capsule { name: "rest".to_owned(), ..Capsule::default() });
        let said = |name: &str, ordering, queues: &[WeightedQueue]| {
            let capsule = Capsule { name: name.to_owned(), ordering, ..Capsule::default() };
            (place(&process, &capsule), line(&capsule, queues))
        };
        let (at, line) = said("rest", Ordering::Strict, &[queue("a"), queue("#{'x'}\\")]);
        assert!(at.starts_with("all queues of the capsule rest of shop:7:"), "{at}");
        assert!(at.contains("config.capsule in its initializer"), "{at}");
        assert_eq!(line, r"cap.queues = ['a', '#{\'x\'}\\']");
        let (at, line) = said("capsule 2", Ordering::Weighted, &[queue("a")]);
        assert!(at.starts_with("all queues of capsule 2 of shop:7:"), "{at}");
        assert_eq!(line, "cap.queues = ['a,2']");
        let (at, line) = said("default", Ordering::Strict, &[queue("a")]);
        assert!(at.starts_with("all queues of the default capsule of shop:7:"), "{at}");
        assert_eq!(line, "-q a");
    }
}
