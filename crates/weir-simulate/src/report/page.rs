//! A page with tables and charts, without anything from elsewhere.

use std::fmt::Write;

use super::PolicyResult;
use super::svg::{COLOURS, Series, chart, escaped};
use super::table::{Table, queue_table, summary_table};
use super::units::duration;
use crate::engine::Point;

/// Decisions that are listed for a policy.
const DECISIONS_MAX: usize = 200;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#1a1a1a;background:#fff}table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem .2rem 0;\
text-align:left;border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}svg{width:100%;font-size:11px;\
fill:currentColor}.grid{stroke:#ccc}.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}\
@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}td,th{border-color:#444}.grid{stroke:#444}}";

/// Returns the page.
#[must_use]
pub fn page(title: &str, results: &[PolicyResult]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{0}</title><style>{STYLE}</style>\n<h1>{0}</h1>\n",
        escaped(title)
    );
    text.push_str(&table(&summary_table(results)));
    text.push_str(&table(&queue_table(results)));
    for result in results {
        text.push_str(&section(result));
    }
    text.push_str("</html>\n");
    text
}

fn table(table: &Table) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: String = cells.map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let head = cells("th", &mut table.head.iter().copied());
    let rows = table.rows.iter().map(|row| cells("td", &mut row.iter().map(String::as_str)));
    format!("<table>\n{head}{}</table>\n", rows.collect::<String>())
}

fn section(result: &PolicyResult) -> String {
    let points = &result.record.points;
    let names = || result.record.queues.iter().map(|queue| queue.name.clone());
    let by_queue = |value: fn(&Point, usize) -> f64| -> Vec<Series> {
        let series = |(queue, name): (usize, String)| Series {
            name,
            values: points.iter().map(|it| (it.at_seconds, value(it, queue))).collect(),
        };
        names().enumerate().map(series).collect()
    };
    let one = |name: &str, value: fn(&Point) -> f64| Series {
        name: name.to_owned(),
        values: points.iter().map(|it| (it.at_seconds, value(it))).collect(),
    };
    let mut text = format!("<h2>{}</h2>\n<p>", escaped(&result.policy));
    for (name, colour) in names().zip(COLOURS.iter().cycle()) {
        let _ = write!(
            text,
            "<span class=\"key\" style=\"background:{colour}\"></span>{}",
            escaped(&name)
        );
    }
    text.push_str("</p>\n");
    let sessions = [one("sessions", |it| it.sessions), one("limit of threads", |it| it.threads)];
    let charts = [
        ("Jobs that wait", by_queue(|it, queue| it.waiting[queue])),
        ("Busy threads", by_queue(|it, queue| it.busy[queue])),
        ("Database sessions, and the limit of threads", sessions.to_vec()),
        ("Slowdown of the database", vec![one("slowdown", |it| it.slowdown)]),
    ];
    for (title, series) in &charts {
        let _ = write!(text, "<h3>{title}</h3>\n{}", chart(title, series));
    }
    text.push_str(&decisions(result));
    text
}

fn decisions(result: &PolicyResult) -> String {
    let all = &result.record.decisions;
    if all.is_empty() {
        return String::new();
    }
    let rows = all.iter().take(DECISIONS_MAX).map(|decision| {
        format!(
            "<tr><td>{}</td><td>{}</td></tr>\n",
            duration(decision.at_seconds),
            escaped(&decision.text)
        )
    });
    let more = all.len().saturating_sub(DECISIONS_MAX);
    let more = if more > 0 { format!("<p>and {more} more</p>\n") } else { String::new() };
    format!("<h3>Decisions</h3>\n<table>\n{}</table>\n{more}", rows.collect::<String>())
}
