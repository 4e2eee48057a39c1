//! `[gems]`: the index of gems. The table switches it on.

mod limits;
mod mirror;
mod postgres;
mod webhooks;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use weir_gems::settings::{GemsSettings, Readers};
use weir_gems::store::SqliteSettings;
use weir_gems::webhooks::WebhookSettings;
use weir_net::TlsSettings;

pub use self::mirror::{Mirror, read_policy_file};
pub(crate) use self::postgres::Postgres;
use super::keys::{Key, Keys};
use super::tls;
use weir_settings::{DAY, SECOND};

/// Where gems are served, and where they are kept.
#[derive(Clone, Debug)]
pub struct Gems {
    /// The table is in the file.
    pub is_enabled: bool,
    listen: SocketAddr,
    is_listen_set: bool,
    /// What paths at the front begin with.
    mount: Option<String>,
    pub tls: Option<TlsSettings>,
    /// The folder of everything but `.gem` files.
    pub folder: PathBuf,
    files_dir: Option<PathBuf>,
    pub settings: GemsSettings,
    pub store: StoreKind,
    pub sqlite: SqliteSettings,
    pub postgres: Postgres,
    pub webhooks: WebhookSettings,
    pub mirror: Mirror,
}

/// What keeps the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    Sqlite,
    Postgres,
}

/// The database, in the folder of gems.
const DATABASE: &str = "index.db";
/// `.gem` files, in the folder of gems.
const FILES: &str = "files";
/// What is switched off, in the folder of gems.
const SWITCHES: &str = "switches.json";

impl Default for Gems {
    fn default() -> Self {
        Self {
            is_enabled: false,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7422)),
            is_listen_set: false,
            mount: None,
            tls: None,
            folder: PathBuf::new(),
            files_dir: None,
            settings: GemsSettings::default(),
            store: StoreKind::Sqlite,
            sqlite: SqliteSettings::new(DATABASE),
            postgres: Postgres::default(),
            webhooks: WebhookSettings::default(),
            mirror: Mirror::default(),
        }
    }
}

/// The table, which switches the part on.
pub(crate) fn read_section(gems: &mut Gems, table: &mut Keys<'_>) {
    gems.is_enabled = table.is_set("gems");
    table.section("gems", |table| gems.read(table));
}

impl Gems {
    /// The address of its own; None: it has none.
    pub fn address(&self) -> Option<SocketAddr> {
        let is_opened = self.is_enabled && (self.is_listen_set || self.mount.is_none());
        is_opened.then_some(self.listen)
    }

    /// What paths at the front begin with; None: it is not there.
    pub fn mount(&self) -> Option<&str> {
        self.mount.as_deref().filter(|_| self.is_enabled)
    }

    /// Where `.gem` files are kept.
    pub fn files_dir(&self) -> PathBuf {
        self.files_dir.clone().unwrap_or_else(|| self.folder.join(FILES))
    }

    /// Where it is kept which endpoints are switched off.
    pub fn switches_file(&self) -> PathBuf {
        self.folder.join(SWITCHES)
    }

    pub(super) fn settle(&mut self, data_dir: &Path) {
        self.folder = data_dir.join("gems");
        self.sqlite.path = self.folder.join(DATABASE);
    }

    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        self.read_places(keys);
        keys.section("tls", |keys| self.tls = tls::read(keys));
        keys.section("limits", |keys| limits::read(keys, &mut self.settings.limits));
        keys.section("sqlite", |keys| read_sqlite(keys, &mut self.sqlite));
        keys.section("postgres", |keys| self.postgres.read(keys));
        keys.section("webhooks", |keys| webhooks::read(keys, &mut self.webhooks));
        self.mirror.is_enabled = keys.is_set("mirror");
        keys.section("mirror", |keys| self.mirror.read(keys));
    }

    fn read_places(&mut self, keys: &mut Keys<'_>) {
        let is_on = super::keys::listener(
            keys,
            Key::fixed(
                "listen",
                "Where the index is served by itself, at /. Opened when it is set here or when there is no mount; \"off\": only at mount.",
            ),
            &mut self.listen,
        );
        self.is_listen_set = is_on && keys.is_set("listen");
        if !is_on && !keys.is_set("mount") {
            keys.error_at("listen", "\"off\" needs a mount: the index would be nowhere");
        }
        keys.optional_text(
            Key::fixed("mount", "The index is served at front.listen, too, where every path begins with this: \"/gems-index\". No app gets such a request. None: only at listen."),
            &mut self.mount,
        );
        if let Some(problem) = self.mount.as_deref().and_then(mount_problem) {
            keys.error_at("mount", &problem);
        }
        keys.choice_of(
            Key::fixed("store", "Where the index is kept: in an SQLite file under data_dir, or in Postgres (gems.postgres.url), for several Weirs at once."),
            &[("sqlite", StoreKind::Sqlite), ("postgres", StoreKind::Postgres)],
            &mut self.store,
        );
        keys.optional_path(
            Key::fixed(
                "files_dir",
                "Folder of the .gem files; made when missing. None: gems/files in data_dir.",
            ),
            &mut self.files_dir,
        );
        keys.optional_text(
            Key::live("files_url", "Where clients are sent for .gem files, such as \"https://files.example/gems\"; /NAME-VERSION.gem is appended. None: they are served here."),
            &mut self.settings.files_url,
        );
        keys.choice_of(
            Key::live("read", "Who may read and install: \"anyone\" who reaches the index, or who has an API key with the scope index_rubygems: \"key\". Pushing and yanking take a key in any case."),
            &[("anyone", Readers::Anyone), ("key", Readers::WithKey)],
            &mut self.settings.read,
        );
        keys.flag(
            Key::live(
                "public_pages",
                "Whether /gems/NAME is a page about the gem, for everybody who may read the index.",
            ),
            &mut self.settings.public_pages,
        );
        keys.duration(
            Key::live("downloads_interval", "How often counts of downloads are written. A crash loses those since the last time; with files_url there are none."),
            SECOND..=DAY,
            &mut self.settings.downloads_interval,
        );
        if let Some(problem) = self.settings.files_url.as_deref().and_then(files_url_problem) {
            keys.error_at("files_url", &problem);
        }
    }
}

/// What realtime and its clients have at the front.
const TAKEN: [&str; 3] = ["app", "apps", "users"];

/// Why paths can't begin with this.
fn mount_problem(mount: &str) -> Option<String> {
    let is_plain = |part: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~".contains(letter);
        !part.is_empty() && part != "." && part != ".." && part.chars().all(is_plain)
    };
    let parts: Vec<&str> = mount.split('/').collect();
    match parts.split_first() {
        Some((&"", rest)) if !rest.is_empty() && rest.iter().all(|part| is_plain(part)) => {}
        _ => {
            let how = "write a path like \"/gems-index\": it begins with / and does not end with it, of letters, digits and -_.~";
            return Some(format!("{mount:?} is no path that clients send as it is; {how}"));
        }
    }
    let taken = TAKEN.into_iter().find(|taken| parts[1] == *taken)?;
    Some(format!("paths below /{taken} are realtime's; choose another, like \"/gems-index\""))
}

/// Why clients can't be sent there.
fn files_url_problem(url: &str) -> Option<String> {
    (!is_base(url)).then(|| {
        format!("{url:?} is no URL to which a file's name can be appended; write it like \"https://files.example/gems\"")
    })
}

/// Whether it is a whole URL to which paths can be appended.
fn is_base(url: &str) -> bool {
    let has_scheme = url.starts_with("https://") || url.starts_with("http://");
    url.parse::<hyper::Uri>().is_ok_and(|uri| {
        has_scheme
            && uri.authority().is_some_and(|it| !it.host().is_empty())
            && uri.query().is_none()
    })
}

fn read_sqlite(keys: &mut Keys<'_>, sqlite: &mut SqliteSettings) {
    keys.size(
        Key::fixed("reader_cache_bytes", "Memory for pages of the database of each connection that reads; there is one for each core, and one for each list that is built."),
        64 << 10..=1 << 40,
        &mut sqlite.reader_cache_bytes,
    );
    keys.size(
        Key::fixed("mapped_bytes", "So much of the file, from its beginning, is mapped by each connection that reads, which nearly doubles the rate of /info. It counts as resident memory, several times over with several cores, but is the kernel's page cache: it goes as soon as the memory is needed. A disk that fails to read ends the service process, which is started anew. 0: everything is read by calls."),
        0..=SqliteSettings::MAPPED_BYTES_MAX,
        &mut sqlite.mapped_bytes,
    );
    keys.size(
        Key::fixed(
            "writer_cache_bytes",
            "Memory for pages of the database of the connection that writes.",
        ),
        64 << 10..=1 << 40,
        &mut sqlite.writer_cache_bytes,
    );
    keys.size(
        Key::fixed("info_cache_bytes", "Memory for answers to /info that were asked for lately, for all cores together. Each use is checked against the database, so nothing is out of date. 0: none is kept."),
        0..=1 << 40,
        &mut sqlite.info_cache_bytes,
    );
    keys.number(
        Key::fixed("import_batch_gems", "Gems that an import adds in one transaction. More is quicker; pushes wait that much longer meanwhile."),
        1..=1_000_000,
        &mut sqlite.import_batch,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_a_path_that_clients_send_as_it_is() {
        for mount in ["/gems-index", "/a/b", "/~x/1.0_2"] {
            assert_eq!(mount_problem(mount), None, "{mount}");
        }
        for mount in
            ["", "/", "gems", "/gems/", "//gems", "/a b", "/a%20b", "/../x", "/a?b", "/./a"]
        {
            let problem = mount_problem(mount).expect(mount);
            assert!(problem.contains("write a path like"), "{problem}");
        }
        for mount in ["/app", "/apps/gems", "/users/x"] {
            let problem = mount_problem(mount).expect(mount);
            assert!(problem.contains("realtime's"), "{problem}");
        }
    }

    #[test]
    fn clients_are_sent_to_a_whole_url() {
        for url in ["https://files.example/gems", "http://127.0.0.1:9000", "https://a.example/"] {
            assert_eq!(files_url_problem(url), None, "{url}");
        }
        for url in
            ["", "files.example", "ftp://files.example", "https://", "https://a/b?c=", "/gems"]
        {
            assert!(files_url_problem(url).is_some(), "{url}");
        }
    }
}
