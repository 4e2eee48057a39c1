//! Live: real sockets, and the kernel's own choice. Where the kernel takes no programs from us, the
//! tests that need them say so and end.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::busy::{BusyState, record};
use super::{LoadedSelection, Plan, Selection, SelectionError, SocketGroup};
use crate::workers::PROCESSES_MAX;

/// Sockets, where they listen, and connections that nobody accepts.
struct Rig {
    group: SocketGroup,
    address: SocketAddr,
    clients: Vec<OwnedFd>,
}

impl Rig {
    /// None: the kernel refuses.
    fn new(selection: Selection, workers: usize, queues: usize, host: SocketAddr) -> Option<Self> {
        let plan = Plan::new(selection, workers, queues, 1);
        Self::from_loaded(LoadedSelection::new(plan, host.is_ipv6()), host)
    }

    fn from_loaded(
        prepared: Result<LoadedSelection, SelectionError>,
        host: SocketAddr,
    ) -> Option<Self> {
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(refused) if !has_privileges() => {
                eprintln!("SKIPPED: {refused}");
                return None;
            }
            Err(refused) => panic!("{refused}"),
        };
        let plan = prepared.plan();
        let mut address = host;
        let mut sockets = Vec::new();
        for _ in 0..plan.sockets() {
            let socket = socket(address);
            sockopt::set_socket_reuseport(&socket, true).expect("set");
            rustix::net::bind(&socket, &address).expect("bound");
            rustix::net::listen(&socket, 1_000).expect("listens");
            address = local(&socket);
            sockets.push(socket);
        }
        let group = prepared.join("shop", sockets).expect("joined");
        Some(Self { group, address, clients: Vec::new() })
    }

    /// Workers of join-idle that are ready.
    fn with_stay(workers: usize, stay_ns: u32) -> Option<Self> {
        let plan = Plan::new(Selection::JoinIdle, workers, 1, 1);
        let host = (Ipv4Addr::LOCALHOST, 0).into();
        let rig = Self::from_loaded(LoadedSelection::with_stay(plan, false, stay_ns), host)?;
        (0..workers).for_each(|slot| rig.open(slot));
        Some(rig)
    }

    /// Connects, and the worker that gets it answers at once.
    fn serve(&mut self) -> usize {
        let socket = self.connect();
        assert!(self.group.records().repair(record(socket, 0)), "it was chosen");
        socket
    }

    fn on_ipv4(selection: Selection, workers: usize, queues: usize) -> Option<Self> {
        Self::new(selection, workers, queues, (Ipv4Addr::LOCALHOST, 0).into())
    }

    fn open(&self, slot: usize) {
        self.group.records().set_socket(record(slot, 0), self.group.plan().socket_for(slot));
    }

    fn reset(&self, slot: usize) {
        self.group.records().reset(record(slot, 0));
    }

    fn state(&self, slot: usize) -> BusyState {
        self.group.records().state(record(slot, 0))
    }

    fn waiting(&self) -> Vec<u32> {
        let sockets = 0..self.group.plan().sockets();
        sockets.map(|socket| self.group.waiting(socket).expect("told")).collect()
    }

    /// Connects, and answers the socket that got it.
    fn connect(&mut self) -> usize {
        self.connect_from(socket(self.address))
    }

    fn connect_from(&mut self, client: OwnedFd) -> usize {
        let before = self.waiting();
        rustix::net::connect(&client, &self.address).expect("connected");
        self.clients.push(client);
        loop {
            let now = self.waiting();
            if let Some(socket) = (0..now.len()).find(|socket| now[*socket] > before[*socket]) {
                return socket;
            }
            // The last packet of the handshake is on its way.
            std::thread::yield_now();
        }
    }

    fn connect_to(&mut self, socket_number: usize) -> usize {
        let client = socket(self.address);
        let host = SocketAddr::new(self.address.ip(), 0);
        rustix::net::bind(&client, &host).expect("bound");
        self.group.direct(local(&client), socket_number).expect("steered");
        self.connect_from(client)
    }
}

/// Whether the kernel is to take every program of ours: with CAP_BPF alone it takes some, and
/// refuses others with different errors.
fn has_privileges() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("told");
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("told");
    let held = u64::from_str_radix(held.trim(), 16).expect("a set");
    let has = |capability: u32| held & (1 << capability) != 0;
    // linux/capability.h: CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF.
    has(21) || (has(38) && has(39))
}

fn socket(address: SocketAddr) -> OwnedFd {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    rustix::net::socket(family, SocketType::STREAM, None).expect("a socket")
}

fn local(socket: &OwnedFd) -> SocketAddr {
    rustix::net::getsockname(socket).expect("a name").try_into().expect("an IP address")
}

#[test]
fn round_robin_uses_idle_workers_in_turn_and_falls_back_to_the_shared_socket() {
    let Some(mut rig) = Rig::on_ipv4(Selection::JoinIdle, 3, 1) else { return };
    let overflow = 3;
    assert_eq!(rig.connect(), overflow, "nobody is ready");
    (0..3).for_each(|slot| rig.open(slot));
    let got: Vec<usize> = (0..5).map(|_| rig.connect()).collect();
    assert_eq!(got, [0, 1, 2, overflow, overflow]);
    assert_eq!(rig.state(1), BusyState::Claimed);
    assert!(rig.group.records().repair(record(1, 0)));
    assert_eq!([rig.connect(), rig.connect()], [1, overflow]);
}

#[test]
fn an_idle_worker_keeps_getting_connections_during_the_stay() {
    // A program extends the sign, so this is longer than any clock counts.
    let Some(mut rig) = Rig::with_stay(3, u32::MAX) else { return };
    assert_eq!([rig.serve(), rig.serve(), rig.serve()], [0, 0, 0]);
    assert_eq!([rig.connect(), rig.serve(), rig.serve()], [0, 1, 1], "the first is busy now");
    let Some(mut rig) = Rig::with_stay(3, 1) else { return };
    let got: Vec<usize> = (0..5).map(|_| rig.serve()).collect();
    assert_eq!(got, [0, 1, 2, 0, 1]);
}

#[test]
fn an_ineligible_worker_gets_no_connections() {
    let Some(mut rig) = Rig::on_ipv4(Selection::RoundRobin, 4, 4) else { return };
    [0, 1, 3].into_iter().for_each(|slot| rig.open(slot));
    let got: Vec<usize> = (0..6).map(|_| rig.connect()).collect();
    assert_eq!(got, [0, 1, 3, 0, 1, 3]);
    rig.reset(0);
    rig.open(2);
    let got: Vec<usize> = (0..4).map(|_| rig.connect()).collect();
    assert_eq!(got, [1, 2, 3, 1]);
}

#[test]
fn random_selection_reaches_every_socket() {
    let mut rig = Rig::on_ipv4(Selection::Random, 4, 4).expect("classic programs are for all");
    // That one of four is missed by 200 has a chance of 1 in 10^24.
    for _ in 0..200 {
        rig.connect();
    }
    assert!(rig.waiting().iter().all(|waiting| *waiting > 0), "{:?}", rig.waiting());
}

#[test]
fn a_probe_reaches_its_socket() {
    let hosts = [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()];
    let has_ipv6 = std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    for host in hosts.into_iter().filter(|host: &SocketAddr| has_ipv6 || host.is_ipv4()) {
        for selection in
            [Selection::Kernel, Selection::Random, Selection::RoundRobin, Selection::JoinIdle]
        {
            let Some(mut rig) = Rig::new(selection, 5, 5, host) else { continue };
            (0..5).for_each(|slot| rig.open(slot));
            for target in [3, 0, 4, 2, 1, 1] {
                assert_eq!(rig.connect_to(target), target, "{selection:?} {host}");
            }
            // All others are chosen as ever.
            if selection == Selection::JoinIdle {
                let got: Vec<usize> = (0..6).map(|_| rig.connect()).collect();
                assert_eq!(got, [0, 1, 2, 3, 4, 5], "{host}");
            }
        }
    }
}

#[test]
fn one_socket_needs_no_program() {
    let plan = Plan::new(Selection::JoinIdle, 3, 1, 1).reduced();
    let prepared = LoadedSelection::new(plan, false).expect("no privilege");
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let address = listener.local_addr().expect("told");
    let group = prepared.join("shop", vec![listener.into()]).expect("joined");
    group.direct(address, 0).expect("nothing to do");
    let _client = TcpStream::connect(address).expect("connected");
    assert_eq!(group.slice(1).len(), 2);
}

#[test]
fn the_kernel_accepts_programs_for_any_number_of_workers() {
    for selection in [Selection::RoundRobin, Selection::JoinIdle] {
        for workers in [1, 2, 3, 100, PROCESSES_MAX as usize] {
            let plan = Plan::new(selection, workers, workers, 1);
            match LoadedSelection::new(plan, true) {
                Ok(_) => {}
                Err(refused) if !has_privileges() => eprintln!("SKIPPED: {refused}"),
                Err(refused) => panic!("{workers} workers: {refused}"),
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Connect,
    /// A worker has answered.
    Finish(usize),
    /// A worker is killed, with whatever its word says.
    Die(usize),
    Start(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = || 0..WORKERS;
    let step = prop_oneof![
        4 => Just(Step::Connect),
        2 => slot().prop_map(Step::Finish),
        1 => slot().prop_map(Step::Die),
        2 => slot().prop_map(Step::Start),
    ];
    prop::collection::vec(step, 1..40)
}

const WORKERS: usize = 5;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_connection_goes_to_an_idle_worker_if_there_is_one(steps in steps()) {
        let Some(mut rig) = Rig::on_ipv4(Selection::JoinIdle, WORKERS, 1) else { return Ok(()) };
        let mut idle = [false; WORKERS];
        let mut lives = [false; WORKERS];
        for step in steps {
            match step {
                Step::Connect => {
                    let socket = rig.connect();
                    if idle.contains(&true) {
                        prop_assert!(idle.get(socket) == Some(&true), "{} of {:?}", socket, idle);
                        prop_assert_eq!(rig.state(socket), BusyState::Claimed);
                        idle[socket] = false;
                    } else {
                        prop_assert_eq!(socket, WORKERS);
                    }
                }
                Step::Finish(slot) => {
                    rig.group.records().repair(record(slot, 0));
                    idle[slot] = lives[slot];
                }
                Step::Die(slot) => {
                    rig.reset(slot);
                    (idle[slot], lives[slot]) = (false, false);
                }
                Step::Start(slot) => {
                    rig.open(slot);
                    idle[slot] |= !lives[slot];
                    lives[slot] = true;
                }
            }
        }
    }
}
