//! Counts the bytes of the jobs that wait in queues with `bytes_max`. Jobs that were there before the limit (after a
//! start, or when it is set) are counted in slices, oldest first, for which their records are read.

use weir_log::Disk;

use super::arena::JobIndex;
use super::core::Engine;
use super::job_sizes::Sizing;
use super::journal::read_body_ahead;

/// Jobs that are counted before other work continues: some 0.5 ms, mostly for reading them. Small in the simulation, so
/// that crashes happen in between.
const SLICE_JOBS: usize = if cfg!(test) { 3 } else { 256 };

impl<D: Disk> Engine<D> {
    /// Returns the bytes of the jobs that wait in a queue, as far as they are counted. `None`: they are not.
    pub(crate) fn waiting_bytes(&self, queue: &str) -> Option<u64> {
        self.state.queues.find(self.state.queues.number(queue)?)?.bytes
    }

    /// Begins to count the bytes of the queues that need it, and ends it of those that no longer do.
    pub(crate) fn apply_sizing(&mut self) {
        let numbers: Vec<u16> = self.state.queues.iter().map(|(number, _)| number).collect();
        for queue in numbers {
            let counted = self.state.queues.get(queue).bytes.is_some();
            let is_wanted = self.state.queues.is_sized(queue);
            if is_wanted == counted {
                continue;
            }
            self.sizing.retain(|sizing| sizing.queue != queue);
            if is_wanted {
                self.state.queues.get_mut(queue).bytes = Some(0);
                self.sizing.push(Sizing { queue, up_to: None });
            } else {
                self.state.forget_sizes(queue);
            }
        }
    }

    /// Counts a slice of jobs.
    pub(crate) fn size_slice(&mut self) {
        let Some(Sizing { queue, up_to }) = self.sizing.last().copied() else { return };
        let jobs: Vec<JobIndex> = match self.state.queues.find(queue) {
            Some(found) if found.bytes.is_some() => {
                found.lane.after(up_to, &self.state.arena).take(SLICE_JOBS).collect()
            }
            _ => Vec::new(),
        };
        for job in &jobs {
            if self.state.sizes.get(*job) == 0 {
                let position = self.state.arena.get(*job).position;
                // A job that can't be read is no bytes; its fetch finds that out.
                let bytes = read_body_ahead(&mut self.ahead, position).map(|body| body.json.len());
                self.state.count_bytes(*job, size_of(bytes.unwrap_or(0)));
            }
        }
        match jobs.last() {
            Some(last) if jobs.len() == SLICE_JOBS => {
                let up_to = Some(self.state.arena.get(*last).order);
                if let Some(sizing) = self.sizing.last_mut() {
                    sizing.up_to = up_to;
                }
            }
            _ => drop(self.sizing.pop()),
        }
    }
}

/// Returns the size of a job as it is counted.
pub(crate) fn size_of(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
