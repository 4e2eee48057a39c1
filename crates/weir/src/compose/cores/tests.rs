//! Whether a core that does not answer is noticed. One that has ended answers as little as one that
//! hangs; what hangs is tested where the cores are.

use crate::compose::tests::{PATIENCE, inherit, run, settings, tcp_socket};
use crate::compose::{Weir, ended};
use crate::parent::{FRONT, of_core};
use weir_config::part::Part;

#[test]
fn a_core_that_does_not_answer_is_named() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let inherited = inherit(vec![(of_core(FRONT, 0), tcp_socket().1)]);
        let (mut weir, mut unopened) =
            Weir::prepare(&settings, &[Part::Realtime], inherited).await.expect("sound");
        weir.serve(&settings, &mut unopened, || {}).await.expect("started");
        let told_to_end = weir.cores.as_ref().expect("it has a socket").stop.graceful.clone();
        assert_eq!(weir.silent(PATIENCE).await, [""; 0]);
        told_to_end.cancel();
        ended(&mut weir.cores).await;
        assert_eq!(weir.silent(PATIENCE).await, ["core 0 of the front"]);
    });
}
