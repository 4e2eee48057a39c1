//! The sources of doctor, and its exit code.

use weir_advisor::{Advice, Observation, Severity, advise};
use weir_observe::{Sources, observe};

use super::follow_up::{self, PassedOptions};
use super::weir::WeirSource;
use crate::exit::Exit;

/// The sources of doctor.
#[derive(Debug)]
pub(super) struct DoctorSources {
    pub(super) sources: Sources,
    pub(super) weir: Option<WeirSource>,
    pub(super) passed: PassedOptions,
}

impl DoctorSources {
    pub(super) fn advise(&self, observation: &Observation) -> Advice {
        let shards: Vec<&str> = observation.shards.iter().map(|it| it.name.as_str()).collect();
        follow_up::complete_commands(advise(observation), &self.passed, &shards)
    }

    /// Takes both samples; queries a running Weir once.
    pub(super) async fn observe(&self) -> Observation {
        let mut observation = observe(&self.sources).await;
        if let Some(weir) = &self.weir {
            weir.add_measurements(&mut observation).await;
        }
        observation
    }
}

/// Returns the exit code. Warnings are problems; notices and unavailable facts are not.
pub(super) fn exit(advice: &Advice) -> Exit {
    let any = |severity| advice.findings.iter().any(|finding| finding.severity == severity);
    if any(Severity::Critical) || any(Severity::Warning) {
        Exit::FoundProblem
    } else if any(Severity::Unknown) {
        Exit::Failed
    } else {
        Exit::Fine
    }
}
