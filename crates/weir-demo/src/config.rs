//! The settings that the demo starts Weir with.

/// The id and the key of the realtime app.
pub const APP_ID: &str = "demo";
pub const APP_KEY: &str = "demo-key";
/// The environment variable with the secret of the realtime app.
pub const SECRET_VARIABLE: &str = "WEIR_DEMO_SECRET";

const TEMPLATE: &str = include_str!("weir.toml");
const AUTOPILOT: &str = include_str!("autopilot.toml");

/// What differs between two demos.
#[derive(Clone, Copy, Debug)]
pub struct DemoConfig<'a> {
    /// The path of the program, which also runs the app.
    pub program: &'a str,
    /// Let the system choose the ports, instead of using the usual ones.
    pub has_free_ports: bool,
    /// The URL of the Postgres that the autopilot observes. None: no autopilot.
    pub postgres: Option<&'a str>,
}

impl DemoConfig<'_> {
    /// Returns the content of `weir.toml`.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let listen = |port: u16| {
            let port = if self.has_free_ports { 0 } else { port };
            quoted(&format!("127.0.0.1:{port}"))
        };
        let base = TEMPLATE
            .replace("\"FRONT_LISTEN\"", &listen(8080))
            .replace("\"JOBS_LISTEN\"", &listen(7419))
            .replace("\"CONSOLE_LISTEN\"", &listen(7420))
            .replace("\"PROGRAM\"", &quoted(self.program));
        let autopilot =
            self.postgres.map(|url| AUTOPILOT.replace("\"POSTGRES_URL\"", &quoted(url)));
        base + &autopilot.unwrap_or_default()
    }
}

/// Returns a TOML string. JSON's escapes are TOML's as well.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(has_free_ports: bool, postgres: Option<&str>) -> String {
        DemoConfig { program: "/opt/a \"b\"/weir", has_free_ports, postgres }.to_toml()
    }

    #[test]
    fn ports_and_program_are_filled_in() {
        let text = config(false, None);
        assert!(text.contains("listen = \"127.0.0.1:7419\""), "{text}");
        assert!(text.contains(r#"command = ["/opt/a \"b\"/weir", "demo""#), "{text}");
        assert!(!text.contains("_LISTEN") && !text.contains("autopilot"), "{text}");
        assert_eq!(config(true, None).matches("\"127.0.0.1:0\"").count(), 3);
    }

    #[test]
    fn autopilot_needs_a_database() {
        let text = config(false, Some("postgres://weir@127.0.0.1/app"));
        assert!(text.contains("url = \"postgres://weir@127.0.0.1/app\""), "{text}");
        assert!(text.contains("mode = \"on\""), "{text}");
    }
}
