//! Settings that were changed and are not in force.

use crate::finding::{Finding, Severity};
use crate::observation::Observation;
use crate::wording;

pub(crate) const NAME: &str = "pending-restart";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    if postgres.pending_restart.is_empty() {
        return Vec::new();
    }
    let names = wording::list(postgres.pending_restart.iter().map(String::as_str));
    let wait = if postgres.pending_restart.len() == 1 {
        "was changed and waits"
    } else {
        "were changed and wait"
    };
    let evidence = format!("{names} {wait} for a restart");
    let finding = Finding::new(NAME, Severity::Warning, "Postgres", evidence)
        .leads_to("The database still runs with the old values.");
    vec![finding.next("systemctl restart postgresql")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn what_waits_for_a_restart_is_named() {
        let mut observation = healthy::observation();
        let pending = &mut observation.postgres.known_mut().pending_restart;
        *pending = ["shared_buffers", "max_connections"].map(str::to_owned).to_vec();
        let expected = "shared_buffers and max_connections were changed and wait for a restart";
        assert_eq!(check(&observation)[0].evidence, expected);
    }
}
