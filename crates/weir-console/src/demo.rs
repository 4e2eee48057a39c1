//! How the console recognizes a running `weir demo`, and asks it for a flood.

use weir_jobs::view::JobWorkerView;

/// The demo's worker, and the job that it waits for.
#[derive(Clone, Copy, Debug)]
pub struct DemoControl {
    /// A worker with this label belongs to a demo.
    pub worker_label: &'static str,
    /// Returns the job that asks for a flood.
    pub flood_job: fn() -> Vec<u8>,
}

impl DemoControl {
    /// Returns whether a demo is connected.
    pub(crate) fn is_running(self, workers: &[JobWorkerView]) -> bool {
        workers.iter().any(|worker| worker.labels.iter().any(|label| label == self.worker_label))
    }
}
