//! `[gems]`: the index of gems. The table switches it on.

mod mirror;
mod postgres;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use weir_gems::settings::GemsSettings;
use weir_gems::store::SqliteSettings;
use weir_gems::webhooks::WebhookSettings;
use weir_net::TlsSettings;
use weir_settings::{Choice, Section, TableReader};

pub use self::mirror::{Mirror, read_policy_file};
pub(crate) use self::postgres::Postgres;
use super::tls;

/// Where gems are served, and where they are stored.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "gems", check = Self::finish)]
pub struct Gems {
    /// The table is in the file.
    #[setting(skip)]
    pub is_enabled: bool,
    /// Where the index is served by itself, at /. Opened when it is set here or when there is no
    /// mount; "off": only at mount.
    #[setting(listener, upgrade, default = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 7422))))]
    listen: Option<SocketAddr>,
    #[setting(skip)]
    is_listen_set: bool,
    /// The index is served at front.listen, too, where every path begins with this: "/gems-index". No
    /// app gets such a request. None: only at listen.
    mount: Option<String>,
    /// Where the index is stored: in an SQLite file under data_dir, or in Postgres
    /// (gems.postgres.url), for several Weirs at once.
    #[setting(choice)]
    pub store: StoreKind,
    /// Folder of the .gem files; made when missing. None: gems/files in data_dir.
    files_dir: Option<PathBuf>,
    #[setting(flatten)]
    pub settings: GemsSettings,
    #[setting(with = tls::read_section)]
    pub tls: Option<TlsSettings>,
    /// The folder of everything but `.gem` files.
    #[setting(skip)]
    pub folder: PathBuf,
    #[setting(section, default = SqliteSettings::new(DATABASE))]
    pub sqlite: SqliteSettings,
    #[setting(section)]
    pub postgres: Postgres,
    #[setting(section)]
    pub webhooks: WebhookSettings,
    #[setting(with = mirror::read_section)]
    pub mirror: Mirror,
}

/// What stores the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Choice)]
pub enum StoreKind {
    #[default]
    Sqlite,
    Postgres,
}

/// The database, in the folder of gems.
const DATABASE: &str = "index.db";
/// `.gem` files, in the folder of gems.
const FILES: &str = "files";
/// What is switched off, in the folder of gems.
const SWITCHES: &str = "switches.json";

/// Reads the table, whose presence enables the part.
pub(crate) fn read_section(gems: &mut Gems, table: &mut TableReader<'_>) {
    gems.is_enabled = table.is_set("gems");
    table.section("gems", |table| gems.read(table));
}

impl Gems {
    /// Returns its own listening address, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        let is_opened = self.is_enabled && (self.is_listen_set || self.mount.is_none());
        self.listen.filter(|_| is_opened)
    }

    /// Returns the prefix of its paths at the front. None: it is not served there.
    pub fn mount(&self) -> Option<&str> {
        self.mount.as_deref().filter(|_| self.is_enabled)
    }

    /// Returns the folder of `.gem` files.
    pub fn files_dir(&self) -> PathBuf {
        self.files_dir.clone().unwrap_or_else(|| self.folder.join(FILES))
    }

    /// Returns the path of the file that stores which endpoints are switched off.
    pub fn switches_file(&self) -> PathBuf {
        self.folder.join(SWITCHES)
    }

    pub(super) fn derive_paths(&mut self, data_dir: &Path) {
        self.folder = data_dir.join("gems");
        self.sqlite.path = self.folder.join(DATABASE);
    }

    fn finish(&mut self, table: &mut TableReader<'_>) {
        let is_on = self.listen.is_some();
        self.is_listen_set = is_on && table.is_set("listen");
        if !is_on && !table.is_set("mount") {
            table.error_at("listen", "\"off\" needs gems.mount, or the index is served nowhere");
        }
        if let Some(problem) = self.mount.as_deref().and_then(mount_error) {
            table.error_at("mount", &problem);
        }
    }
}

/// What realtime and its clients have at the front.
const TAKEN: [&str; 3] = ["app", "apps", "users"];

/// Returns why this cannot be a prefix of paths, if so.
fn mount_error(mount: &str) -> Option<String> {
    let is_plain = |part: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~".contains(letter);
        !part.is_empty() && part != "." && part != ".." && part.chars().all(is_plain)
    };
    let parts: Vec<&str> = mount.split('/').collect();
    match parts.split_first() {
        Some((&"", rest)) if !rest.is_empty() && rest.iter().all(|part| is_plain(part)) => {}
        _ => {
            let how = "write a path like \"/gems-index\": it begins with / and does not end with it, of letters, digits and -_.~";
            return Some(format!("{mount:?} is not a valid path; {how}"));
        }
    }
    let taken = TAKEN.into_iter().find(|taken| parts[1] == *taken)?;
    Some(format!("paths below /{taken} are realtime's; choose another, like \"/gems-index\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_is_a_plain_path() {
        for mount in ["/gems-index", "/a/b", "/~x/1.0_2"] {
            assert_eq!(mount_error(mount), None, "{mount}");
        }
        for mount in
            ["", "/", "gems", "/gems/", "//gems", "/a b", "/a%20b", "/../x", "/a?b", "/./a"]
        {
            let problem = mount_error(mount).expect(mount);
            assert!(problem.contains("write a path like"), "{problem}");
        }
        for mount in ["/app", "/apps/gems", "/users/x"] {
            let problem = mount_error(mount).expect(mount);
            assert!(problem.contains("realtime's"), "{problem}");
        }
    }
}
