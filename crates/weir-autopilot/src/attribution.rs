//! Which class of jobs a database session belongs to: by a comment of its statement, else by its `application_name`,
//! else by a regression of the busy sessions on the jobs in progress.

use std::collections::{BTreeSet, HashMap, VecDeque};

use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_control::estimate::attribute;

use crate::load::{DatabaseActivity, SessionFigures};
use crate::roster::{LiveRoster, OTHER_CLASSES, OTHER_SESSIONS};

/// A way of attribution that worked is used for this long after the last session that it named.
const METHOD_SECONDS: f64 = 300.0;
/// Samples of the regression: ten minutes, with the default interval.
const REGRESSION_SAMPLES: usize = 120;
/// Classes of the regression: it needs twice as many samples.
const REGRESSION_CLASSES: usize = 20;
/// Sessions in a chain of waits that are followed.
const CHAIN_MAX: usize = 64;

/// How sessions are attributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttributionMethod {
    /// By comments in statements.
    Comments,
    /// By `application_name`.
    Names,
    /// By a regression.
    #[default]
    Regression,
}

impl AttributionMethod {
    /// Returns the method for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Comments => "query comments",
            Self::Names => "application_name",
            Self::Regression => "a regression on the jobs in progress",
        }
    }
}

/// Sessions by class, on average.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionsByClass {
    /// Busy sessions that wait for no lock.
    pub sessions: Vec<f64>,
    /// Sessions that are idle in a transaction for long.
    pub idle: Vec<f64>,
    /// Sessions that wait for a lock which the class holds.
    pub blocks: Vec<f64>,
    /// Sessions that wait for a lock.
    pub lock_waits: f64,
    /// How certain this is, 0 to 1.
    pub confidence: f64,
    /// How it was found out.
    pub method: AttributionMethod,
}

/// Attributes sessions, and remembers how.
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    comments_at_seconds: Option<f64>,
    names_at_seconds: Option<f64>,
    regression: VecDeque<(Vec<f64>, f64)>,
}

impl Attribution {
    /// Attributes the sessions of some samples. `in_flight` has the jobs in progress by class.
    pub fn attribute(
        &mut self,
        at_seconds: f64,
        activities: &[DatabaseActivity],
        in_flight: &[f64],
        roster: &LiveRoster,
    ) -> SessionsByClass {
        self.note_method(at_seconds, activities, roster);
        let method = self.method(at_seconds);
        let classes = roster.roster().classes.len();
        let mut sums = SessionsByClass {
            sessions: vec![0.0; classes],
            idle: vec![0.0; classes],
            blocks: vec![0.0; classes],
            method,
            ..SessionsByClass::default()
        };
        let share = 1.0 / (activities.len() as f64).max(1.0);
        for activity in activities {
            add(&mut sums, activity, roster, share);
        }
        match method {
            AttributionMethod::Comments => sums.confidence = 1.0,
            AttributionMethod::Names => sums.confidence = 0.9,
            AttributionMethod::Regression => self.regress(&mut sums, in_flight),
        }
        sums
    }

    fn note_method(
        &mut self,
        at_seconds: f64,
        activities: &[DatabaseActivity],
        roster: &LiveRoster,
    ) {
        let mut sessions = activities.iter().flat_map(|activity| &activity.sessions);
        if sessions.clone().any(|session| session.comment.is_some()) {
            self.comments_at_seconds = Some(at_seconds);
        }
        if sessions.any(|session| class_of_name(session, roster).is_some()) {
            self.names_at_seconds = Some(at_seconds);
        }
    }

    fn method(&self, at_seconds: f64) -> AttributionMethod {
        let is_recent =
            |seen: Option<f64>| seen.is_some_and(|seen| at_seconds - seen < METHOD_SECONDS);
        if is_recent(self.comments_at_seconds) {
            AttributionMethod::Comments
        } else if is_recent(self.names_at_seconds) {
            AttributionMethod::Names
        } else {
            AttributionMethod::Regression
        }
    }

    /// Moves the sessions that nothing names from the others to the classes whose jobs explain them.
    fn regress(&mut self, sums: &mut SessionsByClass, in_flight: &[f64]) {
        let unnamed = sums.sessions.get(OTHER_SESSIONS).copied().unwrap_or_default();
        self.regression.push_back((in_flight.to_vec(), unnamed));
        if self.regression.len() > REGRESSION_SAMPLES {
            self.regression.pop_front();
        }
        let columns = self.columns();
        // The last column is constant: sessions of other programs.
        let value = |jobs: &[f64], class: usize| jobs.get(class).copied().unwrap_or_default();
        let rows = self.regression.iter().map(|(jobs, sessions)| {
            let jobs = columns.iter().map(|class| value(jobs, *class)).chain([1.0]).collect();
            (jobs, *sessions)
        });
        let rows: Vec<(Vec<f64>, f64)> = rows.collect();
        let Some(found) = attribute(&rows) else { return };
        sums.confidence = found.confidence;
        let explained = columns.iter().zip(&found.sessions_per_job);
        let explained: Vec<(usize, f64)> = explained
            .map(|(class, per_job)| (*class, per_job * value(in_flight, *class)))
            .collect();
        let constant = found.sessions_per_job.last().copied().unwrap_or_default();
        let all = constant + explained.iter().map(|(_, sessions)| sessions).sum::<f64>();
        if all <= 0.0 {
            return;
        }
        sums.sessions[OTHER_SESSIONS] = unnamed * constant / all;
        for (class, sessions) in explained {
            sums.sessions[class] += unnamed * sessions / all;
        }
    }

    /// Returns the classes with the most jobs in progress.
    fn columns(&self) -> Vec<usize> {
        let mut sums: HashMap<usize, f64> = HashMap::new();
        for (jobs, _) in &self.regression {
            for (class, jobs) in jobs.iter().enumerate().filter(|(_, jobs)| **jobs > 0.0) {
                *sums.entry(class).or_default() += jobs;
            }
        }
        let mut classes: Vec<(usize, f64)> = sums.into_iter().collect();
        classes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        classes.truncate(REGRESSION_CLASSES);
        classes.into_iter().map(|(class, _)| class).collect()
    }
}

/// Adds a share of the sessions of one sample.
fn add(sums: &mut SessionsByClass, activity: &DatabaseActivity, roster: &LiveRoster, share: f64) {
    let by_pid: HashMap<u32, &SessionFigures> =
        activity.sessions.iter().map(|session| (session.pid, session)).collect();
    let class_of = |pid: u32| {
        by_pid.get(&pid).and_then(|session| class_of(session, roster)).unwrap_or(OTHER_SESSIONS)
    };
    for session in &activity.sessions {
        if !session.is_waiting {
            let sessions = if session.is_idle { &mut sums.idle } else { &mut sums.sessions };
            sessions[class_of(session.pid)] += share;
            continue;
        }
        sums.lock_waits += share;
        let holders = holders(session, &by_pid);
        for holder in &holders {
            sums.blocks[class_of(*holder)] += share / holders.len() as f64;
        }
    }
}

/// Returns the sessions at the end of the chains of waits: they hold a lock and wait for none.
fn holders(session: &SessionFigures, by_pid: &HashMap<u32, &SessionFigures>) -> Vec<u32> {
    let mut seen = BTreeSet::from([session.pid]);
    let mut next = session.blocked_by.clone();
    let mut holders = Vec::new();
    while let Some(pid) = next.pop() {
        if seen.len() > CHAIN_MAX || !seen.insert(pid) {
            continue;
        }
        match by_pid.get(&pid) {
            Some(waiting) if waiting.is_waiting => next.extend(&waiting.blocked_by),
            _ => holders.push(pid),
        }
    }
    holders
}

fn class_of(session: &SessionFigures, roster: &LiveRoster) -> Option<usize> {
    let Some(comment) = &session.comment else { return class_of_name(session, roster) };
    let name = percent_decode_str(comment).decode_utf8_lossy();
    // A type without figures of its own.
    Some(roster.find_class(&name).unwrap_or(OTHER_CLASSES))
}

/// Returns the class that `application_name` is, or names behind `job:`.
fn class_of_name(session: &SessionFigures, roster: &LiveRoster) -> Option<usize> {
    let name = session.application_name.as_str();
    let named = name.split_once("job:").and_then(|(_, name)| name.split([' ', ',', ';']).next());
    roster.find_class(name).or_else(|| roster.find_class(named?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOG: usize = 2;
    const MAIL: usize = 3;

    fn roster() -> LiveRoster {
        let mut roster = LiveRoster::new(10, 10, true);
        assert_eq!((roster.class("Hog"), roster.class("Admin::Mail")), (Some(HOG), Some(MAIL)));
        roster
    }

    fn session(pid: u32, comment: &str, name: &str) -> SessionFigures {
        let comment = (!comment.is_empty()).then(|| comment.to_owned());
        SessionFigures { pid, comment, application_name: name.to_owned(), ..Default::default() }
    }

    fn activity(sessions: Vec<SessionFigures>) -> DatabaseActivity {
        DatabaseActivity { sessions, connections: 10, connections_max: 100 }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 0.05, "{value} instead of {expected}");
    }

    #[test]
    fn comments_come_before_names_and_may_be_encoded() {
        let sessions = vec![
            session(1, "Hog", "Admin::Mail"),
            session(2, "Admin%3A%3AMail", ""),
            session(3, "Unknown", ""),
            session(4, "", "puma"),
        ];
        let mut attribution = Attribution::default();
        let found = attribution.attribute(0.0, &[activity(sessions)], &[], &roster());
        assert_eq!(found.sessions, [1.0, 1.0, 1.0, 1.0]);
        assert_eq!((found.method, found.confidence), (AttributionMethod::Comments, 1.0));
        // Without any for five minutes, something else is tried.
        let found = attribution.attribute(301.0, &[activity(Vec::new())], &[], &roster());
        assert_eq!(found.method, AttributionMethod::Regression);
    }

    #[test]
    fn names_are_a_class_or_name_it() {
        let sessions = vec![
            session(1, "", "Hog"),
            session(2, "", "worker 3 job:Admin::Mail, queue:mail"),
            session(3, "", "puma"),
        ];
        let mut attribution = Attribution::default();
        let found = attribution.attribute(0.0, &[activity(sessions)], &[], &roster());
        assert_eq!(found.sessions, [1.0, 0.0, 1.0, 1.0]);
        assert_eq!((found.method, found.confidence), (AttributionMethod::Names, 0.9));
    }

    #[test]
    fn sessions_that_idle_in_a_transaction_do_not_count_as_busy() {
        let idle = SessionFigures { is_idle: true, ..session(2, "Hog", "") };
        let sessions = vec![session(1, "Hog", ""), idle];
        let found = Attribution::default().attribute(0.0, &[activity(sessions)], &[], &roster());
        assert_eq!((found.sessions[HOG], found.idle[HOG]), (1.0, 1.0));
    }

    #[test]
    fn a_wait_is_charged_to_the_session_at_the_end_of_the_chain() {
        let waiting = |pid, blocked_by: &[u32]| SessionFigures {
            is_waiting: true,
            blocked_by: blocked_by.to_vec(),
            ..session(pid, "Admin::Mail", "")
        };
        // 3 waits for 2, which waits for 1; 4 and 5 wait for each other; 6 for a session that is not there.
        let sessions = vec![
            session(1, "Hog", ""),
            waiting(2, &[1]),
            waiting(3, &[2, 1]),
            waiting(4, &[5]),
            waiting(5, &[4]),
            waiting(6, &[99]),
        ];
        let twice = [activity(sessions), activity(Vec::new())];
        let found = Attribution::default().attribute(0.0, &twice, &[], &roster());
        near(found.lock_waits, 2.5);
        near(found.blocks[HOG], 1.0);
        near(found.blocks[OTHER_SESSIONS], 0.5);
        near(found.blocks[MAIL], 0.0);
        near(found.sessions[HOG], 0.5);
    }

    #[test]
    fn without_names_a_regression_finds_the_class_and_the_sessions_of_others() {
        let mut attribution = Attribution::default();
        let mut last = SessionsByClass::default();
        for at in 0..60_u32 {
            let (hog, mail) = (at * 5 % 17, at * 11 % 13);
            // Each Hog holds a session, no mail does, and the web holds four.
            let sessions = (0..hog + 4).map(|pid| session(pid, "", "puma")).collect();
            let in_flight = [0.0, 0.0, f64::from(hog), f64::from(mail)];
            let at = f64::from(at) * 5.0;
            last = attribution.attribute(at, &[activity(sessions)], &in_flight, &roster());
        }
        assert!(last.confidence > 0.95, "{last:?}");
        near(last.sessions[HOG], f64::from(59 * 5 % 17_u32));
        near(last.sessions[MAIL], 0.0);
        near(last.sessions[OTHER_SESSIONS], 4.0);
    }

    #[test]
    fn a_few_samples_are_no_basis_for_a_regression() {
        let sessions = vec![session(1, "", "puma")];
        let mut attribution = Attribution::default();
        let found =
            attribution.attribute(0.0, &[activity(sessions)], &[0.0, 0.0, 3.0, 1.0], &roster());
        assert_eq!((found.confidence, found.sessions[OTHER_SESSIONS]), (0.0, 1.0));
    }
}
