//! The measurements of a store over the last minute, as plain data.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::operation::{CommandKind, StoreOperation};
use super::store::{CommandFigures, StoreMetrics, StoreSample, StoreServerFigures};
use crate::view;

/// Commands of the server that are listed, those with the most time first.
const COMMANDS_SHOWN: usize = 12;

impl StoreMetrics {
    /// Returns the figures of one shard.
    pub(super) fn view(&self, now: Timestamp) -> view::StoreShardView {
        let current = self.read(now);
        let earlier = self.earlier();
        view::StoreShardView {
            shard: self.shard().to_owned(),
            operations: operations(&current, earlier.as_ref()),
            malformed_total: current.malformed,
            server: current.server.as_ref().map(|server| {
                self::server(server, earlier.as_ref().and_then(|earlier| earlier.server.as_ref()))
            }),
        }
    }
}

fn operations(
    current: &StoreSample,
    earlier: Option<&StoreSample>,
) -> Vec<view::StoreOperationView> {
    let each = StoreOperation::ALL.into_iter().map(|operation| {
        let at = operation as usize;
        let latencies = earlier.map(|earlier| current.latencies[at].since(&earlier.latencies[at]));
        let quantile = |quantile| latencies.as_ref()?.quantile(quantile);
        let span = earlier.map_or(0.0, |earlier| current.at.since(earlier.at).as_secs_f64());
        let before = earlier.map_or(current.totals[at], |earlier| earlier.totals[at]);
        view::StoreOperationView {
            operation: operation.label().to_owned(),
            total: current.totals[at],
            per_second: rate(current.totals[at], before, span),
            seconds_p50: quantile(0.5),
            seconds_p99: quantile(0.99),
        }
    });
    each.collect()
}

fn server(
    current: &StoreServerFigures,
    earlier: Option<&StoreServerFigures>,
) -> view::StoreServerView {
    let unchanged = earlier.unwrap_or(current);
    let span = current.at.since(unchanged.at).as_secs_f64();
    let kind = |kind| rate(current.of_kind(kind).0, unchanged.of_kind(kind).0, span);
    let cpu_seconds = (current.cpu_seconds - unchanged.cpu_seconds).max(0.0);
    let jobs = current.processed_total.saturating_sub(unchanged.processed_total);
    view::StoreServerView {
        memory_bytes: current.memory_bytes,
        memory_bytes_max: current.memory_bytes_max,
        reads_per_second: kind(CommandKind::Read),
        writes_per_second: kind(CommandKind::Write),
        scripts_per_second: kind(CommandKind::Script),
        others_per_second: kind(CommandKind::Other),
        cpu_share: if span > 0.0 { cpu_seconds / span } else { 0.0 },
        cpu_seconds_per_job: (jobs > 0).then(|| cpu_seconds / as_f64(jobs)),
        commands: commands(current, unchanged, span),
    }
}

/// Returns the commands that were called since `earlier`, those with the most time first.
fn commands(
    current: &StoreServerFigures,
    earlier: &StoreServerFigures,
    span: f64,
) -> Vec<view::StoreCommandView> {
    let before = |name: &str| earlier.commands.iter().find(|command| command.name == name);
    let mut commands: Vec<(&CommandFigures, u64, Duration)> = current
        .commands
        .iter()
        .map(|command| {
            let before = before(&command.name);
            let (calls, took) = before.map_or((0, Duration::ZERO), |it| (it.calls, it.took));
            (command, command.calls.saturating_sub(calls), command.took.saturating_sub(took))
        })
        .filter(|(_, calls, _)| *calls > 0)
        .collect();
    commands.sort_by_key(|(_, _, took)| std::cmp::Reverse(*took));
    commands.truncate(COMMANDS_SHOWN);
    let view = |(command, calls, took): (&CommandFigures, u64, Duration)| view::StoreCommandView {
        command: command.name.clone(),
        kind: command.kind.label().to_owned(),
        per_second: rate(calls, 0, span),
        seconds_mean: took.as_secs_f64() / as_f64(calls),
    };
    commands.into_iter().map(view).collect()
}

fn rate(now: u64, before: u64, span: f64) -> f64 {
    if span > 0.0 { as_f64(now.saturating_sub(before)) / span } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people: 53 bits are exact enough")]
const fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn figures(seconds: u64, calls: u64, micros: u64, jobs: u64) -> StoreServerFigures {
        let command = |name: &str, kind, calls| CommandFigures {
            name: name.to_owned(),
            kind,
            calls,
            took: Duration::from_micros(micros),
        };
        StoreServerFigures {
            at: at(seconds),
            memory_bytes: 1_000,
            cpu_seconds: Duration::from_micros(2 * micros).as_secs_f64(),
            processed_total: jobs,
            commands: vec![
                command("evalsha", CommandKind::Script, calls),
                command("llen", CommandKind::Read, 2 * calls),
                command("ping", CommandKind::Other, 7),
            ],
            ..StoreServerFigures::default()
        }
    }

    #[test]
    fn rates_are_those_of_the_last_minute() {
        let metrics = StoreMetrics::new("a:6379/0", 1);
        metrics.publish_server(Some(figures(0, 100, 1_000, 10)));
        metrics.sample(at(0));
        for _ in 0..30 {
            metrics.end(StoreOperation::Fetch, metrics.begin(StoreOperation::Fetch));
        }
        metrics.malformed(2);
        metrics.publish_server(Some(figures(10, 400, 601_000, 110)));
        let view = metrics.view(at(10));
        let fetch = &view.operations[StoreOperation::Fetch as usize];
        assert_eq!((fetch.operation.as_str(), fetch.total, fetch.per_second), ("fetch", 30, 3.0));
        assert!(fetch.seconds_p50 <= fetch.seconds_p99 && fetch.seconds_p50.is_some());
        assert_eq!(view.operations[0].seconds_p99, None);
        assert_eq!(view.malformed_total, 2);
        let server = view.server.unwrap();
        assert_eq!((server.scripts_per_second, server.reads_per_second), (30.0, 60.0));
        assert!((server.cpu_share - 0.12).abs() < 1e-9, "{server:?}");
        assert!((server.cpu_seconds_per_job.unwrap() - 0.012).abs() < 1e-9, "{server:?}");
        let names: Vec<&str> = server.commands.iter().map(|it| it.command.as_str()).collect();
        assert_eq!(names, ["evalsha", "llen"], "commands that were not called are not listed");
        assert!((server.commands[0].seconds_mean - 0.002).abs() < 1e-9);
    }

    #[test]
    fn without_an_earlier_sample_nothing_is_said_of_the_last_minute() {
        let metrics = StoreMetrics::new("a", 1);
        metrics.end(StoreOperation::Push, metrics.begin(StoreOperation::Push));
        metrics.publish_server(Some(figures(0, 100, 1_000, 10)));
        let view = metrics.view(at(0));
        assert_eq!((view.operations[0].total, view.operations[0].per_second), (1, 0.0));
        assert_eq!(view.operations[0].seconds_p50, None);
        let server = view.server.unwrap();
        assert_eq!((server.reads_per_second, server.cpu_seconds_per_job), (0.0, None));
    }
}
