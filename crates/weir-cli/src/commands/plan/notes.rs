//! Remarks on what a plan does not cover, or what prevents it from taking effect.

use weir_advisor::observation::{Observation, Pooler};
use weir_advisor::plan::{LeftOut, Overruled, Plan, PlanInput};

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
    let head = "the durations of jobs cannot be used for the plan now; resolve this first, or give the durations with --queue NAME=RATE,SECONDS:";
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
    let lines = pooler.map(|Pooler { name, shown_by, may_serve_another, .. }| {
        let name = output::printable(name);
        if *may_serve_another {
            return format!(
                "{name} runs on this machine. Whether the application connects to this database through it is unknown; it may serve another one. If it does, the plan does not take it into account, and the durations of jobs contain the time that they wait for it: give its address with `--pgbouncer-url`, or the most connections that it opens with `--pgbouncer NUMBER`; 0: there is no pooler for this database"
            );
        }
        format!(
            "{name} is a connection pooler for the database ({}), and the plan does not take it into account: the durations of jobs contain the time that they wait for it. Give its address with `--pgbouncer-url`, or the most connections that it opens with `--pgbouncer NUMBER`; 0: there is no pooler",
            output::printable(shown_by)
        )
    });
    lines.into_iter().collect()
}

/// Says what may be wrong with a refusal that is due to measured durations: a pooler on another
/// machine cannot be detected.
pub(super) fn no_pooler(observation: &Observation, is_given: bool) -> Vec<String> {
    let is_unknown =
        !is_given && observation.pooler.is_none() && observation.jobs.known().is_some();
    let line = "no connection pooler was detected. If the application connects through one on another machine, the durations of jobs contain the time that they wait for it, and neither cores nor connections may be missing. Give its address with `--pgbouncer-url`, or the most connections that it opens with `--pgbouncer NUMBER`; 0: there is no pooler";
    is_unknown.then(|| line.to_owned()).into_iter().collect()
}

/// Says why the plan does not set `noeviction` in a Redis with a cache.
pub(super) fn cache(input: &PlanInput, plan: &Plan) -> Vec<String> {
    let note = input.redis_policy.note().filter(|_| !plan.redis.is_empty());
    note.map(str::to_owned).into_iter().collect()
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

#[cfg(test)]
mod tests {
    use weir_advisor::observation::{Fact, SidekiqObservation};

    use super::*;

    #[test]
    fn a_pooler_that_may_exist_is_mentioned_unless_it_is_known_whether_it_does() {
        let jobs = Fact::Known(SidekiqObservation::default());
        let mut observation = Observation { jobs, ..Observation::default() };
        assert!(no_pooler(&observation, false)[0].contains("`--pgbouncer-url`"));
        assert!(no_pooler(&observation, true).is_empty());
        assert!(no_pooler(&Observation::default(), false).is_empty(), "nothing was measured");
        let named = Pooler { name: "pgbouncer".to_owned(), ..Pooler::default() };
        assert!(pooler(Some(&named))[0].contains("`--pgbouncer-url`"));
        let elsewhere = Pooler { may_serve_another: true, ..named.clone() };
        let line = pooler(Some(&elsewhere)).remove(0);
        assert!(
            line.starts_with("pgbouncer runs on this machine. Whether the application"),
            "{line}"
        );
        observation.pooler = Some(named);
        assert!(no_pooler(&observation, false).is_empty());
    }
}
