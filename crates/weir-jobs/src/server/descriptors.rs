//! Limits connections by the number of open files, so that the log can always open its own.

use rustix::process::{Resource, getrlimit};

use crate::settings::JobServerLimits;

/// Lowers `connections_max` so that `descriptors_reserved` file descriptors remain free.
pub(super) fn limit_connections(limits: &mut JobServerLimits) {
    let Some(files) = getrlimit(Resource::Nofile).current else {
        return;
    };
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    let possible = files.saturating_sub(limits.descriptors_reserved + limits.refusals_max);
    if possible < limits.connections_max {
        tracing::warn!(
            open_files = files,
            wanted = limits.connections_max,
            connections_max = possible,
            "jobs.limits.connections_max lowered to what the limit of open files allows \
             (raise it with ulimit -n or LimitNOFILE=)"
        );
        limits.connections_max = possible.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_reserved_descriptors() {
        let files = getrlimit(Resource::Nofile)
            .current
            .map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
        let mut limits =
            JobServerLimits { connections_max: usize::MAX - 1, ..JobServerLimits::default() };
        limit_connections(&mut limits);
        assert!(limits.connections_max <= files - limits.descriptors_reserved);
        let mut small = JobServerLimits { connections_max: 3, ..JobServerLimits::default() };
        limit_connections(&mut small);
        assert_eq!(small.connections_max, 3);
    }
}
