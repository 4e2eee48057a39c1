//! Line charts as SVG.

use std::fmt::Write;

use super::units::duration;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 160.0;
/// Room for the labels of the axes.
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 20.0;
const TOP: f64 = 8.0;

/// Colours that differ in lightness as well, for those who see no hue.
pub(super) const COLOURS: [&str; 8] =
    ["#0b5fa5", "#d1495b", "#2e8b57", "#edae49", "#6a4c93", "#1b9aaa", "#8d5524", "#555555"];

/// A line of a chart.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) values: Vec<(f64, f64)>,
}

/// Returns a chart. Names are escaped.
pub(super) fn chart(title: &str, series: &[Series]) -> String {
    let all = || series.iter().flat_map(|it| &it.values);
    let right = all().map(|it| it.0).fold(1.0, f64::max);
    let top = all().map(|it| it.1).fold(1.0, f64::max);
    let x = |at: f64| LEFT + (WIDTH - LEFT) * at / right;
    let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value / top);
    let mut text = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(title)
    );
    for share in [0.0, 0.5, 1.0] {
        let (value, at) = (top * share, right * share);
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\" class=\"grid\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
            y(value),
            LEFT - 4.0,
            y(value) + 4.0,
            number(value)
        );
        let anchor =
            ["start", "middle", "end"][usize::from(share > 0.0) + usize::from(share > 0.5)];
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            x(at),
            HEIGHT - 4.0,
            duration(at)
        );
    }
    for (series, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let points =
            series.values.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)));
        let points: Vec<String> = points.collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"><title>{}</title></polyline>",
            points.join(" "),
            escaped(&series.name)
        );
    }
    text.push_str("</svg>\n");
    text
}

fn number(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0} k", value / 1_000.0),
        value if value >= 10.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// Replaces the characters that HTML interprets: names come from a file.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let series = Series { name: "<b>\"".to_owned(), values: vec![(0.0, 1.0), (10.0, 5.0)] };
        let text = chart("a & b", &[series]);
        assert!(text.contains("&lt;b&gt;&quot;") && text.contains("a &amp; b"), "{text}");
        assert!(text.contains("points=\"60.0,113.6 720.0,8.0\""), "{text}");
    }
}
