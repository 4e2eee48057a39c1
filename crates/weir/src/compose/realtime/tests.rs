//! Whether a core that does not answer is noticed. One that has ended answers as little as one that
//! hangs; what hangs is tested where the cores are.

use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::shutdown::Shutdown;

use super::Realtime;
use crate::compose::tests::{PATIENCE, inherit, run, settings, tcp_socket};
use crate::compose::{Weir, ended};
use crate::parent::{FRONT, of_core};

#[test]
fn a_core_that_does_not_answer_is_named() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let mut inherited = inherit(vec![(of_core(FRONT, 0), tcp_socket().1)]);
        let clock = Clock::system();
        let started =
            Realtime::start(&settings, &mut inherited, &mut Registry::default(), &clock).await;
        let realtime = started.expect("started").expect("it has a socket");
        let told_to_end = realtime.stop.graceful.clone();
        let mut weir = Weir { clock, jobs: None, realtime: Some(realtime), http: Shutdown::new() };
        assert_eq!(weir.silent(PATIENCE).await, [""; 0]);
        told_to_end.cancel();
        ended(&mut weir.realtime).await;
        assert_eq!(weir.silent(PATIENCE).await, ["core 0 of the front"]);
    });
}
