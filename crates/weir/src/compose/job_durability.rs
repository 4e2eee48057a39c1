//! Logs once what the Redis of the job store may lose of acknowledged jobs.

use tokio_util::sync::CancellationToken;
use weir_advisor::durability::{PushConfirmation, risks};
use weir_config::Settings;
use weir_sidekiq::{RedisConnection, RedisEndpoint, SampleLimits};

/// Logs each risk, unless `stopping` comes first. Does nothing for another store; a Redis that is away
/// is reported by the store.
pub(super) async fn log(settings: Settings, stopping: CancellationToken) {
    let logging = async {
        for endpoint in settings.jobs.redis_shards.iter().map(|shard| &shard.endpoint) {
            log_risks(endpoint, settings.jobs.push_confirmation()).await;
        }
    };
    tokio::select! {
        () = logging => {}
        () = stopping.cancelled() => {}
    }
}

async fn log_risks(endpoint: &RedisEndpoint, confirm: PushConfirmation) {
    let Ok(mut connection) = RedisConnection::open(endpoint, &SampleLimits::default()).await else {
        return;
    };
    match connection.server_info().await {
        Ok(info) => {
            for risk in risks(&info, confirm) {
                tracing::warn!(redis = %endpoint, "{}", risk.sentence());
            }
        }
        Err(error) => {
            tracing::warn!(redis = %endpoint, %error, "what Redis may lose of acknowledged jobs is unknown");
        }
    }
}
