//! Checks of gems.

use weir_gems::settings::Readers;

use super::super::{Gems, Settings, StoreKind};
use weir_settings::Report;

pub(super) fn check(settings: &Settings, report: &mut Report) {
    let gems = &settings.gems;
    if gems.store == StoreKind::Postgres && gems.postgres.url.is_none() {
        let message = "gems.store: \"postgres\" needs gems.postgres.url, like \"postgres://weir@db.example/weir\"";
        report.error_at("gems.store", message.to_owned());
    }
    if gems.webhooks.retry_delay_max < gems.webhooks.retry_delay_min {
        let path = "gems.webhooks.retry_delay_max";
        report.error_at(path, format!("{path}: must not be below retry_delay_min"));
    }
    let limits = &gems.mirror.settings.limits;
    if limits.backoff_max < limits.backoff_min {
        let path = "gems.mirror.limits.advanced.backoff_max";
        report.error_at(path, format!("{path}: must not be below backoff_min"));
    }
}

pub(super) fn warn(settings: &Settings, warnings: &mut Vec<String>) {
    let gems = &settings.gems;
    let mut warn = |condition: bool, text: &str| {
        if condition {
            warnings.push(text.to_owned());
        }
    };
    let is_public = gems.address().is_some_and(|it| !it.ip().to_canonical().is_loopback());
    warn(
        is_public && gems.tls.is_none(),
        "gems.listen is not loopback and there is no gems.tls: API keys travel in clear text",
    );
    warn(
        gems.tls.is_some() && gems.address().is_none(),
        "gems.tls has no effect without gems.listen: with gems.mount alone, front.tls is used",
    );
    warn(
        gems.store == StoreKind::Sqlite && gems.postgres.url.is_some(),
        "gems.postgres has no effect without gems.store = \"postgres\"",
    );
    let limits = &gems.settings.limits.package;
    warn(
        limits.gem_bytes_max > limits.unpacked_bytes_max,
        "gems.limits.advanced.unpacked_bytes_max is below gem_bytes_max: large gems are accepted for upload but then rejected",
    );
    warn(
        gems.settings.read == Readers::WithKey && gems.settings.files_url.is_some(),
        "gems.read = \"key\" protects the index only; access to the .gem files at gems.files_url depends on that server",
    );
    warn_about_mirror(gems, &mut warn);
    if let Some(mount) = gems.mount() {
        warn_about_hidden_paths(settings, mount, warnings);
    }
}

/// Warns about settings that a mirror ignores, and about credentials in clear text.
fn warn_about_mirror(gems: &Gems, warn: &mut impl FnMut(bool, &str)) {
    let mirror = &gems.mirror;
    warn(
        mirror.is_enabled && gems.settings.files_url.is_some(),
        "gems.files_url sends clients elsewhere for every .gem file: files that gems.mirror fetches are never served",
    );
    let mut upstreams = mirror.settings.upstreams.iter();
    let is_unencrypted = upstreams.any(|it| it.credentials.is_some() && !it.url.is_encrypted());
    warn(
        is_unencrypted,
        "gems.mirror.upstreams has credentials for an address with http://: they travel in clear text",
    );
}

/// Warns about paths of apps that no request reaches.
fn warn_about_hidden_paths(settings: &Settings, mount: &str, warnings: &mut Vec<String>) {
    let is_below = |path: &&String| {
        path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for (index, app) in settings.front.apps.iter().enumerate() {
        for path in app.settings.paths.iter().filter(is_below) {
            warnings.push(format!(
                "front.apps[{index}].paths: {path} lies below gems.mount ({mount}), so the app gets no request to it"
            ));
        }
    }
}
