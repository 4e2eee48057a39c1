//! The constants of the rules, with their reasons.

use serde::Serialize;

/// The constants of the rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// How often the load is sampled.
    pub interval_seconds: f64,
    /// Without fresh data nothing changes for this long; then the static plan returns step by step.
    pub hold_for_seconds: f64,
    /// Recent values are averages over about this time: long enough for some jobs, short enough to act within a minute.
    pub recent_seconds: f64,
    /// Averages for estimates that need more jobs than those of `recent_seconds` are over about this time, since the last change
    /// of threads.
    pub longer_seconds: f64,
    /// A slowdown that exceeds `slowdown_high` by this many standard errors over `recent_seconds` is believed at once.
    pub certain_errors: f64,
    /// Normal values are averages over about this time.
    pub normal_seconds: f64,
    /// From this slowdown on the database has more sessions than it can serve at full speed ..
    pub slowdown_high: f64,
    /// .. below this one it has room for more ..
    pub slowdown_low: f64,
    /// .. both are higher by this many standard errors of the slowdown (0.13 if one class with 75 recent jobs decides) ..
    pub slowdown_errors: (f64, f64),
    /// .. and at most so high.
    pub slowdown_most: (f64, f64),
    /// Threads grow by this factor at a time.
    pub growth: f64,
    /// The same close to a number of threads that was too many before ..
    pub careful_growth: f64,
    /// .. which is remembered for this long.
    pub careful_for_seconds: f64,
    /// Threads shrink to this share at a time, at most.
    pub shrink_least: f64,
    /// Threads never shrink below this share of the static plan or those that the normal load keeps busy, whichever is less,
    /// because an estimate can be wrong for long; and never below the second share, which is the limit from `slowdown_certain` on.
    pub threads_least: (f64, f64),
    /// From this slowdown on, the database does not do less because it has fewer sessions.
    pub slowdown_saturated: f64,
    /// A slowdown that no wrong estimate of the normal time explains.
    pub slowdown_certain: f64,
    /// Sessions are reduced to those that the goodput explains, times this: the database must not run dry by chance.
    pub sessions_reserve: f64,
    /// More threads must gain this share of what they would gain if jobs ran as fast as before.
    pub gain_least: f64,
    /// Fewer threads may cost this share of the goodput.
    pub loss_most: f64,
    /// Reserved threads of a queue: this times those that it keeps busy ..
    pub guarantee_factor: f64,
    /// .. and this.
    pub guarantee_extra: f64,
    /// Targets of more run times than these need no reservation: threads become free in time. Half of the busy threads
    /// are reserved then.
    pub guarantee_tight: f64,
    /// Guarantees change when one of them is off by this share, so that chance moves none.
    pub guarantee_hysteresis: f64,
    /// Least certainty of sessions by class for a limit.
    pub confidence_least: f64,
    /// Least share of all sessions for a class to be the culprit.
    pub culprit_share: f64,
    /// A culprit's jobs take this many times longer than others' jobs do, each compared with its normal time.
    pub culprit_cost: f64,
    /// Share of the sessions that must wait for locks before their holder is limited.
    pub lock_share: f64,
    /// A limit is cut to this share at most.
    pub cap_cut: f64,
    /// A limit grows by 1 or by this factor, whichever is more ..
    pub cap_growth: f64,
    /// .. so often (GitLab's recovery).
    pub cap_growth_seconds: f64,
    /// The outcome of a change is judged after two run times, within these bounds.
    pub judged_after_seconds: (f64, f64),
    /// A change that did not help is not tried again for this long.
    pub refused_for_seconds: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval_seconds: 5.0,
            hold_for_seconds: 60.0,
            recent_seconds: 15.0,
            longer_seconds: 30.0,
            certain_errors: 5.0,
            normal_seconds: 1_800.0,
            slowdown_high: 1.1,
            slowdown_low: 1.05,
            slowdown_errors: (2.5, 1.0),
            slowdown_most: (3.0, 1.6),
            growth: 1.5,
            careful_growth: 1.1,
            careful_for_seconds: 900.0,
            shrink_least: 0.5,
            threads_least: (0.5, 0.1),
            slowdown_saturated: 1.5,
            slowdown_certain: 4.0,
            sessions_reserve: 1.02,
            gain_least: 0.2,
            loss_most: 0.1,
            guarantee_factor: 1.3,
            guarantee_extra: 0.5,
            guarantee_tight: 20.0,
            guarantee_hysteresis: 0.35,
            confidence_least: 0.7,
            culprit_share: 0.2,
            culprit_cost: 2.0,
            lock_share: 0.2,
            cap_cut: 0.5,
            cap_growth: 1.1,
            cap_growth_seconds: 60.0,
            judged_after_seconds: (15.0, 45.0),
            refused_for_seconds: 120.0,
        }
    }
}
