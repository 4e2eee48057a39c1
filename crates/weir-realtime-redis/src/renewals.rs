//! Which channels to renew with a heartbeat, so that Redis does not forget quiet channels with
//! subscribers.

use std::time::Duration;

use tokio::time::Instant;
use weir_realtime::hub::HeldChannel;

/// Time between two rounds. A channel without events is kept for three of them.
const ROUND: Duration = Duration::from_secs(600);
/// Heartbeats over which a round is spread: six minutes. With 100,000 channels, each renews 250.
const STEPS: usize = 400;

/// The channels that are left in this round.
#[derive(Debug)]
pub(crate) struct Renewals {
    next_round: Instant,
    left: Vec<HeldChannel>,
    step: usize,
}

impl Renewals {
    /// Begins when all channels were compared, which renews them.
    pub(crate) fn new(now: Instant) -> Self {
        Self { next_round: now + ROUND, left: Vec::new(), step: 0 }
    }

    /// Returns the channels to renew now. `held` returns all channels.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        held: impl FnOnce() -> Vec<HeldChannel>,
    ) -> Vec<HeldChannel> {
        if self.left.is_empty() && now >= self.next_round {
            self.next_round = now + ROUND;
            self.left = held();
            self.step = self.left.len().div_ceil(STEPS);
        }
        let rest = self.left.len().saturating_sub(self.step);
        self.left.split_off(rest)
    }
}

#[cfg(test)]
mod tests {
    use weir_realtime::settings::HistoryLimits;
    use weir_realtime::shared_log::{ChannelKey, HeldMembers};

    use super::*;

    fn held(count: usize) -> Vec<HeldChannel> {
        let channel = |number: usize| HeldChannel {
            key: ChannelKey { app: "1".into(), channel: number.to_string().into() },
            position: None,
            history: HistoryLimits::default(),
            caches: false,
            members: HeldMembers::None,
            has_count: false,
        };
        (0..count).map(channel).collect()
    }

    #[tokio::test]
    async fn a_round_renews_each_channel_once() {
        let start = Instant::now();
        let mut renewals = Renewals::new(start);
        assert!(renewals.next(start, || held(9)).is_empty());
        let mut renewed = 0;
        for _ in 0..2 * STEPS {
            let next = renewals.next(start + ROUND, || held(1_000));
            assert!(next.len() <= 3);
            renewed += next.len();
        }
        assert_eq!(renewed, 1_000);
        assert_eq!(renewals.next(start + 2 * ROUND, || held(1)).len(), 1);
    }
}
