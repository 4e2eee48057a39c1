//! Settings of an app by its app server.

use super::server::AppServer;

const TEMPLATE: &str = include_str!("front.toml");

/// The properties of an app server.
struct TemplateSettings {
    command: &'static str,
    /// Requests that one process serves at once.
    concurrency: u32,
    /// The reason for that number.
    reason: &'static str,
    /// Whether an open stream keeps a process or a thread busy.
    is_blocked_by_streams: bool,
}

/// Servers that handle many requests at once without threads. More than the database serves at
/// once, since the server is not the bottleneck.
const EVENT_LOOP: (u32, &str, bool) =
    (100, "requests that one process serves at once: an event loop", false);

fn known(server: AppServer) -> TemplateSettings {
    let (command, (concurrency, reason, is_blocked_by_streams)) = match server {
        AppServer::Gunicorn => (
            r#"["gunicorn", "--workers", "1", "--bind", "unix:{socket}", "app:app"]"#,
            (1, "requests that one process serves at once: its --threads", true),
        ),
        AppServer::Uvicorn => (r#"["uvicorn", "--uds", "{socket}", "app:app"]"#, EVENT_LOOP),
        AppServer::Hypercorn => {
            (r#"["hypercorn", "--bind", "unix:{socket}", "app:app"]"#, EVENT_LOOP)
        }
        AppServer::Granian => {
            (r#"["granian", "--interface", "asgi", "--uds", "{socket}", "app:app"]"#, EVENT_LOOP)
        }
        AppServer::Puma => (
            r#"["puma", "--workers", "0", "--threads", "5:5", "--bind", "unix://{socket}"]"#,
            (5, "requests that one process serves at once: its --threads", true),
        ),
        AppServer::Unicorn => (
            r#"["unicorn", "--listen", "{socket}"]"#,
            (1, "requests that one process serves at once", true),
        ),
        AppServer::Node => (r#"["node", "server.js", "{socket}"]"#, EVENT_LOOP),
        AppServer::Go => (
            r#"["./app", "{socket}"]"#,
            (100, "requests that one process serves at once: goroutines", false),
        ),
    };
    TemplateSettings { command, concurrency, reason, is_blocked_by_streams }
}

/// Returns the template with the server's command and concurrency.
pub(super) fn text(server: AppServer) -> String {
    let TemplateSettings { command, concurrency, reason, is_blocked_by_streams } = known(server);
    let streams = if is_blocked_by_streams {
        "streams = 0                    # an open WebSocket or event stream keeps a process or a thread busy\n"
    } else {
        ""
    };
    let concurrency = format!("concurrency = {concurrency}");
    TEMPLATE
        .replace("COMMAND", command)
        .replace("CONCURRENCY\n", &format!("{concurrency:<30} # {reason}\n{streams}"))
}
