//! Whether all parts of all nodes respond.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::http_connection::get;
use super::realtime::publish_once;
use super::shared::Endpoints;
use super::site::wait_until;
use crate::jobs::connect::Control;
use crate::jobs::server_url::ServerUrl;
use crate::realtime::target::App;

/// Recovery takes longer than this: it has failed.
const RECOVERY_MAX: Duration = Duration::from_secs(120);
/// Nobody fetches from its queue.
const PROBE_JOB: &str =
    r#"{"jid":"soak-probe","jobtype":"SoakProbe","queue":"soak-probe","args":[]}"#;
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until each part of each node has responded.
pub(super) fn wait_for_recovery(nodes: &[Endpoints], apps: &[App]) -> Result<()> {
    for (number, node) in nodes.iter().enumerate() {
        wait_until(RECOVERY_MAX, || probe(*node, apps))
            .with_context(|| format!("node {number} does not recover"))?;
    }
    Ok(())
}

fn probe(node: Endpoints, apps: &[App]) -> Result<()> {
    expect_ok(node.console, "/ready")?;
    expect_ok(node.front, "/soak?us=0")?;
    if let Some(gems) = node.gems {
        expect_ok(gems, "/names")?;
    }
    let url = ServerUrl { address: node.jobs, password: None };
    let mut jobs = Control::open(&url, REPLY_TIMEOUT)?;
    jobs.command(&format!("PUSH {PROBE_JOB}"))?;
    apps.iter().try_for_each(|app| publish_once(node, app).context("publishing"))
}

fn expect_ok(address: SocketAddr, path: &str) -> Result<()> {
    let response = get(address, path)?;
    let body = String::from_utf8_lossy(&response.body).into_owned();
    ensure!(response.status == 200, "{path}: status {}: {}", response.status, body.trim());
    Ok(())
}
