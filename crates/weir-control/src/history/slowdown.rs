//! How slow the database is, compared with calm times.

use super::{ClassHistory, History};
use crate::estimate::Recent;
use crate::settings::Settings;

/// The slowdown is the cost up to which this share of the work is.
const SLOWED_SHARE: f64 = 1.0 / 3.0;

impl History {
    /// Returns how many times longer than in calm times the jobs of all classes are in the database, without one class;
    /// 1 if unknown. A slow database slows all classes down, so this is the cost that two thirds of the work exceed:
    /// classes whose own work has grown do not count.
    #[must_use]
    pub fn slowdown(&self, without: Option<usize>) -> f64 {
        self.slowdown_in(|class| &class.recent, without).0
    }

    /// Returns the slowdown of a window, and its standard error.
    fn slowdown_in(
        &self,
        window: fn(&ClassHistory) -> &Recent,
        without: Option<usize>,
    ) -> (f64, f64) {
        let others = self.classes.iter().enumerate().filter(|(index, _)| Some(*index) != without);
        let mut costs: Vec<(f64, f64, f64)> = others
            .filter_map(|(_, class)| {
                let window = window(class);
                Some((
                    class.cost_in(window)?,
                    class.normal.sessions(),
                    class.standard_error(window),
                ))
            })
            .collect();
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let work = costs.iter().map(|(_, work, _)| work).sum::<f64>();
        let mut left = SLOWED_SHARE * work;
        let exceeded = costs.iter().find(|(_, work, _)| {
            left -= work;
            left <= 0.0
        });
        let squares: f64 = costs.iter().map(|(_, work, error)| (work * error).powi(2)).sum();
        (exceeded.map_or(1.0, |(cost, ..)| *cost), squares.sqrt() / work.max(1e-9))
    }

    /// Returns whether the database has too many sessions: at once if that is certain, otherwise by the longer time.
    #[must_use]
    pub fn is_slow(&self, without: Option<usize>, settings: &Settings) -> bool {
        let (recent, error) = self.slowdown_in(|class| &class.recent, without);
        let (longer, longer_error) = self.slowdown_in(|class| &class.longer, without);
        let high = settings.slowdown_high;
        recent >= high + settings.certain_errors * error
            || (recent >= high && longer >= high + settings.slowdown_errors.0 * longer_error)
    }

    /// Returns the slowdown from which the database has too many sessions.
    #[must_use]
    pub fn slowdown_high(&self, settings: &Settings) -> f64 {
        let high = settings.slowdown_high + settings.slowdown_errors.0 * self.standard_error();
        high.min(settings.slowdown_most.0)
    }

    /// Returns the slowdown below which the database has room for more sessions.
    #[must_use]
    pub fn slowdown_low(&self, settings: &Settings) -> f64 {
        let low = settings.slowdown_low + settings.slowdown_errors.1 * self.standard_error();
        low.min(settings.slowdown_most.1)
    }

    /// Returns the relative standard error of the slowdown: the classes' costs, weighted by their sessions in calm times.
    fn standard_error(&self) -> f64 {
        self.slowdown_in(|class| &class.recent, None).1
    }
}
