//! `[gems]`: settings of the gem server, and its limits.

use std::time::Duration;

use weir_settings::{COUNT, Choice, Section, TableReader, WAIT};

use crate::import_file::ImportLimits;
use crate::package::PackageLimits;

/// How gems are served. Replaced as a whole when the settings are reloaded.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(
    reload,
    path = "gems",
    check = Self::check_files_url,
    removed = "public_pages",
    removed = "downloads_interval"
)]
pub struct GemsSettings {
    /// What every path begins with: `/gems-index`. Empty: nothing, it has an address of its own.
    #[setting(skip)]
    pub mount: String,
    /// Base URL from which clients download .gem files, such as "https://files.example/gems";
    /// /NAME-VERSION.gem is appended. None: they are served here.
    pub files_url: Option<String>,
    /// Clients that may read and install: "anyone", or those with an API key with the scope
    /// index_rubygems: "key". Pushing and yanking always require a key.
    #[setting(choice)]
    pub read: Readers,
    #[setting(section)]
    pub limits: GemsLimits,
}

/// Who may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Choice)]
pub enum Readers {
    /// Whoever reaches the index.
    #[default]
    Anyone,
    /// Who has a key with [`crate::store::Scope::IndexRubygems`].
    #[choice("key")]
    WithKey,
}

/// `[gems.limits]`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "gems.limits", removed = "downloads_waiting_max")]
pub struct GemsLimits {
    /// Names in one request to the dependency API; more get 422. Bundler sends 50 at a time.
    // The same limit as formerly on rubygems.org.
    #[setting(advanced, range = COUNT, default = 200)]
    pub dependency_names_max: usize,
    /// Bytes of one response of the dependency API. A longer one is replaced by 413, and clients
    /// continue with the compact index.
    // Enough for 50 gems with 500 releases of 12 dependencies each.
    #[setting(advanced, size, range = 1 << 10..=1 << 32, default = 16 << 20)]
    pub dependency_answer_bytes_max: usize,
    /// Bytes of all responses of the dependency API that clients have not read yet; one more
    /// gets 503.
    // Enough for eight of the largest responses, or thousands of usual ones.
    #[setting(size, range = 1 << 10..=1 << 32, default = 128 << 20)]
    pub dependency_memory_bytes_max: u64,
    /// The same for responses to /info that are not cached in memory, for specifications and for
    /// pages.
    // The largest of rubygems.org has 1.5 MB.
    #[setting(size, range = 1 << 10..=1 << 32, default = 128 << 20)]
    pub info_memory_bytes_max: u64,
    /// Share of each of these two limits that one client may use, but always one response; one
    /// more gets 503. A client is an address (of IPv6: its /64); behind front.trusted_proxies it
    /// is the forwarded address; clients on this machine are not counted. 100: all.
    // Enough for two of the largest responses, or the usual requests of a whole office.
    #[setting(range = 1..=100, default = 25)]
    pub client_memory_percent_max: u8,
    /// How long a client may take to read a response that counts for these two limits, however
    /// steadily it reads; then its connection is cut, or its stream reset.
    // Enough for the largest response at 140 KB/s.
    #[setting(range = WAIT, default = Duration::from_secs(120))]
    pub answer_timeout: Duration,
    /// Pushes at once, over all cores; one more gets 503.
    // Each can keep a core busy with decompression, and the disk with writing.
    #[setting(range = 1..=10_000, default = 8)]
    pub pushes_max: u32,
    /// How long a client may be silent within its request body; then it gets 408.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(30))]
    pub body_timeout: Duration,
    /// Bytes of the other fields of a push, or of a yank; more get 413.
    #[setting(advanced, size, range = 1 << 10..=1 << 32, default = 1 << 20)]
    pub form_bytes_max: usize,
    /// Wrong API keys per minute from one client that are rejected immediately; after that, each
    /// further key of the client that was not valid before waits wrong_key_delay. Clients are
    /// those of client_memory_percent_max; all on this machine count as one.
    // The same limit as for the passwords of job clients.
    #[setting(range = COUNT, default = 10)]
    pub wrong_keys_max: u32,
    /// How long a key of a client over wrong_keys_max waits for its check.
    #[setting(range = WAIT, default = Duration::from_secs(1))]
    pub wrong_key_delay: Duration,
    /// Keys that wait for wrong_key_delay at once, over all clients and cores; one more gets
    /// 429.
    #[setting(advanced, range = 1..=10_000, default = 100)]
    pub waiting_keys_max: u32,
    #[setting(flatten)]
    pub package: PackageLimits,
    #[setting(flatten)]
    pub import: ImportLimits,
}

impl GemsSettings {
    fn check_files_url(&mut self, table: &mut TableReader<'_>) {
        if let Some(problem) = self.files_url.as_deref().and_then(files_url_problem) {
            table.error_at("files_url", &problem);
        }
    }
}

/// Returns why a URL can't be used as `files_url`, if so.
fn files_url_problem(url: &str) -> Option<String> {
    (!is_base_url(url)).then(|| {
        format!("{url:?} is no URL to which a file's name can be appended; write it like \"https://files.example/gems\"")
    })
}

/// Returns whether a text is an absolute URL to which paths can be appended.
pub(crate) fn is_base_url(url: &str) -> bool {
    let has_scheme = url.starts_with("https://") || url.starts_with("http://");
    url.parse::<hyper::Uri>().is_ok_and(|uri| {
        has_scheme
            && uri.authority().is_some_and(|it| !it.host().is_empty())
            && uri.query().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
