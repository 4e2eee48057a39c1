//! Reads the memory usage of the process.

/// Returns the resident memory of this process in bytes, or 0 if it is unknown.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes =
        resident.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok());
    kilobytes.unwrap_or(0_u64) << 10
}
