//! `[[realtime.apps]]`.

use weir_realtime::settings::AppSettings;

use super::super::keys::{Key, Keys};

/// One app; None: it has no name or no secret, which is a mistake already.
pub(super) fn read(keys: &mut Keys<'_>) -> Option<AppSettings> {
    let (mut id, mut key, mut secret) = (String::new(), String::new(), None);
    keys.required_text(Key::live("id", "In the paths of the HTTP API: /apps/ID/events."), &mut id);
    keys.required_text(
        Key::live("key", "Names the app in every client: /app/KEY. Not a secret."),
        &mut key,
    );
    keys.required_secret(
        Key::live("secret", "Signs what the app's server sends, and what Weir sends there."),
        &mut secret,
    );
    Some(AppSettings::new(&id, &key, secret?))
}
