//! A network of its own for each node: a namespace, joined to this one by a pair of virtual interfaces and a bridge. A
//! node whose interface is down is partitioned: packets are lost, and no connection is reset.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result};

use super::commands::run;

/// Begins the names of namespaces; the process that made them follows.
const NAMESPACE: &str = "weir-soak-";

#[derive(Debug)]
pub(in crate::soak) struct Network {
    pid: u32,
    /// The third number of all addresses.
    subnet: u8,
    nodes: usize,
}

impl Network {
    /// Needs root.
    pub(super) fn create(nodes: usize) -> Result<Self> {
        remove_left_over()?;
        let pid = std::process::id();
        let subnet = u8::try_from(pid % 250).unwrap_or(0);
        let network = Self { pid, subnet, nodes };
        network.set_up().context("network namespaces can't be used")?;
        Ok(network)
    }

    fn set_up(&self) -> Result<()> {
        let bridge = self.bridge();
        run("ip", &["link", "add", &bridge, "type", "bridge"])?;
        run("ip", &["address", "add", &format!("{}/24", self.host()), "dev", &bridge])?;
        run("ip", &["link", "set", &bridge, "up"])?;
        (0..self.nodes).try_for_each(|number| self.add_node(number))
    }

    fn add_node(&self, number: usize) -> Result<()> {
        let (namespace, interface) = (self.namespace(number), self.interface(number));
        let address = format!("{}/24", self.node(number));
        run("ip", &["netns", "add", &namespace])?;
        let pair = format!("link add {interface} type veth peer name eth0 netns {namespace}");
        run("ip", &pair.split(' ').collect::<Vec<_>>())?;
        run("ip", &["link", "set", &interface, "master", &self.bridge(), "up"])?;
        run("ip", &["-n", &namespace, "address", "add", &address, "dev", "eth0"])?;
        run("ip", &["-n", &namespace, "link", "set", "eth0", "up"])?;
        run("ip", &["-n", &namespace, "link", "set", "lo", "up"]).map(drop)
    }

    fn bridge(&self) -> String {
        format!("wsk{}", self.pid)
    }

    fn interface(&self, number: usize) -> String {
        format!("wsk{}n{number}", self.pid)
    }

    pub(super) fn namespace(&self, number: usize) -> String {
        format!("{NAMESPACE}{}-{number}", self.pid)
    }

    /// The address of this side, where Redis listens.
    pub(super) fn host(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.subnet, 254)
    }

    pub(super) fn node(&self, number: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.subnet, u8::try_from(number + 1).unwrap_or(u8::MAX))
    }

    pub(in crate::soak) fn cut(&self, number: usize) -> Result<()> {
        run("ip", &["link", "set", &self.interface(number), "down"]).map(drop)
    }

    pub(in crate::soak) fn join(&self, number: usize) -> Result<()> {
        run("ip", &["link", "set", &self.interface(number), "up"]).map(drop)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The run is over; the interfaces of a namespace disappear with it.
        for number in 0..self.nodes {
            let _ = run("ip", &["netns", "delete", &self.namespace(number)]);
        }
        let _ = run("ip", &["link", "delete", &self.bridge()]);
    }
}

/// Removes namespaces and bridges of runs that were killed.
fn remove_left_over() -> Result<()> {
    for line in run("ip", &["netns", "list"])?.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let pid = name.strip_prefix(NAMESPACE).and_then(|rest| rest.split('-').next());
        let Some(pid) = pid.filter(|pid| !Path::new("/proc").join(pid).exists()) else {
            continue;
        };
        run("ip", &["netns", "delete", name])?;
        // Gone with the first namespace of the run.
        let _ = run("ip", &["link", "delete", &format!("wsk{pid}")]);
    }
    Ok(())
}
