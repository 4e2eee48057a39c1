//! Closing WebSockets and event streams at shutdown, because they have no end of their own.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The shutdown of streams. Their ends are spread over a window, so that clients do not all
/// reconnect in the same moment.
#[derive(Clone, Debug)]
pub struct Drain {
    /// Cancelled when the shutdown begins.
    pub started: CancellationToken,
    /// The window over which the ends are spread.
    pub window: Duration,
}

impl Drain {
    /// Resolves at a random time within the window after the shutdown has begun.
    pub(crate) async fn wait_random_time(self) {
        self.started.cancelled().await;
        sleep(self.window.mul_f64(fastrand::f64())).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;
    use tokio::time::{Instant, timeout};

    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn stream_ends_are_spread_over_the_drain_window() {
        let drain = Drain { started: CancellationToken::new(), window: WINDOW };
        assert!(
            timeout(100 * WINDOW, drain.clone().wait_random_time()).await.is_err(),
            "not before"
        );
        drain.started.cancel();
        let began = Instant::now();
        let mut turns = JoinSet::new();
        for _ in 0..100 {
            let wait_random_time = drain.clone().wait_random_time();
            turns.spawn(async move {
                wait_random_time.await;
                began.elapsed()
            });
        }
        let ends = turns.join_all().await;
        let (first, last) = (ends.iter().min().expect("some"), ends.iter().max().expect("some"));
        assert!(*last <= WINDOW + Duration::from_millis(1) && *last - *first > WINDOW / 2);
    }
}
