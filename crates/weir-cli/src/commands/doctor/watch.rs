//! `weir doctor --watch`: repeats the observation until it is interrupted.
//!
//! On a terminal the page stays in place, truncated to its size; elsewhere pages follow each other.

use std::future::poll_fn;
use std::io::{ErrorKind, Write};
use std::task::Poll;
use std::time::Duration;

use console::Term;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_advisor::flow::Flow;
use weir_advisor::observation::{
    DatabaseConnections, ObservedQueue, SessionState, SidekiqObservation,
};
use weir_advisor::{Action, Advice, Drain, Forecast, Observation, wording};

use super::doctor_sources::{self, DoctorSources};
use super::report;
use crate::exit::Exit;
use crate::output;

const OTHER_SCREEN: &str = "\u{1b}[?1049h\u{1b}[?25l";
const FORMER_SCREEN: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME_AND_CLEAR: &str = "\u{1b}[H\u{1b}[J";
/// Limit of queues on the page, those with the most waiting jobs first.
const QUEUES_MAX: usize = 15;
/// The longest interval of heartbeats of a Sidekiq process, which update its counter: within less
/// time, a difference shows that jobs ran, but not their rate.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Observes and prints until a signal or a closed output.
pub(super) async fn run(doctor_sources: &DoctorSources) -> anyhow::Result<Exit> {
    // Before the screen: from here on any end restores the terminal.
    let mut told = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
        .map(signal)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let term = Term::stdout();
    let _screen = term.is_term().then(Screen::enter);
    let mut last = Exit::Fine;
    let mut before: Option<Observation> = None;
    loop {
        let mut observation = tokio::select! {
            observation = doctor_sources.observe() => observation,
            // The exit code is that of the last page.
            () = wait_for_any(&mut told) => return Ok(last),
        };
        if let Some(before) = &before {
            observation.remember(before);
        }
        let advice = doctor_sources.advise(&observation);
        let page =
            page(&observation, &advice, doctor_sources, output::is_coloured(&std::io::stdout()));
        last = doctor_sources::exit(&advice);
        match draw_page(&term, &page) {
            // `weir doctor --watch | head` ends without an error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(last),
            shown => shown?,
        }
        before = Some(observation.only_quiet());
    }
}

/// Waits for the first of the signals.
async fn wait_for_any(signals: &mut [Signal]) {
    let first = poll_fn(|context| {
        let came = signals.iter_mut().any(|it| it.poll_recv(context).is_ready());
        if came { Poll::Ready(()) } else { Poll::Pending }
    });
    first.await;
}

fn draw_page(term: &Term, page: &[String]) -> std::io::Result<()> {
    if !term.is_term() {
        let mut stdout = std::io::stdout();
        write!(stdout, "{}\n\n", page.join("\n"))?;
        return stdout.flush();
    }
    let (height, width) = term.size();
    let lines = page.iter().take(usize::from(height).saturating_sub(1));
    let cut = lines.map(|line| console::truncate_str(line, usize::from(width), "…"));
    let text = cut.collect::<Vec<_>>().join("\n");
    let mut stdout = std::io::stdout();
    write!(stdout, "{HOME_AND_CLEAR}{text}")?;
    stdout.flush()
}

/// The terminal's alternate screen; dropping it restores the previous content.
struct Screen;

impl Screen {
    fn enter() -> Self {
        output::raw(OTHER_SCREEN);
        Self
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        output::raw(FORMER_SCREEN);
        let _ = std::io::stdout().flush();
    }
}

fn page(
    observation: &Observation,
    advice: &Advice,
    doctor_sources: &DoctorSources,
    coloured: bool,
) -> Vec<String> {
    let window = wording::duration(doctor_sources.sources.window);
    let mut page = vec![format!("weir doctor, every {window}; stop with Ctrl-C"), String::new()];
    page.push(output::printable(&advice.verdict.to_string()));
    for (shard, jobs) in observation.each_jobs() {
        if let Some(jobs) = jobs.known() {
            page.extend(queues(shard, jobs, doctor_sources.sources.window));
        }
    }
    let postgres = observation.postgres.known();
    let connections = postgres.and_then(|it| it.connections.known());
    if let Some(connections) = connections.filter(|it| it.open() > 0) {
        page.extend(session_table(connections));
    }
    if !advice.findings.is_empty() {
        page.push(String::new());
    }
    for finding in &advice.findings {
        let label = report::label(finding.severity, coloured);
        let words = format!("{}: {}", finding.subject, finding.evidence);
        page.push(format!("{label} {}", output::printable(&words)));
        let action =
            |action: &Action| format!("         {}", output::printable(&action.to_string()));
        page.extend(finding.actions.iter().map(action));
    }
    page
}

fn queues(shard: Option<&str>, jobs: &SidekiqObservation, window: Duration) -> Vec<String> {
    let mut queues: Vec<&ObservedQueue> = jobs.queues.iter().collect();
    queues.sort_by_key(|queue| std::cmp::Reverse((queue.latency, queue.length)));
    let forecast = Forecast::of(jobs);
    let rows = queues.iter().take(QUEUES_MAX).map(|queue| queue_row(jobs, queue, &forecast));
    let rows: Vec<Vec<String>> = rows.collect();
    let head = ["QUEUE", "DEPTH", "LATENCY", "ARRIVAL RATE", "COMPLETION RATE", "TIME TO DRAIN"];
    let title = shard.map(|name| output::printable(&format!("Redis {name}")));
    let all = jobs.processed_per_second.known();
    let all = all.filter(|_| !queues.is_empty() && window >= HEARTBEAT);
    let all = all.map(|all| {
        format!(
            "Completion rate of all queues, counted by Sidekiq: {}",
            wording::counted_rate(*all * jobs.completed_share(), window)
        )
    });
    let table = output::columns(&head, &rows).into_iter();
    std::iter::once(String::new()).chain(title).chain(table).chain(all).collect()
}

fn queue_row(jobs: &SidekiqObservation, queue: &ObservedQueue, forecast: &Forecast) -> Vec<String> {
    let oldest = if queue.length == 0 { "-".to_owned() } else { wording::duration(queue.latency) };
    vec![
        output::printable(&queue.name),
        wording::count(queue.length),
        oldest,
        rate(queue, |flow| flow.arrivals_per_second),
        rate(queue, |flow| jobs.completed_per_second(flow)),
        match forecast.queue_or_own(queue) {
            Some(Drain::After(left)) => wording::about(left, forecast.queue_between(&queue.name)),
            Some(Drain::Empty) => "-".to_owned(),
            Some(Drain::Stands) => "stands".to_owned(),
            Some(Drain::Grows) => "grows".to_owned(),
            None => "?".to_owned(),
        },
    ]
}

/// Formats a rate; "?" if jobs may have passed unseen between samples, since the queues of a
/// healthy system are mostly empty.
fn rate(queue: &ObservedQueue, rate_of: impl Fn(&Flow) -> f64) -> String {
    let Some(flow) = queue.flow.known() else { return "?".to_owned() };
    match (queue.flow_is_least, rate_of(flow)) {
        (true, least) if least > 0.0 => format!("at least {}", wording::rate(least)),
        (true, _) => "?".to_owned(),
        (false, rate) => wording::counted_rate(rate, flow.window),
    }
}

/// Returns the database sessions by service and state.
fn session_table(connections: &DatabaseConnections) -> Vec<String> {
    let states = [
        SessionState::Active,
        SessionState::Idle,
        SessionState::IdleInTransaction,
        SessionState::Hidden,
        SessionState::Untracked,
    ];
    let rows: Vec<Vec<String>> = connections
        .services()
        .into_iter()
        .map(|service| {
            let count = |state| connections.of(service, state);
            let each = states.map(count);
            let open: u32 = each.iter().sum();
            [output::printable(service), open.to_string()]
                .into_iter()
                .chain(each.iter().map(ToString::to_string))
                .collect()
        })
        .collect();
    let head = ["SERVICE", "OPEN", "ACTIVE", "IDLE", "IDLE IN TRANSACTION", "HIDDEN"];
    std::iter::once(String::new()).chain(output::columns(&head, &rows)).collect()
}

#[cfg(test)]
mod tests {
    use weir_advisor::Fact;

    use super::*;

    #[test]
    fn sidekiqs_counter_gives_no_rate_between_heartbeats() {
        let queue =
            ObservedQueue { name: "push".to_owned(), pushed: true, ..ObservedQueue::default() };
        let processed_per_second = Fact::Known(30.0);
        let jobs = SidekiqObservation {
            queues: vec![queue],
            processed_per_second,
            ..SidekiqObservation::default()
        };
        let is_told = |seconds| {
            let lines = queues(None, &jobs, Duration::from_secs(seconds));
            lines.contains(&"Completion rate of all queues, counted by Sidekiq: 30.0/s".to_owned())
        };
        assert!(is_told(10) && !is_told(9));
    }
}
