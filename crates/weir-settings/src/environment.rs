//! Settings from the environment: `WEIR_JOBS_LISTEN` is `jobs.listen`.

/// Returns the name of the variable for the setting at `path`.
pub(crate) fn name(path: &str) -> String {
    format!("WEIR_{}", path.to_uppercase().replace('.', "_"))
}

/// Converts the text of the variable `name` to TOML, for a setting of this kind.
pub(crate) fn to_toml(kind: &str, name: &str, text: &str) -> String {
    match kind {
        "number" | "fraction" | "true or false" => text.to_owned(),
        // The environment is where a secret may be.
        "secret" | "text or secret" => format!("{{ env = {} }}", quoted(name)),
        "list of texts" => {
            let entries: Vec<_> =
                text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(quoted).collect();
            format!("[{}]", entries.join(", "))
        }
        _ => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_converted_by_kind() {
        assert_eq!(name("jobs.limits.fetch_wait"), "WEIR_JOBS_LIMITS_FETCH_WAIT");
        for (kind, text, toml) in [
            ("number", "12", "12"),
            ("fraction", "0.5", "0.5"),
            ("duration", "10s", "\"10s\""),
            ("text", "a\"b\\c", r#"'a"b\c'"#),
            ("list of texts", "a, b,", r#"["a", "b"]"#),
            ("list of texts", "", "[]"),
            ("secret", "hunter2", r#"{ env = "X" }"#),
        ] {
            assert_eq!(to_toml(kind, "X", text), toml, "{kind}");
        }
    }
}
