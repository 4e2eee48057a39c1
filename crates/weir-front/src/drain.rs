//! Closing WebSockets and event streams at shutdown, because they have no end of their own.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The shutdown of streams. Their ends are spread over a window, so that clients do not all
/// reconnect in the same moment.
#[derive(Clone, Debug)]
pub struct Drain {
    /// Cancelled when the shutdown begins.
    pub begun: CancellationToken,
    /// The window over which the ends are spread.
    pub window: Duration,
}

impl Drain {
    /// Resolves at a random time within the window after the shutdown has begun.
    pub(crate) async fn turn(self) {
        self.begun.cancelled().await;
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
    async fn turns_are_spread_over_the_window_and_begin_with_the_end() {
        let drain = Drain { begun: CancellationToken::new(), window: WINDOW };
        assert!(timeout(100 * WINDOW, drain.clone().turn()).await.is_err(), "not before");
        drain.begun.cancel();
        let began = Instant::now();
        let mut turns = JoinSet::new();
        for _ in 0..100 {
            let turn = drain.clone().turn();
            turns.spawn(async move {
                turn.await;
                began.elapsed()
            });
        }
        let ends = turns.join_all().await;
        let (first, last) = (ends.iter().min().expect("some"), ends.iter().max().expect("some"));
        assert!(*last <= WINDOW + Duration::from_millis(1) && *last - *first > WINDOW / 2);
    }
}
