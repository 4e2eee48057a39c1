//! Login sessions: random cookies in memory, limited in number, idle time and age. They end with
//! the process.

use std::collections::HashMap;
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::token;

/// The sessions of one console.
#[derive(Debug)]
pub(crate) struct Sessions {
    sessions_max: usize,
    idle_max: Duration,
    age_max: Duration,
    by_id: HashMap<String, LoginSession>,
}

/// A new session.
#[derive(Debug)]
pub(crate) struct NewSession {
    pub(crate) id: String,
    /// Valid sessions that were ended to make room.
    pub(crate) others_ended: usize,
}

#[derive(Debug)]
struct LoginSession {
    csrf: String,
    began_at: Timestamp,
    used_at: Timestamp,
}

impl Sessions {
    pub(crate) fn new(sessions_max: usize, idle_max: Duration, age_max: Duration) -> Self {
        Self { sessions_max, idle_max, age_max, by_id: HashMap::new() }
    }

    /// Begins a session. At the limit `sessions_max`, the session with the longest idle time ends.
    pub(crate) fn begin(&mut self, now: Timestamp) -> NewSession {
        let mut others_ended = 0;
        if self.by_id.len() >= self.sessions_max {
            self.end_dead(now);
        }
        while self.by_id.len() >= self.sessions_max {
            let idlest = self.by_id.iter().min_by_key(|(_, session)| session.used_at);
            let Some(id) = idlest.map(|(id, _)| id.clone()) else {
                break;
            };
            self.by_id.remove(&id);
            others_ended += 1;
        }
        let id = token::random();
        let session = LoginSession { csrf: token::random(), began_at: now, used_at: now };
        self.by_id.insert(id.clone(), session);
        NewSession { id, others_ended }
    }

    /// Returns the CSRF token of a valid session, and marks the session as used now.
    pub(crate) fn csrf(&mut self, id: &str, now: Timestamp) -> Option<String> {
        let (idle_max, age_max) = (self.idle_max, self.age_max);
        let session = self.by_id.get_mut(id)?;
        if !session.is_alive(now, idle_max, age_max) {
            self.by_id.remove(id);
            return None;
        }
        session.used_at = now;
        Some(session.csrf.clone())
    }

    pub(crate) fn end(&mut self, id: &str) {
        self.by_id.remove(id);
    }

    fn end_dead(&mut self, now: Timestamp) {
        let (idle_max, age_max) = (self.idle_max, self.age_max);
        self.by_id.retain(|_, session| session.is_alive(now, idle_max, age_max));
    }
}

impl LoginSession {
    fn is_alive(&self, now: Timestamp, idle_max: Duration, age_max: Duration) -> bool {
        now.since(self.used_at) < idle_max && now.since(self.began_at) < age_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn sessions(max: usize) -> Sessions {
        Sessions::new(max, Duration::from_secs(10), Duration::from_secs(25))
    }

    #[test]
    fn a_session_expires_when_idle_or_old() {
        let mut all = sessions(10);
        let id = all.begin(at(0)).id;
        assert!(all.csrf(&id, at(9)).is_some());
        assert!(all.csrf(&id, at(18)).is_some());
        assert!(all.csrf(&id, at(25)).is_none(), "old");
        let id = all.begin(at(100)).id;
        assert!(all.csrf(&id, at(110)).is_none(), "idle");
    }

    #[test]
    fn a_session_over_the_limit_ends_the_most_idle_one() {
        let mut all = sessions(2);
        let (first, second) = (all.begin(at(0)).id, all.begin(at(1)).id);
        assert!(all.csrf(&first, at(2)).is_some());
        let third = all.begin(at(3));
        assert_eq!(third.others_ended, 1);
        let third = third.id;
        assert!(all.csrf(&second, at(3)).is_none());
        assert!(all.csrf(&first, at(3)).is_some() && all.csrf(&third, at(3)).is_some());
    }

    #[test]
    fn an_ended_session_is_removed() {
        let mut all = sessions(2);
        let id = all.begin(at(0)).id;
        all.end(&id);
        assert!(all.csrf(&id, at(0)).is_none());
        assert!(all.csrf("", at(0)).is_none());
    }
}
