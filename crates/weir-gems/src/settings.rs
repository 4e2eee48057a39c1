//! `[gems]`: what is served, and its limits.

use std::time::Duration;

use crate::import_file::ImportLimits;
use crate::package::PackageLimits;

/// How gems are served. Replaced as a whole when the settings are reloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GemsSettings {
    /// What every path begins with: `/gems-index`. Empty: nothing, it has an address of its own.
    pub mount: String,
    /// Where clients are sent for `.gem` files; the file's name is appended. None: they are served
    /// here.
    pub files_url: Option<String>,
    pub read: Readers,
    /// Whether `/gems/NAME` is a page for people.
    pub public_pages: bool,
    /// How often counts of downloads are kept. A crash loses those since the last time.
    pub downloads_interval: Duration,
    pub limits: GemsLimits,
}

/// Who may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// Whoever reaches the index.
    #[default]
    Anyone,
    /// Who has a key with [`crate::store::Scope::IndexRubygems`].
    WithKey,
}

/// `[gems.limits]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GemsLimits {
    /// Names in one request to the dependency API: 422.
    pub dependency_names_max: usize,
    /// Bytes of one answer of the dependency API: 413, and clients ask the compact index.
    pub dependency_answer_bytes_max: usize,
    /// Bytes of answers of the dependency API that their clients have not taken yet, all together;
    /// one that finds no room gets 503.
    pub dependency_memory_bytes_max: u64,
    /// The same of infos, specifications and pages that were read for one client alone.
    pub info_memory_bytes_max: u64,
    /// Of a hundred bytes of those two, how many one client may hold: one address, or one network of
    /// the newer kind. 100: all.
    pub client_memory_percent_max: u8,
    /// How long a client may take for an answer that holds room of those two; then it is cut off.
    pub answer_timeout: Duration,
    /// Pushes at once, over all cores. One more gets 503.
    pub pushes_max: u32,
    /// How long a client may be silent in the middle of a body: 408.
    pub body_timeout: Duration,
    /// Bytes of a body that is no gem: 413.
    pub form_bytes_max: usize,
    /// Wrong API keys a minute from one client that are answered at once; after that every key from
    /// there that was not right before waits `wrong_key_delay`.
    pub wrong_keys_max: u32,
    /// How long such a key waits for its check.
    pub wrong_key_delay: Duration,
    /// Keys that wait so at once, of all clients; one more gets 429.
    pub waiting_keys_max: u32,
    /// Releases whose downloads are counted in memory, until they are kept; others are not counted.
    pub downloads_waiting_max: usize,
    pub package: PackageLimits,
    pub import: ImportLimits,
}

impl Default for GemsSettings {
    fn default() -> Self {
        Self {
            mount: String::new(),
            files_url: None,
            read: Readers::Anyone,
            public_pages: false,
            downloads_interval: Duration::from_secs(10),
            limits: GemsLimits::default(),
        }
    }
}

impl Default for GemsLimits {
    fn default() -> Self {
        Self {
            // As rubygems.org had it; Bundler asks for at most 50.
            dependency_names_max: 200,
            // 50 gems with 500 releases of 12 dependencies each.
            dependency_answer_bytes_max: 16 << 20,
            // Eight of the largest, or thousands as they are usually.
            dependency_memory_bytes_max: 128 << 20,
            // rubygems.org's largest is 1.5 MB.
            info_memory_bytes_max: 128 << 20,
            // Two of the largest answers, or a whole office as it usually asks.
            client_memory_percent_max: 25,
            // The largest at 140 KB/s.
            answer_timeout: Duration::from_secs(120),
            // Each may hold a core with unpacking, and the disk with its file.
            pushes_max: 8,
            body_timeout: Duration::from_secs(30),
            form_bytes_max: 1 << 20,
            // As for passwords of jobs.
            wrong_keys_max: 10,
            wrong_key_delay: Duration::from_secs(1),
            waiting_keys_max: 100,
            // Some 10 MB.
            downloads_waiting_max: 100_000,
            package: PackageLimits::default(),
            import: ImportLimits::default(),
        }
    }
}
