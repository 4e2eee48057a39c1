//! Charts for a terminal: a line of blocks for each value.

use super::PolicyResult;
use super::units::duration;
use crate::engine::Point;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a chart.
const COLUMNS: usize = 72;

/// Returns the charts of a policy: jobs that wait, threads and slowdown over time.
#[must_use]
pub fn charts(result: &PolicyResult) -> String {
    let points = &result.record.points;
    let last = points.last().map_or(0.0, |point| point.at_seconds);
    let mut text = format!("{}, {} from left to right\n", result.policy, duration(last));
    for (queue, record) in result.record.queues.iter().enumerate() {
        let values = values(points, |point| point.waiting[queue]);
        text.push_str(&line(&format!("waiting in {}", record.name), &values));
    }
    text.push_str(&line("busy threads", &values(points, |point| point.busy.iter().sum())));
    text.push_str(&line("database sessions", &values(points, |point| point.sessions)));
    text.push_str(&line("slowdown", &values(points, |point| point.slowdown)));
    text
}

/// Returns the highest value of each column.
fn values(points: &[Point], value: impl Fn(&Point) -> f64) -> Vec<f64> {
    let columns = COLUMNS.min(points.len());
    let column = |at: usize| {
        let range = at * points.len() / columns..(at + 1) * points.len() / columns;
        points[range].iter().map(&value).fold(0.0, f64::max)
    };
    (0..columns).map(column).collect()
}

fn line(name: &str, values: &[f64]) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    let blocks: String = values.iter().map(|value| block(*value, most)).collect();
    format!("  {name:<24.24} {blocks:<COLUMNS$}  max {most:.0}\n")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share from 0 to 1 of the number of blocks"
)]
fn block(value: f64, most: f64) -> char {
    if value <= 0.0 {
        return ' ';
    }
    let step = (value / most * BLOCKS.len() as f64).ceil() as usize;
    BLOCKS[step.clamp(1, BLOCKS.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_shows_its_highest_value() {
        let text = line("waiting", &[0.0, 1.0, 4.0, 8.0]);
        assert!(text.contains(" ▁▄█ "), "{text}");
        assert!(text.ends_with("max 8\n"), "{text}");
    }
}
