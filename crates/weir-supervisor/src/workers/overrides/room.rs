//! Room in the budget for the process that serves a limited class of jobs: threads that its group does without. Pure.

use crate::workers::values::JobSpec;

/// Returns the threads of each of `processes`, at most `threads`, that leave the rest of `room` connections unused. None: not
/// even one thread each does.
pub(crate) fn threads_within(
    room: u64,
    jobs: &JobSpec,
    processes: u32,
    threads: u32,
) -> Option<u32> {
    if processes == 0 || jobs.connections_per_thread == 0 {
        let fixed = u64::from(processes) * u64::from(jobs.connections_per_process);
        return (fixed <= room).then_some(threads);
    }
    let each = room / u64::from(processes);
    let of_threads = each.checked_sub(u64::from(jobs.connections_per_process))?;
    let fitting = of_threads / u64::from(jobs.connections_per_thread);
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX).min(threads);
    (fitting > 0).then_some(fitting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_threads_as_needed_are_done_without() {
        let jobs = |connections_per_thread, connections_per_process| JobSpec {
            connections_per_thread,
            connections_per_process,
            ..JobSpec::default()
        };
        for (room, spec, processes, threads, expected) in [
            (50, jobs(1, 0), 2, 25, Some(25)),
            (45, jobs(1, 0), 2, 25, Some(22)),
            (45, jobs(2, 2), 2, 25, Some(10)),
            (3, jobs(2, 2), 1, 25, None),
            (1, jobs(1, 0), 2, 25, None),
            (10, jobs(0, 5), 2, 25, Some(25)),
            (9, jobs(0, 5), 2, 25, None),
            (0, jobs(1, 1), 0, 25, Some(25)),
        ] {
            assert_eq!(
                threads_within(room, &spec, processes, threads),
                expected,
                "{room} {spec:?}"
            );
        }
    }
}
