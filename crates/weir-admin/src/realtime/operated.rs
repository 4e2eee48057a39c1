//! Realtime, for operators.

use std::sync::Arc;

use weir_base::switchboard::Switchboard;
use weir_realtime::hub::Hub;

/// What the routes stand on.
#[derive(Clone, Debug)]
pub struct Realtime {
    pub hub: Arc<Hub>,
    pub switches: Switchboard,
}
