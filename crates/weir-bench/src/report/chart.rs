//! A bar chart of one part, as SVG: a bar for the median of each server, a line for its range.

use std::fmt::Write;

use super::page::format_figure;
use super::recorded::{Load, Part, Server};
use crate::rounds::JudgedBy;

const WIDTH: f64 = 860.0;
const BAR_LEFT: f64 = 300.0;
const BAR_WIDTH: f64 = 440.0;
const LINE: f64 = 20.0;
const BAR: f64 = 13.0;
const STYLE: &str = "<style>text{font:12px system-ui,sans-serif;fill:#222}.load{font-weight:600}.weir{fill:#2563eb}\
                     .peer{fill:#9ca3af}.bound{fill:#e5e7eb}line{stroke:#111}</style>";

pub(super) fn svg(part: &Part) -> String {
    let lines: usize = part.loads.iter().map(|load| load.servers.len() + 2).sum();
    let height = f64::from(u32::try_from(lines).unwrap_or(u32::MAX)) * LINE;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{}</title>\n{STYLE}\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n",
        escape(&part.title)
    );
    let mut top = LINE;
    for load in &part.loads {
        append_load(load, &mut top, &mut text);
    }
    text + "</svg>\n"
}

fn append_load(load: &Load, top: &mut f64, text: &mut String) {
    let better = match load.judged_by {
        JudgedBy::Rate => "operations/s, more is better",
        JudgedBy::P99 => "p99 in µs, less is better",
        JudgedBy::AllBack => "seconds until all were back, less is better",
    };
    let label = escape(&load.label);
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(text, "<text class=\"load\" x=\"8\" y=\"{top}\">{label} ({better})</text>");
    *top += LINE;
    let highest = |server| load.judged(server).map_or(0.0, |range| range.highest);
    let scale = BAR_WIDTH / load.servers.iter().map(highest).fold(f64::MIN_POSITIVE, f64::max);
    for server in &load.servers {
        append_bar(load, server, scale, *top, text);
        *top += LINE;
    }
    *top += LINE;
}

fn append_bar(load: &Load, server: &Server, scale: f64, top: f64, text: &mut String) {
    let Some(range) = load.judged(server) else {
        return;
    };
    let kind = match (server.is_weir(), server.is_bound()) {
        (true, _) => "weir",
        (_, true) => "bound",
        _ => "peer",
    };
    let [median, lowest, highest] =
        [range.median, range.lowest, range.highest].map(|value| value * scale);
    let (y, middle) = (top - BAR + 2.0, top - BAR / 2.0 + 2.0);
    let name_right = BAR_LEFT - 8.0;
    let name = escape(&server.name);
    let _ =
        writeln!(text, "<text x=\"{name_right}\" y=\"{top}\" text-anchor=\"end\">{name}</text>");
    let _ = writeln!(
        text,
        "<rect class=\"{kind}\" x=\"{BAR_LEFT}\" y=\"{y}\" width=\"{median:.1}\" height=\"{BAR}\"/>"
    );
    let [left, right] = [BAR_LEFT + lowest, BAR_LEFT + highest];
    let _ = writeln!(
        text,
        "<line x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>"
    );
    let value_left = right.max(BAR_LEFT + median) + 6.0;
    let value = format_figure(range.median);
    let _ = writeln!(text, "<text x=\"{value_left:.1}\" y=\"{top}\">{value}</text>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::recorded::tests::example;
    use super::*;

    #[test]
    fn bars_are_scaled_to_the_highest_run_of_a_load() {
        let part = &example().parts[0];
        let svg = svg(part);
        // The medians of push are 150 and 187.5, its highest run is 250.
        assert!(svg.contains("<rect class=\"weir\" x=\"300\" y=\"29\" width=\"264.0\""), "{svg}");
        assert!(svg.contains("<rect class=\"peer\" x=\"300\" y=\"49\" width=\"330.0\""), "{svg}");
        assert!(svg.contains(">&lt;nginx&gt;</text>") && svg.contains("Jobs &amp; more"), "{svg}");
    }
}
