//! The one JSON object that every bench prints per run, and its human-readable form.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Map, Value};

/// Figures of one run. Rates are per second of wall time; an unknown server figure is null.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Envelope {
    pub(crate) bench: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) settings: Value,
    pub(crate) seconds: f64,
    pub(crate) operations_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p95_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) errors: u64,
    pub(crate) client_cpu_seconds: f64,
    pub(crate) server_cpu_seconds: Option<f64>,
    pub(crate) server_cpu_us_per_operation: Option<f64>,
    pub(crate) server_rss_bytes: Option<u64>,
    /// Figures of this bench only.
    #[serde(flatten)]
    pub(crate) extra: Map<String, Value>,
}

impl Envelope {
    pub(crate) fn to_json_line(&self) -> String {
        let json = serde_json::to_string(self);
        json.expect("an envelope has only string keys and finite numbers")
    }

    pub(crate) fn client_cpu_us_per_operation(&self) -> f64 {
        self.client_cpu_seconds * 1e6 / (self.operations_per_second * self.seconds)
    }

    /// Formats the figures for people.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{} {}: ", self.bench, self.scenario);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:.0} operations/s in {:.3} s",
            self.operations_per_second, self.seconds
        );
        let (p50, p95, p99) = (self.p50_us, self.p95_us, self.p99_us);
        let _ = writeln!(text, "  latency      p50 {p50:.0} us, p95 {p95:.0} us, p99 {p99:.0} us");
        let (seconds, each) = (self.client_cpu_seconds, self.client_cpu_us_per_operation());
        let _ = writeln!(text, "  client CPU   {seconds:.2} s, {each:.2} us per operation");
        if let (Some(seconds), Some(each)) =
            (self.server_cpu_seconds, self.server_cpu_us_per_operation)
        {
            let _ = writeln!(text, "  server CPU   {seconds:.2} s, {each:.2} us per operation");
        }
        if let Some(bytes) = self.server_rss_bytes {
            let _ = writeln!(text, "  server RSS   {:.1} MB", megabytes(bytes));
        }
        for (key, value) in &self.extra {
            append_extra(key, value, &mut text);
        }
        let _ = writeln!(text, "  errors       {}", self.errors);
        text
    }
}

/// Appends a line per value, and a line per object.
fn append_extra(key: &str, value: &Value, text: &mut String) {
    match value {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().for_each(|item| append_extra(key, item, text))
        }
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, v)| format!("{name} {}", format_value(v))).collect();
            let _ = writeln!(text, "  {key}: {}", fields.join(", "));
        }
        value => {
            let _ = writeln!(text, "  {key}: {}", format_value(value));
        }
    }
}

fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.2}", number.as_f64().unwrap_or(0.0))
        }
        value => value.to_string(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn extra_fields_are_flattened_into_the_envelope() {
        let mut extra = Map::new();
        extra.insert("phases".to_owned(), json!([{ "phase": "fill", "seconds": 0.5 }]));
        let envelope = Envelope {
            bench: "jobs",
            scenario: "push",
            settings: Value::Null,
            seconds: 1.0,
            operations_per_second: 2.0,
            p50_us: 3.0,
            p95_us: 4.0,
            p99_us: 5.0,
            errors: 0,
            client_cpu_seconds: 0.5,
            server_cpu_seconds: None,
            server_cpu_us_per_operation: None,
            server_rss_bytes: None,
            extra,
        };
        let parsed: Value = serde_json::from_str(&envelope.to_json_line()).expect("valid JSON");
        assert!(parsed["phases"].is_array() && parsed["server_rss_bytes"].is_null(), "{parsed}");
        let text = envelope.to_text();
        assert!(text.contains("  phases: phase fill, seconds 0.50\n"), "{text}");
        assert!(text.contains("errors       0"), "{text}");
    }
}
