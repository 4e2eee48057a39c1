//! The lease that lets one autopilot act: its rules, without a clock and without a store.
//!
//! Times are seconds on a clock that never steps. The holder counts its time from before the request to the store, and
//! uses only a part of it ([`MARGIN`]), so that it stops before the store lets another one take the lease. Who takes a
//! lease acts only after one more time of it: the store may have lost the lease (a restart without its data, a failover,
//! an eviction), and its holder notices that only when it renews. So two act at once only if the store loses the lease
//! twice within twice its time.

use std::fmt::Write;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Renewals within the time of a lease: two may fail.
pub const RENEWALS: u32 = 4;
/// The share of its time that a holder does not use: for clocks of different speed, and for a change in progress.
pub const MARGIN: f64 = 0.25;
/// Characters of the name of a holder.
const HOLDER_CHARACTERS_MAX: usize = 200;

/// Who takes a lease, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseClaim {
    /// A number that no other process has: who holds the lease is compared by it.
    pub token: String,
    /// The holder for people: without spaces at its ends, quotes, backslashes or control characters.
    pub holder: String,
    /// The time of the lease from each renewal on.
    pub lifetime: Duration,
}

/// What the store of a lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseReply {
    /// The lease was taken or renewed.
    Held,
    /// Another one holds it.
    HeldBy {
        /// Its name.
        holder: String,
    },
}

/// What is known of the lease.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lease {
    lifetime_seconds: f64,
    /// This process may act until then. `None`: it does not hold the lease.
    own_until_seconds: Option<f64>,
    /// An earlier holder may act until then.
    acts_from_seconds: f64,
    other: Option<String>,
    problem: Option<String>,
}

/// Who may act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseState {
    /// This autopilot.
    Held,
    /// This autopilot, once an earlier holder has stopped for certain.
    Waiting,
    /// Another one.
    Other,
    /// Not known: the store does not reply, or rejects the request.
    #[default]
    Unknown,
}

impl LeaseState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Held, Self::Waiting, Self::Other, Self::Unknown];

    /// The name in JSON and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

impl LeaseClaim {
    /// Creates a claim under a new token. `machine` and `data_dir` make the holder's name.
    #[must_use]
    pub fn new(machine: &str, data_dir: &str, lifetime: Duration) -> Self {
        let mut token = String::new();
        for _ in 0..2 {
            let _ = write!(token, "{:016x}", fastrand::u64(..));
        }
        Self { token, holder: holder(&format!("{machine}:{data_dir}")), lifetime }
    }
}

/// Returns the name of a holder, which may come from anyone who can write to the store.
#[must_use]
pub fn holder(name: &str) -> String {
    let is_plain = |letter: &char| !letter.is_control() && !"'\"\\".contains(*letter);
    let name: String = name.chars().filter(is_plain).take(HOLDER_CHARACTERS_MAX).collect();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

impl Lease {
    /// A lease that is not held.
    #[must_use]
    pub fn new(lifetime: Duration) -> Self {
        Self { lifetime_seconds: lifetime.as_secs_f64(), ..Self::default() }
    }

    /// Notes what the store has said to a request that was sent at `asked_seconds`.
    pub fn note_reply(&mut self, asked_seconds: f64, now_seconds: f64, reply: LeaseReply) {
        self.problem = None;
        match reply {
            LeaseReply::Held => {
                if self.own_until_seconds.is_none_or(|until| until <= now_seconds) {
                    // It was not held until now, and an earlier holder may not know yet that it has lost it.
                    self.acts_from_seconds = now_seconds + self.lifetime_seconds;
                }
                self.other = None;
                let used = self.lifetime_seconds * (1.0 - MARGIN);
                self.own_until_seconds = Some(asked_seconds + used);
            }
            LeaseReply::HeldBy { holder } => {
                self.own_until_seconds = None;
                self.other = Some(holder);
            }
        }
    }

    /// Notes that the store did not reply, or rejected the request. What is held stays held until it ends.
    pub fn note_error(&mut self, error: String) {
        self.problem = Some(error);
    }

    /// Returns whether this process may change anything.
    #[must_use]
    pub fn may_act(&self, now_seconds: f64) -> bool {
        self.state(now_seconds) == LeaseState::Held
    }

    /// Returns who may act.
    #[must_use]
    pub fn state(&self, now_seconds: f64) -> LeaseState {
        let is_own = self.own_until_seconds.is_some_and(|until| now_seconds < until);
        match (is_own, &self.other) {
            (true, _) if now_seconds < self.acts_from_seconds => LeaseState::Waiting,
            (true, _) => LeaseState::Held,
            (false, Some(_)) if self.problem.is_none() => LeaseState::Other,
            (false, _) => LeaseState::Unknown,
        }
    }

    /// Returns the last holder that is known and is not this process.
    #[must_use]
    pub fn other(&self) -> Option<&str> {
        self.other.as_deref()
    }

    /// Returns why the store does not say who holds the lease.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Says in one sentence who may act. `store` is where the lease is.
    #[must_use]
    pub fn sentence(&self, store: &str, now_seconds: f64) -> String {
        match (self.state(now_seconds), self.other(), self.problem()) {
            (LeaseState::Held, ..) => {
                format!("this autopilot holds the lease in {store}, and acts")
            }
            (LeaseState::Waiting, ..) => format!(
                "this autopilot holds the lease in {store}, and acts once an earlier holder has stopped for certain, within \
                 {:.0} s",
                self.lifetime_seconds
            ),
            (LeaseState::Other, holder, _) => format!(
                "{} holds the lease in {store}: this autopilot only advises",
                holder.unwrap_or("another autopilot")
            ),
            (LeaseState::Unknown, _, Some(problem)) => format!(
                "the lease in {store} cannot be taken, so this autopilot only advises: {problem}"
            ),
            (LeaseState::Unknown, _, None) => {
                format!(
                    "the lease in {store} is being taken; until then this autopilot only advises"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(20);

    fn held_by_another() -> LeaseReply {
        LeaseReply::HeldBy { holder: "web-2".to_owned() }
    }

    /// One that has been renewed for long, the last time at `asked`.
    fn held(asked: f64) -> Lease {
        let mut lease = Lease::new(LIFETIME);
        for renewed in [40.0, 30.0, 20.0, 10.0, 0.0].map(|ago| asked - ago) {
            lease.note_reply(renewed, renewed + 0.1, LeaseReply::Held);
        }
        lease
    }

    #[test]
    fn a_holder_acts_until_shortly_before_its_lease_ends() {
        let lease = held(100.0);
        // Counted from the request, and less a quarter.
        assert!(lease.may_act(114.9) && !lease.may_act(115.0));
        assert_eq!(lease.state(115.0), LeaseState::Unknown);
    }

    #[test]
    fn an_error_ends_nothing_before_its_time() {
        let mut lease = held(100.0);
        lease.note_error("is away".to_owned());
        assert!(lease.may_act(114.9) && !lease.may_act(115.0));
        let text = lease.sentence("Redis a:1", 115.0);
        let expected =
            "the lease in Redis a:1 cannot be taken, so this autopilot only advises: is away";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_lease_is_used_after_an_earlier_holder_has_stopped() {
        let mut lease = Lease::new(LIFETIME);
        lease.note_reply(0.0, 0.1, held_by_another());
        assert_eq!((lease.state(0.1), lease.other()), (LeaseState::Other, Some("web-2")));
        for asked in [5.0, 10.0, 15.0, 20.0] {
            lease.note_reply(asked, asked, LeaseReply::Held);
            assert_eq!(lease.state(asked + 0.1), LeaseState::Waiting, "{asked}");
            assert_eq!(lease.other(), None);
        }
        assert!(!lease.may_act(24.9) && lease.may_act(25.0));
    }

    #[test]
    fn a_lease_that_is_lost_ends_at_once_and_one_that_was_over_is_waited_for() {
        let mut lease = held(100.0);
        lease.note_reply(105.0, 105.1, held_by_another());
        assert!(!lease.may_act(105.1));
        let mut lease = held(100.0);
        lease.note_reply(130.0, 130.1, LeaseReply::Held);
        assert_eq!(lease.state(130.1), LeaseState::Waiting);
        lease.note_reply(140.0, 140.1, LeaseReply::Held);
        assert!(!lease.may_act(150.0) && lease.may_act(150.1));
    }

    /// Three processes on a store that loses the lease now and then: at no time do two of them act.
    #[test]
    fn two_never_act_at_once_whichever_requests_fail_and_whenever_the_store_loses_the_lease() {
        let lifetime = LIFETIME.as_secs_f64();
        let mut acted = [0_u32; 3];
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut stored: Option<(usize, f64)> = None;
            let mut leases = [(); 3].map(|()| Lease::new(LIFETIME));
            let (mut lost_at, mut dead) = (f64::NEG_INFINITY, [0.0; 3]);
            for tick in 0..1_000_u32 {
                let now = f64::from(tick) * 0.5;
                stored = stored.filter(|(_, until)| *until > now);
                if now - lost_at > 2.0 * lifetime && random.u8(..50) == 0 {
                    (stored, lost_at) = (None, now);
                }
                for own in 0..3 {
                    if random.u16(..400) == 0 {
                        // The network is away, or the process stands still.
                        dead[own] = now + f64::from(random.u8(..60));
                    }
                    if now < dead[own] || random.u8(..6) > 0 {
                        continue;
                    }
                    let reply = match stored {
                        Some((other, _)) if other != own => {
                            LeaseReply::HeldBy { holder: other.to_string() }
                        }
                        _ => LeaseReply::Held,
                    };
                    if reply == LeaseReply::Held {
                        stored = Some((own, now + lifetime));
                    }
                    match random.u8(..10) {
                        0 => leases[own].note_error("the reply is lost".to_owned()),
                        _ => leases[own].note_reply(now - 0.4, now, reply),
                    }
                }
                let acts = [0, 1, 2].map(|own| leases[own].may_act(now));
                let count = acts.iter().filter(|acts| **acts).count();
                assert!(count <= 1, "seed {seed}, {now} s: {leases:?}");
                for (own, acts) in acts.into_iter().enumerate() {
                    acted[own] += u32::from(acts);
                }
            }
        }
        assert!(acted.iter().all(|times| *times > 10_000), "{acted:?}");
    }

    #[test]
    fn names_of_holders_are_short_and_harmless() {
        assert_eq!(holder(" web-1:/var/lib/o'weir\\\n"), "web-1:/var/lib/oweir");
        assert_eq!(holder("\u{1b}"), "unknown");
        assert_eq!(holder(&"é".repeat(999)).chars().count(), HOLDER_CHARACTERS_MAX);
        let (one, other) = (claim(), claim());
        assert!(one.token != other.token && one.token.len() == 32, "{one:?}");
    }

    fn claim() -> LeaseClaim {
        LeaseClaim::new("web-1", "/var/lib/weir", LIFETIME)
    }
}
