//! `/metrics` in the format that a client accepts: OpenMetrics, or Prometheus' older text format.
//!
//! They differ in the names of families
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>,
//! <https://github.com/prometheus/OpenMetrics>): a counter `weir_x` with samples `weir_x_total` in
//! OpenMetrics is named `weir_x_total` in the text format, which has no units, no `info` and no end
//! mark.

use std::fmt::Write;

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    /// Returns the format with the higher weight in `accept`; OpenMetrics unless the text format is
    /// requested by name.
    pub(crate) fn negotiate(accept: &str) -> Self {
        let weight = |media_type| weight_of(accept, media_type).unwrap_or(0.0);
        if weight("text/plain") > weight("application/openmetrics-text") {
            Self::Text
        } else {
            Self::OpenMetrics
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts `openmetrics` to this format.
    pub(crate) fn write(self, openmetrics: String) -> String {
        match self {
            Self::OpenMetrics => openmetrics,
            Self::Text => to_text_format(&openmetrics),
        }
    }
}

/// Returns the weight (`q`) of a media type in an `Accept` header; None: it is not listed.
fn weight_of(accept: &str, media_type: &str) -> Option<f64> {
    accept.split(',').find_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        parts.next().filter(|name| name.eq_ignore_ascii_case(media_type))?;
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        Some(weight.and_then(|weight| weight.parse().ok()).unwrap_or(1.0))
    })
}

fn to_text_format(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    // The type, which determines the name, comes after the help.
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
        } else if let Some((family, kind)) =
            line.strip_prefix("# TYPE ").and_then(|described| described.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((_, help)) = help.take().filter(|(described, _)| *described == family) {
                let _ = writeln!(text, "# HELP {family}{suffix} {help}");
            }
            let _ = writeln!(text, "# TYPE {family}{suffix} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_accepted_format_is_chosen() {
        for (accept, expected) in [
            ("", Format::OpenMetrics),
            ("*/*", Format::OpenMetrics),
            ("text/html, */*;q=0.1", Format::OpenMetrics),
            ("text/plain", Format::Text),
            ("text/plain; version=0.0.4", Format::Text),
            ("Text/Plain;q=0.5, application/openmetrics-text;q=0.4", Format::Text),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            ("application/openmetrics-text, text/plain", Format::OpenMetrics),
        ] {
            assert_eq!(Format::negotiate(accept), expected, "{accept}");
        }
    }

    #[test]
    fn text_format_names_families_like_their_samples() {
        let openmetrics = "\
# HELP weir_jobs_pushed Jobs pushed.
# TYPE weir_jobs_pushed counter
weir_jobs_pushed_total 5
# HELP weir_jobs_wait_seconds Waits.
# TYPE weir_jobs_wait_seconds histogram
# UNIT weir_jobs_wait_seconds seconds
weir_jobs_wait_seconds_sum 0.5
# HELP weir_build Version.
# TYPE weir_build info
weir_build_info{version=\"1\"} 1
# EOF
";
        let text = "\
# HELP weir_jobs_pushed_total Jobs pushed.
# TYPE weir_jobs_pushed_total counter
weir_jobs_pushed_total 5
# HELP weir_jobs_wait_seconds Waits.
# TYPE weir_jobs_wait_seconds histogram
weir_jobs_wait_seconds_sum 0.5
# HELP weir_build_info Version.
# TYPE weir_build_info gauge
weir_build_info{version=\"1\"} 1
";
        assert_eq!(Format::Text.write(openmetrics.to_owned()), text);
        assert_eq!(Format::OpenMetrics.write(openmetrics.to_owned()), openmetrics);
    }
}
