//! Settings were changed but need a restart to take effect.

use crate::finding::{Finding, Severity};
use crate::observation::Observation;
use crate::wording;

pub(crate) const NAME: &str = "pending-restart";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let waiting: Vec<&str> = postgres.waiting_for_restart().collect();
    let wait = match waiting.len() {
        0 => return Vec::new(),
        1 => "was changed and takes effect",
        _ => "were changed and take effect",
    };
    let names = wording::list(waiting);
    let evidence = format!("{names} {wait} after a restart");
    let finding = Finding::new(NAME, Severity::Warning, "Postgres", evidence)
        .leads_to("The database still uses the old values.");
    vec![finding.next("systemctl restart postgresql")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::SettingOrigin;

    #[test]
    fn what_waits_for_a_restart_is_named() {
        let mut observation = healthy::observation();
        let pending = &mut observation.postgres.known_mut().pending_restart;
        *pending = ["shared_buffers", "max_connections"].map(str::to_owned).to_vec();
        let expected =
            "shared_buffers and max_connections were changed and take effect after a restart";
        assert_eq!(check(&observation)[0].evidence, expected);
    }

    #[test]
    fn what_the_command_line_says_no_restart_changes() {
        let mut observation = healthy::observation();
        let postgres = observation.postgres.known_mut();
        postgres.pending_restart =
            ["max_connections", "shared_buffers"].map(str::to_owned).to_vec();
        let source = "command line".to_owned();
        let name = "max_connections".to_owned();
        postgres.origins.push(SettingOrigin { name, source, file: None });
        let expected = "shared_buffers was changed and takes effect after a restart";
        assert_eq!(check(&observation)[0].evidence, expected);
        observation.postgres.known_mut().pending_restart.pop();
        assert_eq!(check(&observation), []);
    }
}
