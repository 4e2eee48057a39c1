//! The kernel stops processes because their control group has used its CPU time: a limit of a container
//! or a systemd unit.

use crate::finding::{Finding, Severity};
use crate::observation::{CpuLimit, Observation};
use crate::wording::{self, percent};

pub(crate) const NAME: &str = "cpu-limit";

/// Share of periods from which the limit determines how long jobs and requests take.
const HARMFUL_SHARE: f64 = 0.5;
/// Process IDs that are named.
const PIDS_MAX: usize = 5;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    observation.cpu_limits.iter().filter_map(found).collect()
}

/// Reports whether the group of a process of this machine has used up its CPU time. It then cannot use
/// the machine's idle cores.
pub(super) fn throttles(observation: &Observation, pid: u32) -> bool {
    let mut limits = observation.cpu_limits.iter().filter(|it| it.pids.contains(&pid));
    limits.any(|it| it.throttled_share().is_some())
}

fn found(limit: &CpuLimit) -> Option<Finding> {
    let share = limit.throttled_share()?;
    let severity = if share >= HARMFUL_SHARE { Severity::Warning } else { Severity::Notice };
    let services = wording::list(limit.services.iter().map(String::as_str));
    let cores = format!("{:.2}", limit.cores);
    let cores = cores.trim_end_matches('0').trim_end_matches('.');
    let cores = if cores == "1" { "1 core".to_owned() } else { format!("{cores} cores") };
    let evidence = format!(
        "its control group {} is limited to {cores}, and was throttled in {} of {}",
        limit.group,
        percent(share),
        wording::number(limit.periods, "period", "periods")
    );
    let finding = Finding::new(NAME, severity, format!("{services}{}", pids(limit)), evidence);
    Some(
        finding
            .leads_to(
                "In such a period (0.1 s by default), the kernel stops all threads of the group until the \
                 next one, so jobs and requests take longer than their code does, and heartbeats come \
                 late, even while cores of the machine are idle. More threads do not help.",
            )
            .advise(format!(
                "raise the limit where it is set (Kubernetes: resources.limits.cpu, docker: --cpus, \
                 systemd: CPUQuota=; the kernel shows it in {}), or run fewer threads in the group",
                limit.file
            )),
    )
}

/// Returns " (PID 7 and 8)".
fn pids(limit: &CpuLimit) -> String {
    let more = limit.pids.len().saturating_sub(PIDS_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    let pids: Vec<_> = limit.pids.iter().take(PIDS_MAX).map(ToString::to_string).collect();
    if pids.is_empty() {
        return String::new();
    }
    format!(" (PID {})", wording::list(pids.iter().map(String::as_str).chain(more.as_deref())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn limit(periods: u64, throttled_periods: u64) -> CpuLimit {
        CpuLimit {
            group: "/system.slice/sidekiq.service".to_owned(),
            file: "/sys/fs/cgroup/system.slice/sidekiq.service/cpu.max".to_owned(),
            services: vec!["sidekiq".to_owned()],
            pids: vec![4_711],
            cores: 1.5,
            periods,
            throttled_periods,
        }
    }

    fn with(limit: CpuLimit) -> Option<Finding> {
        check(&Observation { cpu_limits: vec![limit], ..healthy::observation() }).pop()
    }

    #[test]
    fn a_group_that_is_often_throttled_is_found_with_its_limit() {
        let finding = with(limit(95, 76)).unwrap();
        assert_eq!(finding.subject, "sidekiq (PID 4711)");
        let expected = "its control group /system.slice/sidekiq.service is limited to 1.5 cores, and was \
                        throttled in 80 % of 95 periods";
        assert_eq!((finding.evidence.as_str(), finding.severity), (expected, Severity::Warning));
        assert!(finding.next_step().unwrap().contains("CPUQuota="));
        assert_eq!(with(limit(95, 30)).unwrap().severity, Severity::Notice);
    }

    #[test]
    fn a_limit_that_is_seldom_reached_is_no_finding() {
        assert_eq!(with(limit(95, 20)), None);
        assert_eq!(with(limit(19, 19)), None, "it has hardly run");
        assert_eq!(with(limit(0, 0)), None);
        let limits = vec![limit(95, 76)];
        let observation = Observation { cpu_limits: limits, ..healthy::observation() };
        assert!(throttles(&observation, 4_711) && !throttles(&observation, 7));
    }
}
