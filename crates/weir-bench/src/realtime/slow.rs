//! Clients that stop reading: how the other clients are affected, and how much the server buffers for them.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::connection_stats::AfterClose;
use super::ledger::Deliveries;
use super::report::rounded;
use super::scenario::Bench;
use super::schedule::StallTimer;
use crate::clock::now;

/// All clients read in the first half of the time; the slow ones stop in the second half.
pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    bench.connect_clients()?;
    let half: Duration = bench.settings.duration / 2;
    let (_, without) = bench.publish_for(half)?;
    let without_slow = figures(&without, bench.run.rss_bytes_max);
    bench.pool.stop_reading()?;
    // A server may close a connection that is not read.
    bench.pool.after_close = AfterClose::StayClosed;
    let (spent, with) = bench.publish_for(half)?;
    let extra = &mut bench.run.extra;
    extra.insert("without_slow".to_owned(), without_slow);
    extra.insert("with_slow".to_owned(), figures(&with, bench.run.rss_bytes_max));
    extra.insert("server_rss_bytes_max".to_owned(), bench.run.rss_bytes_max.into());
    let p99_ratio = ratio(
        with.received.latencies.quantile_us(0.99),
        without.received.latencies.quantile_us(0.99),
    );
    extra.insert("p99_ratio".to_owned(), p99_ratio.into());
    let closed = bench.pool.count_closed_slow_clients()?;
    extra.insert("slow_closed".to_owned(), closed.into());
    bench.run.add_deliveries_faults(&without);
    bench.run.load = Some((spent, with));
    bench.pool.resume_reading()?;
    read_to_the_end(bench)?;
    let close_reasons = serde_json::to_value(&bench.pool.connections.close_reasons)?;
    bench.run.extra.insert("slow_endings".to_owned(), close_reasons);
    Ok(())
}

/// Reads until nothing arrives for a while, to learn why the slow clients' connections were closed.
fn read_to_the_end(bench: &mut Bench<'_>) -> Result<()> {
    let mut stall_timer = StallTimer::new(bench.settings.settle);
    while stall_timer.keep_waiting(bench.pool.shared.counts.bytes) {
        bench.pool.poll_once(now() + bench.settings.settle)?;
    }
    Ok(())
}

fn figures(deliveries: &Deliveries, rss_bytes_max: Option<u64>) -> serde_json::Value {
    let (received, last) = (&deliveries.received.latencies, &deliveries.last_client);
    json!({
        "operations": deliveries.received.operations,
        "p50_us": rounded(received.quantile_us(0.50)),
        "p99_us": rounded(received.quantile_us(0.99)),
        "last_client_p50_us": rounded(last.quantile_us(0.50)),
        "last_client_p99_us": rounded(last.quantile_us(0.99)),
        "server_rss_bytes_max": rss_bytes_max,
    })
}

fn ratio(one: f64, other: f64) -> f64 {
    rounded(one / other.max(1e-3))
}
