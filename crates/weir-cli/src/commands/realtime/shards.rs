//! The servers in which nodes share realtime channels, as the node that is asked sees them.

use weir_realtime::shared_log::LogShardView;
use weir_realtime::view::HubOverview;

use crate::admin_client::AdminClient;

/// Returns the shards of `realtime.broker`. Empty: the channels are those of one node only.
pub(crate) async fn of(client: &mut AdminClient) -> Vec<LogShardView> {
    let overview: anyhow::Result<HubOverview> = client.get("/v1/realtime/overview").await;
    overview.map(|overview| overview.log_shards).unwrap_or_default()
}

/// Adds the shards that are away to an error.
pub(super) async fn with_those_away(
    client: &mut AdminClient,
    error: anyhow::Error,
) -> anyhow::Error {
    let shards = of(client).await;
    let away = shards.iter().filter(|shard| !shard.is_connected);
    let away: Vec<String> =
        away.map(|shard| format!("shard {} at {} is away", shard.name, shard.address)).collect();
    if away.is_empty() { error } else { anyhow::anyhow!("{error:#}; {}", away.join(", ")) }
}

/// Returns on which nodes a switch holds now. Nodes share switches in the shard whose name is first.
pub(crate) fn where_a_switch_holds(shards: &[LogShardView]) -> String {
    match shards.iter().min_by(|one, other| one.name.cmp(&other.name)) {
        None => String::new(),
        Some(shard) if shard.is_connected => "; on all nodes within a second".to_owned(),
        Some(LogShardView { name, address, .. }) => {
            format!("; on this node only until shard {name} at {address} is back")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_holds_on_this_node_only_while_the_first_shard_is_away() {
        let shard = |name: &str, is_connected| LogShardView {
            name: name.to_owned(),
            address: format!("redis-{name}:6379"),
            is_connected,
            problem: None,
            seconds: 1.0,
            nodes: 2,
        };
        assert_eq!(where_a_switch_holds(&[]), "");
        let all = "; on all nodes within a second";
        assert_eq!(where_a_switch_holds(&[shard("b", false), shard("a", true)]), all);
        assert_eq!(
            where_a_switch_holds(&[shard("b", true), shard("a", false)]),
            "; on this node only until shard a at redis-a:6379 is back"
        );
    }
}
