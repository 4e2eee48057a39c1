//! Checks of certificates: whether they can be used, and whether clients accept them.

use std::sync::Arc;

use weir_base::clock::{Clock, Timestamp};
use weir_net::tls::{self, Certificate, TlsFiles, TlsSettings};

use super::super::Settings;
use weir_settings::Report;

const DAY_SECONDS: u64 = 24 * 60 * 60;

pub(super) fn check(settings: &Settings, report: &mut Report) {
    for (section, tls) in sections(settings) {
        for files in &tls.certificates {
            if let Err(error) = Certificate::load(files) {
                report.error_at(section, format!("{section}: {error}"));
            }
        }
    }
}

pub(super) fn warn(settings: &Settings, warnings: &mut Vec<String>) {
    let now = Clock::system().now();
    for (section, tls) in sections(settings) {
        for files in &tls.certificates {
            // An unreadable certificate is an error, which `check` reports.
            if let Ok(certificate) = Certificate::load(files) {
                let warnings_of_file = certificate_warnings(files, &certificate, now);
                warnings
                    .extend(warnings_of_file.into_iter().map(|text| format!("{section}: {text}")));
            }
        }
    }
    warn_about_uncovered_hosts(settings, warnings);
}

fn sections(settings: &Settings) -> impl Iterator<Item = (&'static str, &TlsSettings)> {
    let all = [
        ("jobs.tls", &settings.jobs.tls),
        ("front.tls", &settings.front.tls),
        ("gems.tls", &settings.gems.tls),
    ];
    all.into_iter().filter_map(|(section, tls)| Some((section, tls.as_ref()?)))
}

fn certificate_warnings(
    files: &TlsFiles,
    certificate: &Certificate,
    now: Timestamp,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let file = files.cert.display();
    if certificate.expires() < now {
        let days = now.since(certificate.expires()).as_secs() / DAY_SECONDS;
        warnings.push(format!("{file} expired {days} days ago, so clients reject it; renew it"));
    }
    if certificate.valid_from() > now {
        let days = certificate.valid_from().since(now).as_secs().div_ceil(DAY_SECONDS);
        warnings.push(format!("{file} becomes valid in {days} days; clients reject it until then"));
    }
    let uncovered = files.hosts.iter().filter(|host| !certificate.covers(host));
    warnings.extend(uncovered.map(|host| {
        let names = certificate.names().join(", ");
        format!(
            "{file} has {names}, not {host}, which is among its hosts, so clients reject it there"
        )
    }));
    warnings
}

/// Warns about hosts of apps without a matching certificate.
fn warn_about_uncovered_hosts(settings: &Settings, warnings: &mut Vec<String>) {
    let Some(tls) = &settings.front.tls else { return };
    let certificates = tls.certificates.iter().map(|files| Certificate::load(files).map(Arc::new));
    let Ok(certificates) = certificates.collect::<Result<Vec<_>, _>>() else { return };
    for (index, app) in settings.front.apps.iter().enumerate() {
        for host in &app.settings.hosts {
            let certificate = tls::certificate_for(&certificates, host);
            if !certificate.is_some_and(|certificate| certificate.covers(host)) {
                warnings.push(format!(
                    "front.apps[{index}].hosts: front.tls has no certificate for {host}, so clients reject the connection"
                ));
            }
        }
    }
}
