//! What the Redis of the job store may lose of acknowledged jobs, as far as it can be reached.

use std::time::Duration;

use weir_advisor::durability::{PushConfirmation, RiskKind, risks};
use weir_config::Settings;
use weir_sidekiq::{RedisConnection, RedisEndpoint, SampleLimits, SidekiqError};

/// How long each step may take: a check must not hang while Redis is away.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sentences for people.
#[derive(Debug, Default)]
pub(super) struct DurabilityReport {
    /// Pushes are rejected as the settings are.
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Reads the settings of the Redis in which Weir keeps its jobs. Empty without one.
pub(super) fn report(settings: &Settings) -> anyhow::Result<DurabilityReport> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = DurabilityReport::default();
    for endpoint in settings.jobs.redis_shards.iter().map(|shard| &shard.endpoint) {
        runtime.block_on(add(endpoint, settings.jobs.push_confirmation(), &mut report));
    }
    Ok(report)
}

async fn add(endpoint: &RedisEndpoint, confirm: PushConfirmation, report: &mut DurabilityReport) {
    let info = match server_info(endpoint).await {
        Ok(info) => info,
        Err(error) => {
            let unknown = "what it may lose of acknowledged jobs is unknown";
            report.warnings.push(format!("jobs.store: {unknown}: {error}"));
            return;
        }
    };
    for risk in risks(&info, confirm) {
        let text = format!("jobs.store: Redis {endpoint}: {}", risk.sentence());
        match risk.kind {
            RiskKind::Rejected => report.errors.push(text),
            RiskKind::Loss | RiskKind::Unknown => report.warnings.push(text),
        }
    }
}

async fn server_info(
    endpoint: &RedisEndpoint,
) -> Result<weir_advisor::observation::RedisInfo, SidekiqError> {
    let limits = SampleLimits {
        connect_timeout: PATIENCE,
        answer_timeout: PATIENCE,
        ..SampleLimits::default()
    };
    RedisConnection::open(endpoint, &limits).await?.server_info().await
}
