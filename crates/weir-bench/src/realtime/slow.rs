//! Clients that stop reading: what the others notice of it, and what the server keeps for them.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::attendance::AfterClose;
use super::ledger::Deliveries;
use super::report::rounded;
use super::scenario::Bench;
use super::schedule::Patience;
use crate::clock::now;

/// The first half of the time all clients read; in the second half the slow ones don't.
pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    bench.arrive()?;
    let half: Duration = bench.settings.duration / 2;
    let (_, without) = bench.publish_for(half)?;
    let without_slow = figures(&without, bench.run.rss_bytes_max);
    bench.crowd.stop_reading()?;
    // A server may well close a client that does not read.
    bench.crowd.after_close = AfterClose::Stay;
    let (spent, with) = bench.publish_for(half)?;
    let extra = &mut bench.run.extra;
    extra.insert("without_slow".to_owned(), without_slow);
    extra.insert("with_slow".to_owned(), figures(&with, bench.run.rss_bytes_max));
    extra.insert("server_rss_bytes_max".to_owned(), bench.run.rss_bytes_max.into());
    let p99_ratio =
        ratio(with.heard.latencies.quantile_us(0.99), without.heard.latencies.quantile_us(0.99));
    extra.insert("p99_ratio".to_owned(), p99_ratio.into());
    let closed = bench.crowd.slow_closed()?;
    extra.insert("slow_closed".to_owned(), closed.into());
    bench.run.add_deliveries_faults(&without);
    bench.run.load = Some((spent, with));
    bench.crowd.read_again()?;
    read_to_the_end(bench)?;
    let endings = serde_json::to_value(&bench.crowd.attendance.endings)?;
    bench.run.extra.insert("slow_endings".to_owned(), endings);
    Ok(())
}

/// Until nothing comes any more for a while: how the connections of the slow ended, if they did.
fn read_to_the_end(bench: &mut Bench<'_>) -> Result<()> {
    let mut patience = Patience::new(bench.settings.settle);
    while patience.lasts(bench.crowd.around.counts.bytes) {
        bench.crowd.turn(now() + bench.settings.settle)?;
    }
    Ok(())
}

fn figures(deliveries: &Deliveries, rss_bytes_max: Option<u64>) -> serde_json::Value {
    let (heard, last) = (&deliveries.heard.latencies, &deliveries.last_client);
    json!({
        "operations": deliveries.heard.operations,
        "p50_us": rounded(heard.quantile_us(0.50)),
        "p99_us": rounded(heard.quantile_us(0.99)),
        "last_client_p50_us": rounded(last.quantile_us(0.50)),
        "last_client_p99_us": rounded(last.quantile_us(0.99)),
        "server_rss_bytes_max": rss_bytes_max,
    })
}

fn ratio(one: f64, other: f64) -> f64 {
    rounded(one / other.max(1e-3))
}
