//! Remarks on what a plan does not cover, or what prevents it from taking effect.

use weir_advisor::observation::Pooler;
use weir_advisor::plan::{LeftOut, Overruled};

use crate::output;

/// Joins groups of lines with an empty line before each; empty groups are omitted.
pub(super) fn text(groups: &[Vec<String>]) -> String {
    let groups = groups.iter().filter(|lines| !lines.is_empty());
    groups.map(|lines| format!("\n{}\n", lines.join("\n"))).collect()
}

/// Lists options that were neither given nor observed.
pub(super) fn assumed(options: &[String]) -> Vec<String> {
    if options.is_empty() {
        return Vec::new();
    }
    vec![
        "assumed values; replace them by options with the real ones:".to_owned(),
        output::printable(&format!("  {}", options.join(" "))),
    ]
}

/// Lists changes that would make a plan possible.
pub(super) fn possible_changes(ways: &[String]) -> Vec<String> {
    with_heading("what would make the plan possible:", ways.iter().map(|way| format!("  {way}")))
}

/// Explains why current durations of jobs cannot be used.
pub(super) fn unusable_durations(reasons: &[String]) -> Vec<String> {
    let head = "jobs are blocked now, so their durations cannot be used for the plan; resolve that first, or give the durations with --queue NAME=RATE,SECONDS:";
    with_heading(head, reasons.iter().map(|why| output::printable(&format!("  {why}"))))
}

/// Lists names that get no process.
pub(super) fn left_out(names: &[LeftOut]) -> Vec<String> {
    let line = |it: &LeftOut| output::printable(&format!("  {}: {}", it.name, it.why));
    with_heading("left out:", names.iter().map(line))
}

/// Warns about a pooler whose number of connections is unknown.
pub(super) fn pooler(pooler: Option<&Pooler>) -> Vec<String> {
    let pooler = pooler.filter(|pooler| pooler.connections.is_none());
    let lines = pooler.map(|Pooler { name, shown_by, .. }| {
        format!(
            "{} is a connection pooler for the database ({}), and the plan does not take it into account. Give the most connections that it opens with `--pgbouncer NUMBER`; 0: there is no pooler",
            output::printable(name),
            output::printable(shown_by)
        )
    });
    lines.into_iter().collect()
}

/// Lists settings in the file for Postgres that would have no effect.
pub(super) fn overruled(settings: &[Overruled]) -> Vec<String> {
    let line = |Overruled { name, by, remedy }: &Overruled| {
        output::printable(&format!("  {name}: {by}; first {remedy}"))
    };
    with_heading("overrides postgresql-weir.conf now:", settings.iter().map(line))
}

fn with_heading(head: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<_> = lines.collect();
    if !lines.is_empty() {
        lines.insert(0, head.to_owned());
    }
    lines
}
