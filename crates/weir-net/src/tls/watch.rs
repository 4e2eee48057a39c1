//! Reloads certificates whose files have changed.

use std::sync::{Arc, PoisonError};

use super::files::Stamp;
use super::{Tls, TlsReloadError};

impl Tls {
    /// Checks the files periodically, and loads those that have changed. Errors are logged
    /// with `setting`, once for each change.
    pub async fn watch(self: Arc<Self>, setting: &'static str) {
        loop {
            tokio::time::sleep(self.settings.reload_interval).await;
            let tls = Arc::clone(&self);
            // Blocking: the file system may be slow.
            let result = tokio::task::spawn_blocking(move || tls.reload_if_changed()).await;
            match result {
                Ok(Ok(false)) => {}
                Ok(Ok(true)) => tracing::info!(setting, "certificates were reloaded"),
                Ok(Err(error)) => {
                    tracing::error!(setting, %error, "a new certificate can't be used; the one before stays");
                }
                // The task panicked; the panic hook has logged it.
                Err(_) => return,
            }
        }
    }

    /// Reloads if the files have changed, and returns whether they had.
    fn reload_if_changed(&self) -> Result<bool, TlsReloadError> {
        let stamps = Stamp::read_all(&self.settings.certificates);
        if *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) == stamps {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }
}
