//! Ports of processes that were just killed: the kernel may still be closing their sockets.

use std::time::Duration;

use weir_net::listener::ListenError;
use weir_net::{BindOptions, ListenAddress, Listener};

/// Interval of attempts to bind a port.
const RETRY_EVERY: Duration = Duration::from_millis(20);

/// Binds like [`Listener::bind_group`]. If no process visibly holds the port, its owner is ending,
/// and the port is retried for at most `wait`. A port of a living process is an error at once.
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
