use std::time::Duration;

use weir_net::server::CoreIndex;

use super::echo::{Server, Setup, wait_until};

/// How long a core may take to respond to one query; the tests query repeatedly.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(100);

fn unresponsive(server: &Server) -> Vec<CoreIndex> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(server.running.liveness().unresponsive(RESPONSE_TIMEOUT))
}

#[test]
fn a_hanging_core_is_reported_until_it_responds() {
    let server = Setup { cores: 2, ..Setup::default() }.start();
    wait_until("both answer", || unresponsive(&server).is_empty());
    let mut client = server.connect();
    client.send("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n");
    server.wait_until_requested("GET /hang");
    // On a busy machine both may be late; the one that hangs always is.
    let mut hanging = Vec::new();
    wait_until("one of them is silent", || {
        hanging = unresponsive(&server);
        hanging.len() == 1
    });
    server.released.cancel();
    assert_eq!(vec![core_of(&client.read_response().1)], hanging);
    wait_until("both answer again", || unresponsive(&server).is_empty());
}

/// The end of the service's answer: `core=1`.
fn core_of(answer: &str) -> CoreIndex {
    let (_, core) = answer.split_once("core=").expect("a core");
    CoreIndex(core.parse().expect("a number"))
}

#[test]
fn a_core_that_waits_for_clients_is_responsive() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    server.wait_until_requested("GET /slow");
    server.stop.graceful.cancel();
    server.wait_until_refused();
    wait_until("it answers while it ends", || unresponsive(&server).is_empty());
}
