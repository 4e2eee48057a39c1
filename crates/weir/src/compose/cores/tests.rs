//! Tests that unresponsive cores are reported. An ended core stands for one that hangs; hanging
//! cores are tested in weir-net.

use crate::compose::tests::{TIMEOUT, inherit, run, settings, tcp_socket};
use crate::compose::{Weir, ended};
use crate::parent::{FRONT, core_socket_name};
use weir_config::part::Part;

#[test]
fn unresponsive_cores_are_reported() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let inherited = inherit(vec![(core_socket_name(FRONT, 0), tcp_socket().1)]);
        let (mut weir, mut unopened) =
            Weir::prepare(&settings, &[Part::Realtime], inherited).await.expect("sound");
        weir.serve(&settings, &mut unopened, || {}).await.expect("started");
        let stop = weir.cores.as_ref().expect("it has a socket").stop.graceful.clone();
        assert_eq!(weir.unresponsive_parts(TIMEOUT).await, [""; 0]);
        stop.cancel();
        ended(&mut weir.cores).await;
        assert_eq!(weir.unresponsive_parts(TIMEOUT).await, ["core 0 of the front"]);
    });
}
