//! The record: runs by part, load and server.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::comparison::median;
use crate::rounds::JudgedBy;

/// Servers that show what is possible at all, and are no peers.
const BOUNDS: [&str; 2] = ["floor", "no proxy"];

#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// What was compared, such as versions, in the order of the record.
    pub(crate) notes: Vec<String>,
    pub(crate) parts: Vec<Part>,
    /// The floor of each round.
    pub(crate) floors: Vec<Value>,
}

/// The loads with one title.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) loads: Vec<Load>,
}

#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) label: String,
    pub(crate) judged_by: JudgedBy,
    pub(crate) servers: Vec<Server>,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    /// One per round.
    pub(crate) runs: Vec<Value>,
}

/// Median, lowest and highest value of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl Recorded {
    /// Parses JSON lines: runs, and `{"note": ".."}`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut recorded = Self::default();
        for (number, line) in text.lines().enumerate() {
            let run: Value = serde_json::from_str(line)
                .with_context(|| format!("line {}: not a JSON object", number + 1))?;
            recorded.add(run).with_context(|| format!("line {}", number + 1))?;
        }
        Ok(recorded)
    }

    fn add(&mut self, run: Value) -> Result<()> {
        if let Some(note) = run["note"].as_str() {
            if !self.notes.iter().any(|other| other == note) {
                self.notes.push(note.to_owned());
            }
            return Ok(());
        }
        let text = |key: &str| run[key].as_str().with_context(|| format!("no {key:?}"));
        let (title, label, peer, judged_by) =
            (text("title")?, text("load")?, text("peer")?, text("judged_by")?);
        let judged_by = JudgedBy::ALL.into_iter().find(|it| it.figure() == judged_by);
        let judged_by = judged_by.context("an unknown figure in \"judged_by\"")?;
        if !self.floors.contains(&run["floor"]) {
            self.floors.push(run["floor"].clone());
        }
        let part = find_or_add(
            &mut self.parts,
            |it| it.title == title,
            || Part { title: title.to_owned(), loads: Vec::new() },
        );
        let load = find_or_add(
            &mut part.loads,
            |it| it.label == label,
            || Load { label: label.to_owned(), judged_by, servers: Vec::new() },
        );
        let server = find_or_add(
            &mut load.servers,
            |it| it.name == peer,
            || Server { name: peer.to_owned(), runs: Vec::new() },
        );
        server.runs.push(run);
        Ok(())
    }

    /// Returns the range of a figure of the floor.
    pub(crate) fn floor(&self, figure: &str) -> Option<Range> {
        range(self.floors.iter().filter_map(|floor| floor[figure].as_f64()).collect())
    }
}

fn find_or_add<T>(
    items: &mut Vec<T>,
    is_it: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
) -> &mut T {
    let at = items.iter().position(is_it).unwrap_or_else(|| {
        items.push(new());
        items.len() - 1
    });
    &mut items[at]
}

impl Part {
    /// Returns the name of the file with its chart.
    pub(crate) fn chart_file(&self) -> String {
        let words = self.title.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words = words.filter(|word| !word.is_empty()).map(str::to_lowercase);
        format!("bench-{}.svg", words.collect::<Vec<_>>().join("-"))
    }
}

impl Load {
    /// The server that others are compared with: the first of Weir's.
    pub(crate) fn weir(&self) -> Option<&Server> {
        self.servers.iter().find(|server| server.is_weir())
    }

    /// Returns how many times better Weir is than the server: the median of the ratios within each round. A run without the
    /// figure, because it did not finish, is infinitely worse than one that has it.
    pub(crate) fn times_better(&self, server: &Server) -> Option<f64> {
        let ratios = self.weir()?.runs.iter().filter_map(|own| {
            let other = server.runs.iter().find(|run| run["round"] == own["round"])?;
            match (self.judged_by.of(own), self.judged_by.of(other)) {
                (Some(own), Some(other)) if self.judged_by == JudgedBy::Rate => Some(own / other),
                (Some(own), Some(other)) => Some(other / own),
                (Some(_), None) => Some(f64::INFINITY),
                (None, Some(_)) => Some(0.0),
                (None, None) => None,
            }
        });
        Some(median(ratios.collect())).filter(|ratio| !ratio.is_nan())
    }

    /// Returns the range of the figure that the servers are compared by; None if a run did not finish.
    pub(crate) fn judged(&self, server: &Server) -> Option<Range> {
        let values = server.runs.iter().map(|run| self.judged_by.of(run));
        range(values.collect::<Option<_>>()?)
    }
}

impl Server {
    pub(crate) fn is_weir(&self) -> bool {
        self.name.to_lowercase().starts_with("weir")
    }

    pub(crate) fn is_bound(&self) -> bool {
        BOUNDS.contains(&self.name.as_str())
    }

    /// Returns the range of a figure that the runs have.
    pub(crate) fn range(&self, figure: &str) -> Option<Range> {
        range(self.runs.iter().filter_map(|run| run[figure].as_f64()).collect())
    }

    /// Returns the median of a figure in units of that round's loopback round trip.
    pub(crate) fn in_round_trips(&self, judged_by: JudgedBy) -> Option<f64> {
        let values = self.runs.iter().filter_map(|run| {
            let round_trip = run["floor"]["loopback_us"].as_f64()?;
            let value = judged_by.of(run)?;
            Some(match judged_by {
                JudgedBy::Rate => value * round_trip / 1e6,
                JudgedBy::P99 => value / round_trip,
                JudgedBy::AllBack => value * 1e6 / round_trip,
            })
        });
        Some(median(values.collect())).filter(|value| value.is_finite())
    }
}

fn range(values: Vec<f64>) -> Option<Range> {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let median = median(values);
    median.is_finite().then_some(Range { median, lowest, highest })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Two rounds of Weir and a peer that is faster in push and has the longer p99 at a fixed rate.
    pub(crate) fn example() -> Recorded {
        let mut text = json!({ "note": "nginx 1.22" }).to_string() + "\n";
        for (load, judged_by) in [("push", JudgedBy::Rate), ("paced", JudgedBy::P99)] {
            for (round, factor) in [(1, 1.0), (2, 2.0)] {
                for (peer, rate, p99) in [("Weir", 100.0, 10.0), ("<nginx>", 125.0, 20.0)] {
                    let run = json!({
                        "title": "Jobs & more", "load": load, "peer": peer, "round": round,
                        "judged_by": judged_by.figure(), "operations_per_second": rate * factor,
                        "p50_us": 5.0, "p99_us": p99, "errors": 0, "server_cpu_us_per_operation": null,
                        "client_cpu_us_per_operation": 1.0,
                        "floor": { "loopback_us": 20.0 / factor, "sync_us": 70.0, "hash_us": 3.0 },
                    });
                    text += &(run.to_string() + "\n");
                }
            }
        }
        Recorded::parse(&text).unwrap()
    }

    #[test]
    fn runs_are_grouped_and_weir_is_compared_within_rounds() {
        let recorded = example();
        assert_eq!((recorded.parts.len(), recorded.floors.len()), (1, 2));
        let [push, paced] = &recorded.parts[0].loads[..] else { panic!("{recorded:?}") };
        let nginx = &push.servers[1];
        assert!((push.times_better(nginx).unwrap() - 0.8).abs() < 1e-9, "a rate");
        assert!((paced.times_better(nginx).unwrap() - 2.0).abs() < 1e-9, "a latency");
        // 100/s at 20 us and 200/s at 10 us are the same.
        let trips = push.servers[0].in_round_trips(JudgedBy::Rate).unwrap();
        assert!((trips - 0.002).abs() < 1e-9, "{trips}");
        let mut unfinished = example();
        let paced = &mut unfinished.parts[0].loads[1];
        paced.servers[0].runs.iter_mut().for_each(|run| run["p99_us"] = Value::Null);
        assert_eq!(paced.times_better(&paced.servers[1]), Some(0.0), "a loss");
        assert!(paced.judged(&paced.servers[0]).is_none());
        let range = push.judged(nginx).unwrap();
        assert_eq!((range.lowest, range.median, range.highest), (125.0, 187.5, 250.0));
    }

    #[test]
    fn lines_without_a_run_are_errors() {
        for text in
            ["{", "{}\n", "{\"title\":\"a\",\"load\":\"b\",\"peer\":\"c\",\"judged_by\":\"d\"}"]
        {
            assert!(Recorded::parse(text).is_err(), "{text}");
        }
    }
}
