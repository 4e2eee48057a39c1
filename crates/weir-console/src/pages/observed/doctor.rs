//! Findings about observed systems, with the time to drain and the line to change.

mod jobs;

use askama::Template;
use weir_advisor::observation::SourceState;
use weir_advisor::{Action, Drain, Finding, LineChange, Summary, wording};

use self::jobs::JobsPart;
pub(super) use self::jobs::time_to_drain;
use super::super::frame::Section;
use super::super::request::{PageRequest, PageResult};
use super::charted::{ChartFigure, ChartedPage, PageCharts};
use super::{age, displayable, latest};
use crate::console::Console;
use crate::figures;
use crate::observed::ObservedSnapshot;
use crate::page_error::PageError;
use crate::verdict::style;

const CHARTS: [ChartFigure; 6] = [
    ChartFigure {
        series: "waiting:Waiting,in_hand:In progress,threads:Threads",
        unit: "count",
        name: "Jobs of Sidekiq",
        caption: "Jobs waiting and in progress",
    },
    ChartFigure {
        series: "served_per_second:Completed,arriving_per_second:Arriving",
        unit: "rate",
        name: "Jobs of Sidekiq per second",
        caption: "Jobs per second",
    },
    ChartFigure {
        series: "latency_seconds:Latency",
        unit: "duration",
        name: "Latency of Sidekiq's queues",
        caption: "Latency: the age of the oldest job",
    },
    ChartFigure {
        series: "critical_findings:Critical,warning_findings:Warnings,sources_away:Unreachable sources",
        unit: "count",
        name: "Findings",
        caption: "Findings",
    },
    ChartFigure {
        series: "retries:Retries,scheduled:Scheduled,dead:Dead",
        unit: "count",
        name: "Retries, scheduled and dead jobs",
        caption: "Retries, scheduled, dead",
    },
    ChartFigure {
        series: "processes:Processes,cores_idle:Idle cores",
        unit: "count",
        name: "Processes and idle cores",
        caption: "Processes and idle cores",
    },
];

#[derive(Template)]
#[template(path = "doctor_live.html")]
struct DoctorLive {
    /// None: there is no snapshot yet.
    verdict: Option<VerdictPart>,
    sources: Vec<SourceRow>,
    findings: Vec<FindingPart>,
    /// One part for each observed Redis.
    jobs: Vec<JobsPart>,
}

struct VerdictPart {
    class: &'static str,
    label: &'static str,
    cause: String,
    drain: Option<String>,
    next: Option<String>,
    age: String,
}

struct SourceRow {
    kind: &'static str,
    name: String,
    problem: Option<String>,
    polls: u64,
    failures: u64,
    took: String,
}

struct FindingPart {
    class: &'static str,
    label: &'static str,
    rule: String,
    subject: String,
    evidence: String,
    consequence: String,
    since: Option<String>,
    caveat: Option<&'static str>,
    /// Place, line, and whether its readers must be restarted.
    lines: Vec<(String, String, bool)>,
    next: Option<String>,
    /// Identifies the button that copies the line.
    key: usize,
}

/// `GET /doctor`
pub(in crate::pages) async fn page(request: PageRequest) -> PageResult {
    let page = ChartedPage {
        section: Section::Doctor,
        title: "Doctor".to_owned(),
        path: "/doctor",
        fields: &[],
        charts: PageCharts::of_all(&CHARTS),
    };
    page.response(&request, DoctorLive::read(&request.console)?.render())
}

impl DoctorLive {
    fn read(console: &Console) -> Result<Self, PageError> {
        let snapshot = latest(console)?;
        let Some(snapshot) = snapshot.as_deref() else {
            let (sources, findings, jobs) = (Vec::new(), Vec::new(), Vec::new());
            return Ok(Self { verdict: None, sources, findings, jobs });
        };
        let limits = &console.deps.settings.limits;
        let findings = snapshot.advice.findings.iter().enumerate();
        let each = || snapshot.observation.each_jobs().enumerate();
        let share = |rows_max: usize| (rows_max / each().count().max(1)).max(1);
        let rows_max = (share(limits.page_queues), share(limits.page_workers));
        let jobs = each().filter_map(|(key, (shard, jobs))| {
            Some(JobsPart::new((key, shard), jobs.known()?, rows_max))
        });
        Ok(Self {
            verdict: Some(VerdictPart::new(console, snapshot)),
            sources: snapshot.sources.iter().map(SourceRow::new).collect(),
            findings: findings.map(|(key, finding)| FindingPart::new(key, finding)).collect(),
            jobs: jobs.collect(),
        })
    }
}

impl VerdictPart {
    fn new(console: &Console, snapshot: &ObservedSnapshot) -> Self {
        let verdict = &snapshot.advice.verdict;
        let (class, label) = style(verdict.severity);
        Self {
            class,
            label,
            cause: displayable(&verdict.cause),
            drain: verdict.drain.map(|drain| until(drain, verdict)),
            next: verdict.next.as_deref().map(displayable),
            age: age(console, snapshot),
        }
    }
}

fn until(drain: Drain, verdict: &Summary) -> String {
    match drain {
        Drain::Empty => "No jobs are waiting.".to_owned(),
        Drain::After(remaining) if verdict.growing.iter().any(|it| it.starts_with("queue")) => {
            let left = wording::about(remaining, verdict.between);
            format!("The backlog of all queues together lasts {left}.")
        }
        Drain::After(remaining) => {
            let subject = if verdict.unserved.is_empty() { "All" } else { "The other" };
            format!("{subject} queues are empty in {}.", wording::about(remaining, verdict.between))
        }
        Drain::Stands => "The backlog neither grows nor shrinks.".to_owned(),
        Drain::Grows if verdict.growing.is_empty() => "The queues together grow.".to_owned(),
        Drain::Grows => {
            let growing = wording::list(verdict.growing.iter().map(String::as_str));
            format!("Growing: {}.", displayable(&growing))
        }
    }
}

impl SourceRow {
    fn new(source: &SourceState) -> Self {
        Self {
            kind: source.kind.name(),
            name: displayable(&source.name),
            problem: source.problem.as_ref().map(|missing| displayable(&missing.reason)),
            polls: source.looks,
            failures: source.failures,
            took: figures::duration(source.took.as_secs_f64()),
        }
    }
}

impl FindingPart {
    fn new(key: usize, finding: &Finding) -> Self {
        let (class, label) = style(Some(finding.severity));
        let line = |change: &LineChange| {
            (displayable(&change.place), displayable(&change.line), change.restart)
        };
        let lines = finding.actions.iter().filter_map(Action::line_change);
        Self {
            class,
            label,
            rule: displayable(&finding.rule),
            subject: displayable(&finding.subject),
            evidence: displayable(&finding.evidence),
            consequence: displayable(&finding.consequence),
            since: finding.since.as_ref().map(|since| {
                let ago = wording::duration(since.ago());
                format!("Since {ago} ago ({})", displayable(&since.source))
            }),
            caveat: finding.confidence.caveat(),
            lines: lines.map(line).collect(),
            next: finding.next_step().map(displayable),
            key,
        }
    }
}
