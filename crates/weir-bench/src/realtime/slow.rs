//! Clients that stop reading: what the others notice of it, and what the server keeps for them.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::attendance::AfterClose;
use super::ledger::Deliveries;
use super::report::rounded;
use super::scenario::Bench;

/// The first half of the time all clients read; in the second half the slow ones don't.
pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    bench.arrive()?;
    let half: Duration = bench.settings.duration / 2;
    let (_, without) = bench.publish_for(half)?;
    bench.crowd.stop_reading()?;
    // A server may well close a client that does not read.
    bench.crowd.after_close = AfterClose::Stay;
    let (spent, with) = bench.publish_for(half)?;
    let extra = &mut bench.run.extra;
    extra.insert("without_slow".to_owned(), figures(&without));
    extra.insert("with_slow".to_owned(), figures(&with));
    let p99_ratio =
        ratio(with.heard.latencies.quantile_us(0.99), without.heard.latencies.quantile_us(0.99));
    extra.insert("p99_ratio".to_owned(), p99_ratio.into());
    let closed = bench.crowd.slow_closed()?;
    extra.insert("slow_closed".to_owned(), closed.into());
    bench.run.add_deliveries_faults(&without);
    bench.run.load = Some((spent, with));
    Ok(())
}

fn figures(deliveries: &Deliveries) -> serde_json::Value {
    let (heard, last) = (&deliveries.heard.latencies, &deliveries.last_client);
    json!({
        "operations": deliveries.heard.operations,
        "p50_us": rounded(heard.quantile_us(0.50)),
        "p99_us": rounded(heard.quantile_us(0.99)),
        "last_client_p50_us": rounded(last.quantile_us(0.50)),
        "last_client_p99_us": rounded(last.quantile_us(0.99)),
    })
}

fn ratio(one: f64, other: f64) -> f64 {
    rounded(one / other.max(1e-3))
}
