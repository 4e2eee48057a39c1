//! The state of realtime's routes.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;
use weir_base::switchboard::Switchboard;
use weir_realtime::hub::Hub;

/// The hub with its switches, and the file for its backup.
#[derive(Clone, Debug)]
pub struct Realtime {
    pub hub: Arc<Hub>,
    pub switches: Switchboard,
    /// Where a backup finds the histories that it asks for.
    pub backup_file: Arc<Mutex<PathBuf>>,
}
