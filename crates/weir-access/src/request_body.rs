//! The fields of a request's body: of a form, or of JSON.

use serde_json::Value;

/// The body of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestBody {
    Form(Vec<(String, String)>),
    Json(Value),
    /// It is not read.
    Unknown,
}

impl RequestBody {
    #[must_use]
    pub fn form(body: &[u8]) -> Self {
        Self::Form(form_urlencoded::parse(body).into_owned().collect())
    }

    /// Parses JSON. Everything else has no fields, and no handler accepts it.
    #[must_use]
    pub fn json(body: &[u8]) -> Self {
        Self::Json(serde_json::from_slice(body).unwrap_or(Value::Null))
    }

    /// Returns the value of a field, as handlers read it: of a repeated field the first. None: it is absent or empty.
    #[must_use]
    pub fn value(&self, field: &str) -> Option<String> {
        let Self::Form(fields) = self else { return self.text(field) };
        let value = fields.iter().find(|(name, _)| name == field);
        value.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }

    /// Returns the text of a field for people; all values of a repeated field. None: it is absent or empty.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<String> {
        let text = match self {
            Self::Form(fields) => {
                let values = fields.iter().filter(|(name, _)| name == field);
                values.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
            }
            Self::Json(value) => {
                value.pointer(&format!("/{field}")).map_or_else(String::new, display)
            }
            Self::Unknown => String::new(),
        };
        Some(text).filter(|text| !text.is_empty())
    }
}

/// Shows a value of JSON: `{"named":["a","b"]}` as `a, b`.
fn display(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(display).collect::<Vec<_>>().join(", "),
        Value::Object(members) if members.len() == 1 => {
            members.iter().next().map_or_else(String::new, |(name, value)| match display(value) {
                shown if shown.is_empty() => name.clone(),
                shown if value.is_array() => shown,
                shown => format!("{name} {shown}"),
            })
        }
        other => other.to_string(),
    }
}
