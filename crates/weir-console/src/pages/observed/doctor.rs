//! What is wrong with what is observed, how long until it is over, and which line to change.

mod jobs;

use askama::Template;
use weir_advisor::observation::SourceState;
use weir_advisor::{Drain, Finding, Severity, Summary, wording};

use self::jobs::JobsPart;
pub(super) use self::jobs::empty_in;
use super::super::PageError;
use super::super::shell::Section;
use super::frame::{Chart, Live};
use super::{age, latest, shown};
use crate::console::Console;
use crate::figures;
use crate::observed::Looked;

const CHARTS: [Chart; 6] = [
    Chart {
        series: "waiting:Waiting,in_hand:In hand,threads:Threads",
        unit: "count",
        name: "Jobs of Sidekiq",
        caption: "Jobs waiting and in hand",
    },
    Chart {
        series: "served_per_second:Worked off,arriving_per_second:Coming",
        unit: "rate",
        name: "Jobs of Sidekiq per second",
        caption: "Jobs per second",
    },
    Chart {
        series: "latency_seconds:Oldest job",
        unit: "duration",
        name: "How long the oldest job has waited",
        caption: "How long the oldest has waited",
    },
    Chart {
        series: "critical_findings:Critical,warning_findings:Warnings,sources_away:Sources not seen",
        unit: "count",
        name: "Findings",
        caption: "Findings",
    },
    Chart {
        series: "retries:Retries,scheduled:Scheduled,dead:Dead",
        unit: "count",
        name: "Retries, scheduled and dead jobs",
        caption: "Retries, scheduled, dead",
    },
    Chart {
        series: "processes:Processes,cores_idle:Idle cores",
        unit: "count",
        name: "Processes and idle cores",
        caption: "Processes, and cores that are idle",
    },
];

#[derive(Template)]
#[template(path = "doctor_live.html")]
pub(in crate::pages) struct LivePart {
    /// None: nothing was looked at yet.
    verdict: Option<VerdictPart>,
    sources: Vec<SourceRow>,
    findings: Vec<FindingPart>,
    /// Of each Redis that was seen.
    jobs: Vec<JobsPart>,
}

struct VerdictPart {
    class: &'static str,
    word: &'static str,
    cause: String,
    drain: Option<String>,
    next: Option<String>,
    age: String,
}

struct SourceRow {
    kind: &'static str,
    name: String,
    problem: Option<String>,
    looks: u64,
    failures: u64,
    took: String,
}

struct FindingPart {
    class: &'static str,
    word: &'static str,
    rule: &'static str,
    subject: String,
    evidence: String,
    consequence: String,
    change: Option<(String, String, bool)>,
    next: Option<String>,
    /// For the button that copies the line.
    key: usize,
}

/// `GET /doctor`, `GET /live/doctor`
impl Live for LivePart {
    const SECTION: Section = Section::Doctor;
    const TITLE: &'static str = "Doctor";
    const PATH: &'static str = "/doctor";
    const CHARTS: &'static [Chart] = &CHARTS;

    fn read(console: &Console) -> Result<Self, PageError> {
        let looked = latest(console)?;
        let Some(looked) = looked.as_deref() else {
            let (sources, findings, jobs) = (Vec::new(), Vec::new(), Vec::new());
            return Ok(Self { verdict: None, sources, findings, jobs });
        };
        let limits = &console.deps.settings.limits;
        let findings = looked.advice.findings.iter().enumerate();
        let each = || looked.observation.each_jobs().enumerate();
        let share = |rows_max: usize| (rows_max / each().count().max(1)).max(1);
        let rows_max = (share(limits.page_queues), share(limits.page_workers));
        let jobs = each().filter_map(|(key, (shard, jobs))| {
            Some(JobsPart::of((key, shard), jobs.known()?, rows_max))
        });
        Ok(Self {
            verdict: Some(VerdictPart::of(console, looked)),
            sources: looked.sources.iter().map(SourceRow::of).collect(),
            findings: findings.map(|(key, finding)| FindingPart::of(key, finding)).collect(),
            jobs: jobs.collect(),
        })
    }
}

impl VerdictPart {
    fn of(console: &Console, looked: &Looked) -> Self {
        let verdict = &looked.advice.verdict;
        let (class, word) = verdict.severity.map_or(("calm", "All well"), look_of);
        Self {
            class,
            word,
            cause: shown(&verdict.cause),
            drain: verdict.drain.map(|drain| until(drain, verdict)),
            next: verdict.next.as_deref().map(shown),
            age: age(console, looked),
        }
    }
}

/// The style's class, and the word: colour never stands alone.
const fn look_of(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Critical => ("critical", "Critical"),
        Severity::Warning => ("warning", "Warning"),
        Severity::Notice => ("notice", "Notice"),
        Severity::Unknown => ("notice", "Unknown"),
    }
}

fn until(drain: Drain, verdict: &Summary) -> String {
    match drain {
        Drain::Empty => "Nothing waits.".to_owned(),
        Drain::After(left) => {
            let which = if verdict.unserved.is_empty() { "All" } else { "The other" };
            format!("{which} queues are empty in {}.", wording::about(left, verdict.between))
        }
        Drain::Stands => "What waits neither grows nor shrinks.".to_owned(),
        Drain::Grows => "The backlog grows.".to_owned(),
    }
}

impl SourceRow {
    fn of(source: &SourceState) -> Self {
        Self {
            kind: source.kind.name(),
            name: shown(&source.name),
            problem: source.problem.as_ref().map(|missing| shown(&missing.reason)),
            looks: source.looks,
            failures: source.failures,
            took: figures::duration(source.took.as_secs_f64()),
        }
    }
}

impl FindingPart {
    fn of(key: usize, finding: &Finding) -> Self {
        let (class, word) = look_of(finding.severity);
        let change = finding.change.as_ref();
        Self {
            class,
            word,
            rule: finding.rule,
            subject: shown(&finding.subject),
            evidence: shown(&finding.evidence),
            consequence: shown(&finding.consequence),
            change: change.map(|it| (shown(&it.place), shown(&it.line), it.restart)),
            next: finding.next.as_deref().map(shown),
            key,
        }
    }
}
