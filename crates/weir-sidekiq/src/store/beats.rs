//! The latest BEAT of each worker, which the nodes share: the connections of a worker may be spread over the nodes, and
//! a BEAT reaches one of them.

use std::rc::Rc;
use std::time::Duration;

use redis::ScriptInvocation;
use weir_jobs::model::Wid;
use weir_jobs::store::StoreError;

use super::store_core::StoreCore;

/// Redis forgets a beat after this time. `jobs.limits.heartbeat_timeout` can't be longer.
const BEATS_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// Workers in one call. For 500, the script occupies Redis for 2 to 3 ms.
const WORKERS_PER_CALL: usize = 200;

impl StoreCore {
    /// Stores how long ago workers sent a BEAT to this node, and returns how long ago those of `overdue` sent one to any
    /// node.
    pub(super) async fn exchange_beats(
        self: &Rc<Self>,
        received: &[(Wid, Duration)],
        overdue: &[Wid],
    ) -> Result<Vec<(Wid, Duration)>, StoreError> {
        for some in received.chunks(WORKERS_PER_CALL) {
            self.call_beats(some, &[]).await?;
        }
        let mut known = Vec::new();
        for some in overdue.chunks(WORKERS_PER_CALL) {
            let ages = self.call_beats(&[], some).await?;
            let ages =
                ages.into_iter().map(|age| u64::try_from(age).ok().map(Duration::from_millis));
            known.extend(some.iter().zip(ages).filter_map(|(wid, age)| Some((wid.clone(), age?))));
        }
        Ok(known)
    }

    /// Returns the ages in milliseconds, negative if there is no beat.
    async fn call_beats(
        self: &Rc<Self>,
        received: &[(Wid, Duration)],
        overdue: &[Wid],
    ) -> Result<Vec<i64>, StoreError> {
        let mut connection = self.ready().await?;
        let mut invocation: ScriptInvocation<'_> = self.scripts.beats.key(self.beats_key());
        invocation.arg(BEATS_KEPT.as_secs()).arg(received.len());
        for (wid, age) in received {
            let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            invocation.arg(wid.as_str()).arg(age_ms);
        }
        for wid in overdue {
            invocation.arg(wid.as_str());
        }
        let ages: Result<Vec<i64>, _> = invocation.invoke_async(&mut connection).await;
        ages.map_err(|error| self.link.failed(&error))
    }
}
