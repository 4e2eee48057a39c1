//! The settings of Weir for each policy.

use std::fmt::Write;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use super::load::QUEUES;
use crate::weir_process::toml_string;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Policy {
    /// The first queue that has jobs, in the order of the workers.
    Strict,
    /// Queues by their weights.
    Weighted,
    /// By target latency.
    Targets,
    /// By target latency, with the fresh lane in each queue.
    TargetsFresh,
}

impl Policy {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Weighted => "weighted",
            Self::Targets => "targets",
            Self::TargetsFresh => "targets-fresh",
        }
    }

    const fn dispatch(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Weighted => "weighted",
            Self::Targets | Self::TargetsFresh => "targets",
        }
    }
}

/// Returns the text of `weir.toml`.
pub(crate) fn weir_toml(policy: Policy, time_scale: f64, folder: &Path) -> String {
    let mut text = format!("data_dir = {}\n", toml_string(&folder.join("data")));
    text.push_str("[console]\nlisten = \"127.0.0.1:0\"\n");
    // Writing to a String cannot fail. Syncs to the disk are no part of what is measured.
    let _ = write!(
        text,
        "[jobs]\nlisten = \"127.0.0.1:0\"\nfsync = \"never\"\ndispatch = \"{}\"\n",
        policy.dispatch()
    );
    for queue in &QUEUES {
        let _ = writeln!(text, "[jobs.queues.{}]", queue.name);
        let target_ms = (queue.target * 1_000.0 / time_scale).ceil().max(1.0);
        let _ = match policy {
            Policy::Strict => Ok(()),
            Policy::Weighted => writeln!(text, "weight = {}", queue.weight),
            Policy::Targets => writeln!(text, "target_latency = \"{target_ms:.0}ms\""),
            Policy::TargetsFresh => {
                writeln!(text, "target_latency = \"{target_ms:.0}ms\"\nfresh_lane = true")
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_its_settings() {
        let text = |policy| weir_toml(policy, 100.0, Path::new("/f"));
        assert!(
            text(Policy::Strict).contains("dispatch = \"strict\"\n[jobs.queues.default]\n[jobs")
        );
        assert!(text(Policy::Weighted).contains("[jobs.queues.default]\nweight = 6\n"));
        let targets = text(Policy::Targets);
        assert!(
            targets.contains("[jobs.queues.mailers]\ntarget_latency = \"50ms\"\n"),
            "{targets}"
        );
        assert!(!targets.contains("fresh") && targets.contains("dispatch = \"targets\""));
        assert!(text(Policy::TargetsFresh).contains("\"50ms\"\nfresh_lane = true\n"));
    }
}
