//! `[[front.apps]]`.

use std::collections::HashSet;
use std::path::PathBuf;

use weir_front::{AppLimits, AppSettings, ForwardedHeader, UpstreamAddress};
use weir_settings::{Section, TableReader};
use weir_supervisor::workers::GroupName;

use super::processes::Processes;
use super::rules;
use super::sockets::SharedSockets;

/// An app, and how its workers are started.
#[derive(Clone, Debug)]
pub struct App {
    pub settings: AppSettings,
    /// None: something else starts them.
    pub processes: Option<Processes>,
    /// None: requests get to its workers through the proxy.
    pub sockets: Option<SharedSockets>,
    /// Shown during maintenance.
    pub maintenance_page: Option<PathBuf>,
}

/// Largest maintenance page, which is kept in memory.
const PAGE_BYTES_MAX: u64 = 4 << 20;

impl App {
    /// Reads the app's own maintenance page, if it has one. `Err`: why it cannot be read.
    pub fn page(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = &self.maintenance_page else { return Ok(None) };
        let shown = path.display();
        let unreadable = |error: std::io::Error| format!("{shown} can't be read: {error}");
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if bytes > PAGE_BYTES_MAX {
            return Err(format!("{shown} has {bytes} bytes; a page has at most {PAGE_BYTES_MAX}"));
        }
        std::fs::read(path).map(Some).map_err(unreadable)
    }
}

/// The keys of every app.
#[derive(Debug, Section)]
#[section(restart, path = "front.apps", check = Self::check_routes)]
struct AppTable {
    /// Required. Names the app in logs, metrics and commands.
    #[setting(required_text)]
    name: String,
    /// Hosts that the app serves, without a port. Empty: all.
    hosts: Vec<String>,
    /// Paths that the app serves, including everything below them. Empty: all. If several apps
    /// match, one with a host takes precedence, then the one with the longer path. /app/ and
    /// /apps/ belong to realtime where it has apps.
    paths: Vec<String>,
    /// Where the app's workers listen, one address for each process: "unix:/PATH" or "IP:PORT". A
    /// worker that is removed finishes the requests that it has. Required, unless there is a command.
    #[setting(some_texts, reload)]
    upstreams: Vec<UpstreamAddress>,
    /// The HTML file that clients get during maintenance, with 503 (weir workers maintenance APP on).
    /// None: a plain page of Weir's own.
    maintenance_page: Option<PathBuf>,
    /// Header fields that tell workers about the client and the proxies in between:
    /// "x-forwarded" (X-Forwarded-For, -Proto and -Host), "forwarded" (RFC 7239),
    /// "x-request-start", "x-request-id". Leave out what the app does not read. Fields with
    /// these names that a client sends are always removed.
    #[setting(parsed_texts, default = ForwardedHeader::ALL.to_vec())]
    forwarded_headers: Vec<ForwardedHeader>,
    #[setting(flatten)]
    limits: AppLimits,
}

impl AppTable {
    fn check_routes(&mut self, table: &mut TableReader<'_>) {
        if self.hosts.iter().any(|host| host.is_empty() || host.contains([':', '/', '*'])) {
            let hint = "write names like \"shop.example\", without scheme, port or path";
            table.error_at("hosts", hint);
        }
        if self.paths.iter().any(|path| !path.starts_with('/') || path.contains(['?', '#'])) {
            table.error_at("paths", "write paths like \"/shop\"");
        }
    }
}

/// The names that are in use.
#[derive(Debug, Default)]
pub(super) struct AppNames(HashSet<String>);

impl AppNames {
    /// Reads one app. A missing name or missing workers are errors.
    pub(super) fn read(&mut self, table: &mut TableReader<'_>) -> App {
        let mut app = AppTable::default();
        app.read(table);
        self.check_name(table, &app.name);
        let processes = Processes::read_app(table);
        check_workers(table);
        let mut settings = AppSettings {
            hosts: app.hosts,
            paths: app.paths,
            workers: app.upstreams,
            forwarded_headers: app.forwarded_headers,
            limits: app.limits,
            ..AppSettings::new(app.name)
        };
        rules::read(table, &mut settings);
        let sockets = SharedSockets::read(table, processes.as_ref());
        if let (Some(processes), None) = (&processes, &sockets) {
            processes.check_listen_placeholder(table);
        }
        App { settings, processes, sockets, maintenance_page: app.maintenance_page }
    }

    fn check_name(&mut self, table: &mut TableReader<'_>, name: &str) {
        if let Err(error) = name.parse::<GroupName>()
            && !name.is_empty()
        {
            table.error_at("name", &error.to_string());
        }
        if !name.is_empty() && !self.0.insert(name.to_owned()) {
            table.error_at("name", &format!("{name:?} is already the name of another app"));
        }
    }
}

fn check_workers(table: &mut TableReader<'_>) {
    if table.is_set("command") && table.is_set("upstreams") {
        table.error_at("command", "set either command or upstreams, not both");
    } else {
        let meaning = "Weir starts the workers, or something else does";
        table.require_either("command", "upstreams", meaning);
    }
}
