//! Computes Postgres settings by PgTune's rules (<https://pgtune.leopard.in.ua>), adapted to newer
//! hardware and versions. Each setting has a reason.
//!
//! Only the database's share of the memory counts. `io_method` is not set: containers forbid
//! `io_uring`, and the server would not start.

use serde::Serialize;

use super::PlannedSetting;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Postgres' default for worker processes.
const WORKERS_SHIPPED: u64 = 8;
/// Number of cores from which parallel queries are worthwhile.
const PARALLEL_CORES_MIN: u32 = 4;

/// The machine and the workload of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PostgresMachine {
    /// Memory that the database may use.
    pub memory_bytes: u64,
    /// Number of CPU cores.
    pub cores: u32,
    /// `max_connections`.
    pub connections: u32,
    /// The kind of load.
    pub workload: DatabaseWorkload,
    /// The type of its disk.
    pub storage: Storage,
}

/// The kind of load on a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DatabaseWorkload {
    /// Many small reads.
    Web,
    /// Many small writes, such as jobs.
    Oltp,
    /// A mix of small queries and reports.
    Mixed,
    /// Reports over large amounts of data.
    Warehouse,
    /// A desktop that runs other programs as well.
    Desktop,
}

/// The type of the database's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// A rotating disk.
    Hdd,
    /// SATA.
    Ssd,
    /// `NVMe`.
    Nvme,
}

/// Returns all settings, most important first.
#[must_use]
pub fn postgres_settings(machine: &PostgresMachine) -> Vec<PlannedSetting> {
    let mut settings = memory(machine);
    settings.extend(log(machine));
    settings.extend(disk(machine.storage));
    settings.extend(parallel(machine));
    settings
}

fn setting(name: &'static str, value: String, reason: &'static str) -> PlannedSetting {
    PlannedSetting { name, value, reason, restart: false }
}

fn at_start(name: &'static str, value: String, reason: &'static str) -> PlannedSetting {
    PlannedSetting { name, value, reason, restart: true }
}

/// Returns the default share of a machine's memory for a database next to an application.
#[must_use]
pub const fn postgres_share(memory_bytes: u64) -> u64 {
    memory_bytes / 4
}

/// Rounds to the nearest multiple of 16 MB below 256 MB, of 128 MB below 1 GB, of 256 MB below 4
/// GB, and of 1 GB above.
#[must_use]
pub(super) fn rounded(bytes: u64) -> u64 {
    let step = match bytes {
        bytes if bytes < 256 * MIB => 16 * MIB,
        bytes if bytes < GIB => 128 * MIB,
        bytes if bytes < 4 * GIB => 256 * MIB,
        _ => GIB,
    };
    bytes.saturating_add(step / 2) / step * step
}

/// Returns the size of `effective_cache_size` in bytes.
#[must_use]
pub fn effective_cache_size(machine: &PostgresMachine) -> u64 {
    rounded(match machine.workload {
        DatabaseWorkload::Desktop => machine.memory_bytes / 4,
        _ => machine.memory_bytes / 4 * 3,
    })
}

fn memory(machine: &PostgresMachine) -> Vec<PlannedSetting> {
    let PostgresMachine { memory_bytes, workload, .. } = *machine;
    let buffers = shared_buffers(machine);
    let cached = effective_cache_size(machine);
    let maintenance = match workload {
        DatabaseWorkload::Warehouse => memory_bytes / 8,
        _ => memory_bytes / 16,
    };
    let mut settings = vec![
        at_start(
            "max_connections",
            machine.connections.to_string(),
            "enough for the pools and the reserve",
        ),
        at_start("shared_buffers", size(buffers), "a quarter of the database's memory"),
        setting(
            "effective_cache_size",
            size(cached),
            "three quarters of it, for caches of Postgres and the kernel",
        ),
        setting(
            "work_mem",
            size(work_mem(machine)),
            "the rest, for three sorts at once in each session",
        ),
        setting(
            "maintenance_work_mem",
            size(maintenance.min(8 * GIB)),
            "a sixteenth of it, for VACUUM and indexes",
        ),
    ];
    if buffers >= 2 * GIB {
        settings.push(at_start("huge_pages", "try".to_owned(), "smaller page tables, from 2 GB"));
    }
    settings
}

/// Returns the size of `shared_buffers` in bytes.
#[must_use]
pub fn shared_buffers(machine: &PostgresMachine) -> u64 {
    rounded(match machine.workload {
        DatabaseWorkload::Desktop => machine.memory_bytes / 16,
        _ => machine.memory_bytes / 4,
    })
}

/// Returns the size of `work_mem` in bytes.
#[must_use]
pub fn work_mem(machine: &PostgresMachine) -> u64 {
    let workers = if machine.cores >= PARALLEL_CORES_MIN {
        u64::from(machine.cores)
    } else {
        WORKERS_SHIPPED
    };
    let left = machine.memory_bytes.saturating_sub(shared_buffers(machine));
    let each = left / ((u64::from(machine.connections) + workers) * 3);
    let share = match machine.workload {
        DatabaseWorkload::Web | DatabaseWorkload::Oltp => each,
        DatabaseWorkload::Mixed | DatabaseWorkload::Warehouse => each / 2,
        DatabaseWorkload::Desktop => each / 6,
    };
    share.max(4 * MIB)
}

fn log(machine: &PostgresMachine) -> Vec<PlannedSetting> {
    let (least, most) = match machine.workload {
        DatabaseWorkload::Web | DatabaseWorkload::Mixed => (GIB, 4 * GIB),
        DatabaseWorkload::Oltp => (2 * GIB, 8 * GIB),
        DatabaseWorkload::Warehouse => (4 * GIB, 16 * GIB),
        DatabaseWorkload::Desktop => (100 * MIB, 2 * GIB),
    };
    let buffers = (shared_buffers(machine) / 100 * 3).min(16 * MIB);
    vec![
        setting("min_wal_size", size(least), "WAL files are reused instead of created"),
        setting("max_wal_size", size(most), "fewer checkpoints while jobs write"),
        at_start("wal_buffers", size(buffers), "3 % of shared buffers, at most one file"),
    ]
}

fn disk(storage: Storage) -> Vec<PlannedSetting> {
    let (page_cost, concurrency, reason) = match storage {
        Storage::Hdd => ("4", 2, "a rotating disk"),
        Storage::Ssd => ("1.1", 200, "a disk without seeks"),
        Storage::Nvme => ("1.1", 1_000, "a disk without seeks, with deep queues"),
    };
    vec![
        setting("random_page_cost", page_cost.to_owned(), reason),
        setting("effective_io_concurrency", concurrency.to_string(), reason),
    ]
}

fn parallel(machine: &PostgresMachine) -> Vec<PlannedSetting> {
    let small_statements = matches!(
        machine.workload,
        DatabaseWorkload::Web | DatabaseWorkload::Oltp | DatabaseWorkload::Mixed
    );
    let jit = small_statements
        .then(|| setting("jit", "off".to_owned(), "compilation takes longer than such statements"));
    let mut settings: Vec<_> = jit.into_iter().collect();
    if machine.cores >= PARALLEL_CORES_MIN {
        let (all, some) = (machine.cores.to_string(), (machine.cores / 2).min(4).to_string());
        let reason = "one for each core";
        settings.extend([
            at_start("max_worker_processes", all.clone(), reason),
            setting("max_parallel_workers", all, reason),
            setting("max_parallel_workers_per_gather", some.clone(), "half the cores, at most 4"),
            setting("max_parallel_maintenance_workers", some, "half the cores, at most 4"),
        ]);
    }
    settings
}

/// Formats a size for `postgresql.conf` in the largest unit that divides it.
#[must_use]
pub fn size(bytes: u64) -> String {
    if bytes >= GIB && bytes.is_multiple_of(GIB) {
        format!("{}GB", bytes / GIB)
    } else if bytes >= MIB && bytes.is_multiple_of(MIB) {
        format!("{}MB", bytes / MIB)
    } else {
        format!("{}kB", bytes / KIB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(workload: DatabaseWorkload) -> PostgresMachine {
        let storage = Storage::Ssd;
        PostgresMachine { memory_bytes: 8 * GIB, cores: 4, connections: 200, workload, storage }
    }

    fn value(machine: &PostgresMachine, name: &str) -> Option<String> {
        let settings = postgres_settings(machine);
        settings.into_iter().find(|setting| setting.name == name).map(|setting| setting.value)
    }

    #[test]
    fn pgtunes_own_example_comes_out() {
        let machine = machine(DatabaseWorkload::Oltp);
        for (name, expected) in [
            ("shared_buffers", "2GB"),
            ("effective_cache_size", "6GB"),
            ("maintenance_work_mem", "512MB"),
            ("work_mem", "10280kB"),
            ("min_wal_size", "2GB"),
            ("max_wal_size", "8GB"),
            ("wal_buffers", "16MB"),
            ("huge_pages", "try"),
            ("random_page_cost", "1.1"),
            ("effective_io_concurrency", "200"),
            ("jit", "off"),
            ("max_worker_processes", "4"),
            ("max_parallel_workers_per_gather", "2"),
        ] {
            assert_eq!(value(&machine, name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(value(&machine, "io_method"), None);
    }

    #[test]
    fn sizes_are_rounded_as_somebody_would_set_them() {
        for (mib, expected) in [
            (0, "0kB"),
            (60, "64MB"),
            (512, "512MB"),
            (1_504, "1536MB"),
            (5_318, "5GB"),
            (5_270, "5GB"),
            (5_206, "5GB"),
            (2_048, "2GB"),
        ] {
            assert_eq!(size(rounded(mib * MIB)), expected, "{mib}");
        }
        assert_eq!(rounded(u64::MAX) % GIB, 0);
    }

    #[test]
    fn workloads_differ_where_pgtune_has_them_differ() {
        let at = |workload, name| value(&machine(workload), name).unwrap_or_default();
        assert_eq!(at(DatabaseWorkload::Mixed, "work_mem"), "5140kB");
        assert_eq!(at(DatabaseWorkload::Desktop, "shared_buffers"), "512MB");
        assert_eq!(at(DatabaseWorkload::Desktop, "effective_cache_size"), "2GB");
        assert_eq!(at(DatabaseWorkload::Warehouse, "maintenance_work_mem"), "1GB");
        assert_eq!(at(DatabaseWorkload::Warehouse, "jit"), "");
    }

    #[test]
    fn small_machines_get_the_floors() {
        let mut small = machine(DatabaseWorkload::Oltp);
        (small.memory_bytes, small.cores, small.storage) = (GIB, 2, Storage::Hdd);
        assert_eq!(value(&small, "work_mem").as_deref(), Some("4MB"));
        let few_cores = PostgresMachine { cores: 2, ..machine(DatabaseWorkload::Oltp) };
        assert_eq!(work_mem(&few_cores) / KIB, 10_082, "with the 8 workers that Postgres starts");
        assert_eq!(value(&small, "max_worker_processes"), None);
        assert_eq!(value(&small, "huge_pages"), None);
        assert_eq!(value(&small, "random_page_cost").as_deref(), Some("4"));
    }
}
