//! Ports of processes that were killed a moment ago: the kernel may still be closing their sockets.

use std::time::Duration;

use weir_net::listener::ListenError;
use weir_net::{BindOptions, ListenAddress, Listener};

/// How often a port is tried.
const RETRY_EVERY: Duration = Duration::from_millis(20);

/// Binds like [`Listener::bind_group`]. A port that no process is seen to hold is waited for, for at most
/// `wait`: its owner is ending. One that a living process holds is an error at once.
pub(super) fn bind_group(
    address: &ListenAddress,
    count: usize,
    options: BindOptions,
    wait: Duration,
) -> Result<Vec<Listener>, ListenError> {
    let mut waited = Duration::ZERO;
    loop {
        match Listener::bind_group(address, count, options) {
            Err(ListenError::InUse { by, .. }) if by.is_empty() && waited < wait => {}
            bound => return bound,
        }
        if waited.is_zero() {
            let seconds = wait.as_secs_f64();
            tracing::warn!(
                %address,
                "the address is in use by an unknown process, perhaps a killed one that has not ended yet; retrying for {seconds} s (supervisor.advanced.orphan_wait)"
            );
        }
        std::thread::sleep(RETRY_EVERY);
        waited += RETRY_EVERY;
    }
}
