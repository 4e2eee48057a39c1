//! A Weir with the sample workers on free ports, which is stopped when it is dropped.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::hosting::{Hosting, HostingPaths};
use super::scenario::{PATH, probe};
use crate::clock::now;
use crate::http::{HttpUrl, Target};
use crate::weir_process::{POLL_INTERVAL, START_TIMEOUT, WeirProcess};

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Hosted {
    weir: WeirProcess,
    url: HttpUrl,
}

impl Hosted {
    pub(crate) fn start(hosting: &Hosting, workers: usize, weir: Option<&Path>) -> Result<Self> {
        let free_port = free_port()?;
        let weir = WeirProcess::start("front", weir, |folder| {
            let program = std::env::current_exe().context("finding this program")?;
            let paths = HostingPaths { folder: folder.to_path_buf(), program, free_port };
            Ok(hosting.settings(workers, &paths))
        })?;
        let sockets = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port));
        let url = HttpUrl::from_address(sockets).with_default_path(PATH);
        let mut hosted = Self { weir, url };
        hosted
            .wait_until_ready(hosting, workers)
            .map_err(|error| hosted.weir.with_log_tail(&error))?;
        Ok(hosted)
    }

    pub(crate) fn target(&self) -> Target {
        Target { url: self.url.clone(), pids: vec![self.weir.pid()] }
    }

    fn wait_until_ready(&mut self, hosting: &Hosting, workers: usize) -> Result<()> {
        let front = self.weir.wait_for_address()?;
        if hosting.is_proxy() {
            self.url = HttpUrl::from_address(front).with_default_path(PATH);
        }
        let deadline = now() + START_TIMEOUT;
        while self.count_ready_workers()? < workers || probe(&self.url, PROBE_TIMEOUT).is_err() {
            self.weir.check_running()?;
            if now() > deadline {
                let ready_workers = self.count_ready_workers()?;
                bail!("{ready_workers} of {workers} workers serve after {START_TIMEOUT:?}");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Returns the number of ready workers, from `weir workers list`.
    fn count_ready_workers(&self) -> Result<usize> {
        let output = self.weir.command(&["workers", "list", "--json"])?;
        // There is no list yet just after the start.
        let list: Value = serde_json::from_slice(&output).unwrap_or(Value::Null);
        Ok(count_workers_at_work(&list))
    }
}

/// Counts the objects, at any depth, whose `state` is that of a ready worker.
fn count_workers_at_work(json: &Value) -> usize {
    const NOT_AT_WORK: [&str; 4] = ["starting", "waiting", "failed", "stopped"];
    match json {
        Value::Array(items) => items.iter().map(count_workers_at_work).sum(),
        Value::Object(fields) => {
            let state = fields.get("state").and_then(Value::as_str);
            let serves = state.is_some_and(|state| !NOT_AT_WORK.contains(&state));
            usize::from(serves) + fields.values().map(count_workers_at_work).sum::<usize>()
        }
        _ => 0,
    }
}

/// Returns a free port. If another process takes it before Weir does, Weir reports it.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ready_workers_are_counted() {
        let states = ["serving", "starting", "serving", "failed", "draining"];
        let workers: Vec<Value> = states.iter().map(|state| json!({ "state": state })).collect();
        assert_eq!(count_workers_at_work(&json!([{ "app": "bench", "workers": workers }])), 3);
        assert_eq!(count_workers_at_work(&Value::Null), 0);
    }
}
