//! The state of realtime's routes.

use std::sync::Arc;

use weir_base::switchboard::Switchboard;
use weir_realtime::hub::Hub;

/// The hub with its switches.
#[derive(Clone, Debug)]
pub struct Realtime {
    pub hub: Arc<Hub>,
    pub switches: Switchboard,
}
