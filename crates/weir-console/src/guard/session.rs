//! Login sessions: random cookies in memory, limited in number, idle time and age. They end with
//! the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::accounts::LoginProof;
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

/// A valid session.
#[derive(Clone, Debug)]
pub(crate) struct FoundSession {
    /// The token that its forms carry.
    pub(crate) csrf: String,
    pub(crate) login: LoginProof,
}

/// The sessions of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UserSessions {
    pub(crate) count: usize,
    pub(crate) used_at: Timestamp,
}

#[derive(Debug)]
struct LoginSession {
    csrf: String,
    login: LoginProof,
    began_at: Timestamp,
    used_at: Timestamp,
}

impl Sessions {
    pub(crate) fn new(sessions_max: usize, idle_max: Duration, age_max: Duration) -> Self {
        Self { sessions_max, idle_max, age_max, by_id: HashMap::new() }
    }

    /// Begins a session. At the limit `sessions_max`, the session with the longest idle time ends.
    pub(crate) fn begin(&mut self, login: LoginProof, now: Timestamp) -> NewSession {
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
        let session = LoginSession { csrf: token::random(), login, began_at: now, used_at: now };
        self.by_id.insert(id.clone(), session);
        NewSession { id, others_ended }
    }

    /// Returns a valid session, and marks it as used now.
    pub(crate) fn find(&mut self, id: &str, now: Timestamp) -> Option<FoundSession> {
        let (idle_max, age_max) = (self.idle_max, self.age_max);
        let session = self.by_id.get_mut(id)?;
        if !session.is_alive(now, idle_max, age_max) {
            self.by_id.remove(id);
            return None;
        }
        session.used_at = now;
        Some(FoundSession { csrf: session.csrf.clone(), login: session.login.clone() })
    }

    /// Returns the valid sessions of each user.
    pub(crate) fn by_user(&self, now: Timestamp) -> BTreeMap<Arc<str>, UserSessions> {
        let mut users: BTreeMap<Arc<str>, UserSessions> = BTreeMap::new();
        let is_alive = |session: &&LoginSession| session.is_alive(now, self.idle_max, self.age_max);
        for session in self.by_id.values().filter(is_alive) {
            let user = users.entry(Arc::clone(&session.login.identity.name)).or_default();
            user.count += 1;
            user.used_at = user.used_at.max(session.used_at);
        }
        users
    }

    /// Ends all sessions of a user, and returns their number.
    pub(crate) fn end_all_of(&mut self, user: &str) -> usize {
        let before = self.by_id.len();
        self.by_id.retain(|_, session| &*session.login.identity.name != user);
        before - self.by_id.len()
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

    fn login() -> LoginProof {
        let password = Some(weir_base::secret::Secret::new("x"));
        let settings = crate::settings::ConsoleSettings { password, ..Default::default() };
        crate::guard::accounts::Accounts::new(&settings).proof("").unwrap()
    }

    fn sessions(max: usize) -> Sessions {
        Sessions::new(max, Duration::from_secs(10), Duration::from_secs(25))
    }

    #[test]
    fn a_session_expires_when_idle_or_old() {
        let mut all = sessions(10);
        let id = all.begin(login(), at(0)).id;
        assert!(all.find(&id, at(9)).is_some());
        assert!(all.find(&id, at(18)).is_some());
        assert!(all.find(&id, at(25)).is_none(), "old");
        let id = all.begin(login(), at(100)).id;
        assert!(all.find(&id, at(110)).is_none(), "idle");
    }

    #[test]
    fn a_session_over_the_limit_ends_the_most_idle_one() {
        let mut all = sessions(2);
        let (first, second) = (all.begin(login(), at(0)).id, all.begin(login(), at(1)).id);
        assert!(all.find(&first, at(2)).is_some());
        let third = all.begin(login(), at(3));
        assert_eq!(third.others_ended, 1);
        let third = third.id;
        assert!(all.find(&second, at(3)).is_none());
        assert!(all.find(&first, at(3)).is_some() && all.find(&third, at(3)).is_some());
    }

    #[test]
    fn an_ended_session_is_removed() {
        let mut all = sessions(2);
        let id = all.begin(login(), at(0)).id;
        all.end(&id);
        assert!(all.find(&id, at(0)).is_none());
        assert!(all.find("", at(0)).is_none());
    }

    #[test]
    fn the_sessions_of_a_user_are_counted_and_ended() {
        let mut all = sessions(10);
        let (first, second) = (all.begin(login(), at(0)).id, all.begin(login(), at(5)).id);
        let user = all.by_user(at(6))["admin"];
        assert_eq!(user, UserSessions { count: 2, used_at: at(5) });
        assert_eq!(all.by_user(at(11))["admin"].count, 1, "the first is idle for too long");
        assert_eq!((all.end_all_of("ann"), all.end_all_of("admin")), (0, 2));
        assert!(all.find(&first, at(6)).is_none() && all.find(&second, at(6)).is_none());
    }
}
