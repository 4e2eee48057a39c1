//! Logs once what the Redis of the job store may lose of acknowledged jobs.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;
use weir_advisor::durability::{DurabilityRisk, PushConfirmation, RiskKind, risks};
use weir_advisor::observation::{AppendFsync, RedisInfo};
use weir_config::Settings;
use weir_sidekiq::{RedisConnection, RedisEndpoint, SampleLimits};

/// Logs each risk once for all Redis that have it, unless `stopping` comes first. Does nothing for another store; a Redis that is away
/// is reported by the store.
pub(super) async fn log(settings: Settings, stopping: CancellationToken) {
    let logging = async {
        let mut found = RisksByText::new();
        for endpoint in settings.jobs.redis_shards.iter().map(|shard| &shard.endpoint) {
            find_risks(endpoint, settings.jobs.push_confirmation(), &mut found).await;
        }
        for ((is_usual, text), endpoints) in found {
            let redis = endpoints.join(", ");
            if is_usual {
                tracing::info!(%redis, "{text}");
            } else {
                tracing::warn!(%redis, "{text}");
            }
        }
    };
    tokio::select! {
        () = logging => {}
        () = stopping.cancelled() => {}
    }
}

/// Risks, and the addresses of the Redis that have them. `true`: the default of Redis, which may be intended.
type RisksByText = BTreeMap<(bool, String), Vec<String>>;

async fn find_risks(endpoint: &RedisEndpoint, confirm: PushConfirmation, found: &mut RisksByText) {
    let Ok(mut connection) = RedisConnection::open(endpoint, &SampleLimits::default()).await else {
        return;
    };
    match connection.server_info().await {
        Ok(info) => {
            for risk in risks(&info, confirm) {
                let risk = (is_usual(&risk, &info, confirm), risk.sentence());
                found.entry(risk).or_default().push(endpoint.to_string());
            }
        }
        Err(error) => {
            tracing::warn!(redis = %endpoint, %error, "what Redis may lose of acknowledged jobs is unknown");
        }
    }
}

/// Reports whether the risk is only that of `appendfsync everysec`: `weir check` and doctor report it as well.
fn is_usual(risk: &DurabilityRisk, info: &RedisInfo, confirm: PushConfirmation) -> bool {
    let is_fsync = risk.kind == RiskKind::Loss && risk.setting == "appendfsync";
    is_fsync && !confirm.disk && info.persistence.append_fsync == Some(AppendFsync::EverySec)
}
