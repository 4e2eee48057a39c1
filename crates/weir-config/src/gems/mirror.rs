//! `[gems.mirror]`: gems of other indexes. The table switches it on.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use weir_gems::mirror::MirrorSetupError;
use weir_gems::mirror::policy::{POLICY_BYTES_MAX, Policy, PolicyError};
use weir_gems::mirror::settings::{MirrorSettings, UpstreamSettings};
use weir_settings::{Section, TableReader};

/// The section.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "gems.mirror", check = Self::finish)]
pub struct Mirror {
    /// The table is in the file.
    #[setting(skip)]
    pub is_enabled: bool,
    #[setting(flatten)]
    pub settings: MirrorSettings,
    /// File of rules about names, one per line: names that never come from an upstream (`private
    /// acme-*`), and names that come from one upstream only (`from UPSTREAM NAME`). The first
    /// match decides. An empty file is an error, unless it has the line `none`. Reread at each
    /// reload. Gems that are pushed or imported here are private without a rule.
    #[setting(key = "policy", reload)]
    policy_file: Option<PathBuf>,
    #[setting(skip)]
    pub policy: Policy,
}

/// Reads the table, whose presence enables the mirror.
pub(super) fn read_section(mirror: &mut Mirror, table: &mut TableReader<'_>) {
    mirror.is_enabled = table.is_set("mirror");
    table.section("mirror", |table| mirror.read(table));
}

impl Mirror {
    fn finish(&mut self, table: &mut TableReader<'_>) {
        if let Some(path) = &self.policy_file {
            match read_policy_file(path) {
                Ok(policy) => self.policy = policy,
                Err(error) => table.error_at("policy", &format!("{}: {error}", path.display())),
            }
        }
        let mut are_whole = true;
        table.each("upstreams", |table| match UpstreamSettings::read(table) {
            Some(upstream) => self.settings.upstreams.push(upstream),
            None => are_whole = false,
        });
        if self.is_enabled && are_whole {
            self.check(table);
        }
    }

    fn check(&self, table: &mut TableReader<'_>) {
        if let Err(error) = self.settings.check(&self.policy) {
            let key = match &error {
                MirrorSetupError::Policy(_) => "policy",
                MirrorSetupError::Upstreams(_) | MirrorSetupError::Twice(_) => "upstreams",
            };
            table.named_error_at(key, error.to_string());
        }
    }
}

/// Reads a policy from a file.
pub fn read_policy_file(path: &Path) -> Result<Policy, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    // A file without a length, such as a device, may be endless.
    let mut file = File::open(path).map_err(cannot)?.take(POLICY_BYTES_MAX as u64 + 1);
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(cannot)?;
    text.parse().map_err(|error: PolicyError| error.to_string())
}
