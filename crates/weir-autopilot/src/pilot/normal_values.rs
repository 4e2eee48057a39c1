//! Normal values survive a restart: an autopilot that starts during an incident would otherwise take the incident for
//! normal.

use weir_control::estimate::Recent;
use weir_control::history::ClassHistory;

use super::Autopilot;
use crate::state_file::KeptNormal;

/// How often they are stored, if nothing else is.
const EVERY_SECONDS: f64 = 300.0;

impl Autopilot {
    /// Takes the values of the state file.
    pub(super) fn restore_normal_values(&mut self) {
        for (name, kept) in std::mem::take(&mut self.kept.normal) {
            let Some(class) = self.sampler.roster.class(&name) else { continue };
            let classes = &mut self.history.classes;
            if classes.len() <= class {
                classes.resize(class + 1, ClassHistory::default());
            }
            let KeptNormal {
                base_seconds,
                session_seconds,
                idle_seconds,
                finished,
                run_seconds,
                span_seconds,
            } = kept;
            let normal = Recent {
                session_seconds,
                idle_seconds,
                finished,
                run_seconds,
                span_seconds,
                ..Recent::default()
            };
            let class = &mut classes[class];
            (class.normal, class.base_seconds) = (normal, Some(base_seconds));
            class.is_normal_known = true;
        }
        self.history.fast_sessions = self.kept.fast_sessions;
    }

    /// Notes the values for the state file: of at most half of the classes that may have figures, so that those which are
    /// gone do not take the places of new ones.
    pub(super) fn note_normal_values(&mut self) {
        let roster = &self.sampler.roster;
        let classes = self.history.classes.iter().enumerate();
        let mut known: Vec<_> = classes
            .filter_map(|(class, it)| {
                let normal = it.normal;
                let name = roster.class_name(class);
                roster.find_class(name)?;
                let kept = KeptNormal {
                    base_seconds: it.base_seconds.filter(|_| it.is_normal_known)?,
                    session_seconds: normal.session_seconds,
                    idle_seconds: normal.idle_seconds,
                    finished: normal.finished,
                    run_seconds: normal.run_seconds,
                    span_seconds: normal.span_seconds,
                };
                Some((name.to_owned(), kept))
            })
            .collect();
        known.sort_by(|a, b| b.1.finished.total_cmp(&a.1.finished));
        known.truncate(self.settings.limits.classes_max.div_ceil(2));
        self.kept.normal = known.into_iter().collect();
        self.kept.fast_sessions = self.history.fast_sessions;
        self.normal_at_seconds = self.now_seconds();
    }

    /// Stores the values now and then.
    pub(super) fn save_normal_values(&mut self) {
        if self.now_seconds() - self.normal_at_seconds >= EVERY_SECONDS {
            self.save_or_log();
        }
    }
}
