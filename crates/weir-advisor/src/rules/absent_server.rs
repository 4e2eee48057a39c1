//! Finds queues whose only process is quiet, silent or gone. The remedy is to start that process
//! again: if another process took over the queue, it would later be served twice.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{ProcessPresence, SidekiqObservation};
use crate::wording;

/// Processes may be quiet this long during a deployment.
const DEPLOYMENT: Duration = Duration::from_secs(600);
/// Also lists failed and stopped units.
const UNITS: &str = "systemctl list-units --all '*sidekiq*'";

/// Returns the finding of `rule` for such a queue, or `None` if it is not one. `waiting` is the
/// number of waiting jobs.
pub(super) fn found(
    rule: &'static str,
    subject: &str,
    waiting: &str,
    jobs: &SidekiqObservation,
    queue: &str,
) -> Option<Finding> {
    let absent: Vec<_> = jobs.absent_servers(queue).collect();
    let first = absent.first()?;
    let whose = match absent.as_slice() {
        [_] => format!("{}, which serves it, {}", first.identity, first.why_it_takes_none()),
        several => {
            let of = |it: &&crate::observation::JobProcess| {
                format!("{} {}", it.identity, it.why_it_takes_none())
            };
            let all: Vec<String> = several.iter().map(of).collect();
            format!("of those that serve it {}", wording::list(all.iter().map(String::as_str)))
        }
    };
    let evidence = if waiting.is_empty() { whose } else { format!("{waiting}; {whose}") };
    let is_deployment = absent.iter().all(|it| it.quiet && it.is_alive());
    let latency = jobs.queue(queue).map_or(Duration::ZERO, |it| it.latency);
    let severity = match is_deployment {
        true if latency < DEPLOYMENT => Severity::Notice,
        true => Severity::Warning,
        false => Severity::Critical,
    };
    let is_silent = absent.iter().any(|it| it.presence == ProcessPresence::Silent);
    let finding = Finding::new(rule, severity, subject, evidence).leads_to(match is_silent {
        true => {
            "No process takes its jobs until that one does again: start it if it has ended. If it \
             runs, its log shows whether it hangs or cannot write to Redis."
        }
        false => "No process takes its jobs until that one runs again: start or restart it.",
    });
    let is_gone = absent.iter().any(|it| it.presence != ProcessPresence::Seen);
    Some(if is_gone || !is_deployment { finding.next(UNITS) } else { finding })
}
