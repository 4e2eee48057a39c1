//! A timer for a deadline that moves.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is armed again only when it has fired, or for an earlier deadline. So requests on a
/// busy connection do not touch it. It may wake its task early, never late.
#[derive(Debug, Default)]
pub(super) struct RearmingTimer {
    /// None: it was never armed.
    timer: Option<Pin<Box<Sleep>>>,
}

impl RearmingTimer {
    /// Resolves once `deadline` has passed. A call with another deadline replaces it.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let is_new = self.timer.is_none();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        // The timer has the task's waker and fires before the deadline, so it need not be polled.
        if !is_new && !timer.is_elapsed() && timer.deadline() <= deadline {
            return Poll::Pending;
        }
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.deadline() < deadline {
            ready!(timer.as_mut().poll(context));
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    const STEP: Duration = Duration::from_secs(1);

    async fn is_over(patience: &mut RearmingTimer, deadline: Instant) -> bool {
        poll_fn(|context| Poll::Ready(patience.poll(context, deadline).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_deadline_can_move_in_both_directions() {
        let (start, mut patience) = (Instant::now(), RearmingTimer::default());
        assert!(!is_over(&mut patience, start + 3 * STEP).await);
        assert!(!is_over(&mut patience, start + 6 * STEP).await);
        advance(4 * STEP).await;
        assert!(!is_over(&mut patience, start + 6 * STEP).await, "the first one rang in vain");
        advance(2 * STEP).await;
        assert!(is_over(&mut patience, start + 6 * STEP).await);

        let (start, mut patience) = (Instant::now(), RearmingTimer::default());
        assert!(!is_over(&mut patience, start + 6 * STEP).await);
        assert!(!is_over(&mut patience, start + 3 * STEP).await);
        advance(3 * STEP).await;
        assert!(is_over(&mut patience, start + 3 * STEP).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_moved_deadline_still_wakes_its_waiter() {
        let (start, mut patience) = (Instant::now(), RearmingTimer::default());
        assert!(!is_over(&mut patience, start + STEP).await);
        poll_fn(|context| patience.poll(context, start + 5 * STEP)).await;
        assert_eq!(Instant::now(), start + 5 * STEP);
    }
}
