//! Observes the sources in `[observe]` on its own thread: reading `/proc` of a machine with
//! thousands of processes blocks for milliseconds.

use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use prometheus_client::registry::Registry;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weir_advisor::observation::SourceState;
use weir_base::clock::Clock;
use weir_observe::{Round, Watcher};

use weir_admin::measured::Measured;
use weir_admin::observed::Observed;
use weir_admin::observed::metrics::ObservedMetrics;
use weir_config::{Observe, Settings};

/// Limit of the time to close connections to Postgres.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The observing thread and its results.
#[derive(Debug)]
pub(super) struct Observer {
    stop: CancellationToken,
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<()>,
}

impl Observer {
    /// Starts observing into `observed`. None: nothing is configured.
    pub(super) fn start(
        settings: &Settings,
        clock: &Clock,
        observed: Observed,
        measured: &Measured,
        registry: &mut Registry,
    ) -> anyhow::Result<Option<Self>> {
        if !settings.observe.is_enabled {
            return Ok(None);
        }
        let stop = CancellationToken::new();
        let metrics = ObservedMetrics::new(observed.clone(), settings.observe.label_limits());
        registry.register_collector(Box::new(metrics));
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let watcher = watcher(&settings.observe, clock);
        let interval = settings.observe.interval;
        tracing::info!(?interval, "observing the sources of [observe]");
        let outputs = ObserverOutputs { observed, measured: measured.clone() };
        let observing = observe(watcher, interval, outputs, stop.clone());
        let (ended_sender, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("weir-observe".to_owned()).spawn(move || {
            runtime.block_on(observing);
            drop(ended_sender);
        });
        let thread = thread.context("the thread that observes")?;
        Ok(Some(Self { stop, thread, ended }))
    }

    /// Stops at once: a sample in progress is aborted, since nothing depends on it.
    pub(super) async fn finish(self) {
        self.stop.cancel();
        let _ = self.ended.await;
        if self.thread.join().is_err() {
            tracing::error!("the observer ended unexpectedly; please report this bug");
        }
    }
}

/// Where samples go, and inputs that need no sampling.
struct ObserverOutputs {
    observed: Observed,
    measured: Measured,
}

fn watcher(observe: &Observe, clock: &Clock) -> Watcher {
    Watcher::new(
        observe.sources(),
        observe.poll_schedule(),
        clock.clone(),
        &mut fastrand::Rng::new(),
    )
}

/// Takes samples until `stop`.
async fn observe(
    mut watcher: Watcher,
    interval: Duration,
    outputs: ObserverOutputs,
    stop: CancellationToken,
) {
    let mut source_log = SourceLog::default();
    loop {
        let mut round = tokio::select! {
            () = stop.cancelled() => break,
            round = watcher.round() => round,
        };
        source_log.log_changes(&round);
        outputs.measured.parts().fill(&mut round.observation);
        let pause = pause(interval, round.took);
        outputs.observed.publish(round);
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, watcher.close()).await;
}

/// Returns the pause before the next sample: the rest of the interval, but at least half of it.
/// Samples in immediate succession would have no time span to compare.
fn pause(interval: Duration, took: Duration) -> Duration {
    interval.saturating_sub(took).max(interval / 2)
}

/// The last logged state of each source, to log changes only.
#[derive(Debug, Default)]
struct SourceLog(BTreeMap<String, bool>);

impl SourceLog {
    fn log_changes(&mut self, round: &Round) {
        for SourceState { kind, name, problem, .. } in &round.sources {
            let source = format!("{} {name}", kind.name());
            let was_readable = self.0.insert(source.clone(), problem.is_none());
            match problem {
                Some(missing) if was_readable != Some(false) => {
                    tracing::warn!(
                        source,
                        why = missing.reason,
                        "observe: a source cannot be read"
                    );
                }
                None if was_readable == Some(false) => {
                    tracing::info!(source, "observe: the source can be read again");
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_samples_are_followed_by_a_pause() {
        let seconds = Duration::from_secs;
        for (took, left) in [(0, 10), (3, 7), (6, 5), (10, 5), (60, 5)] {
            assert_eq!(pause(seconds(10), seconds(took)), seconds(left), "{took}");
        }
    }
}
