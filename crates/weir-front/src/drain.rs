//! The end of what has no end of its own: WebSockets and streams of events, when Weir ends.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// When Weir ends, streams end spread over a window, so that their clients don't come back in the
/// same moment.
#[derive(Clone, Debug)]
pub struct Drain {
    /// Weir is ending.
    pub begun: CancellationToken,
    /// How long the ends are spread over.
    pub window: Duration,
}

impl Drain {
    /// Resolves when it is a stream's turn to end.
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
