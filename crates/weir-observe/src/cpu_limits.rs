//! Reads limits of CPU time of control groups, and how often they were reached. Both versions of control
//! groups are supported, because hosts with version 1 are still in use.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weir_advisor::observation::CpuLimit;

/// Depth of groups that is read. Kubernetes has about seven.
const DEPTH_MAX: usize = 16;
/// Processes whose groups are read.
const PROCESSES_MAX: usize = 1_000;

/// The groups with a limit, with their counters at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GroupCounters(BTreeMap<PathBuf, GroupSample>);

/// One group with a limit.
#[derive(Clone, Debug, Default, PartialEq)]
struct GroupSample {
    group: String,
    file: PathBuf,
    cores: f64,
    periods: u64,
    throttled: u64,
    /// The processes in it, with their services.
    processes: BTreeMap<u32, String>,
}

impl GroupCounters {
    /// Reads the groups of processes, which are given with their services. `mount`: `/sys/fs/cgroup`.
    pub(crate) fn read(
        proc: &Path,
        mount: &Path,
        processes: impl IntoIterator<Item = (u32, String)>,
    ) -> Self {
        let mut counters = Self::default();
        for (pid, service) in processes.into_iter().take(PROCESSES_MAX) {
            let file = proc.join(pid.to_string()).join("cgroup");
            let Ok(text) = fs::read_to_string(file) else { continue };
            for (root, own) in hierarchies(&text, mount) {
                let groups = Path::new(&own).ancestors().take(DEPTH_MAX);
                for group in groups {
                    counters.note(&root, group, pid, &service);
                }
            }
        }
        counters
    }

    /// Notes a process in a group, if the group has a limit.
    fn note(&mut self, root: &Path, group: &Path, pid: u32, service: &str) {
        let folder = root.join(group);
        let sample = match self.0.get_mut(&folder) {
            Some(sample) => sample,
            None => {
                let Some(sample) = GroupSample::read(&folder, group) else { return };
                self.0.entry(folder).or_insert(sample)
            }
        };
        sample.processes.insert(pid, service.to_owned());
    }

    /// Returns the limits, with the periods since `earlier`.
    pub(crate) fn limits_since(&self, earlier: &Self) -> Vec<CpuLimit> {
        let limit = |(folder, now): (&PathBuf, &GroupSample)| {
            let before = earlier.0.get(folder)?;
            let mut services: Vec<_> = now.processes.values().cloned().collect();
            services.sort_unstable();
            services.dedup();
            Some(CpuLimit {
                group: now.group.clone(),
                file: now.file.display().to_string(),
                services,
                pids: now.processes.keys().copied().collect(),
                cores: now.cores,
                periods: now.periods.saturating_sub(before.periods),
                throttled_periods: now.throttled.saturating_sub(before.throttled),
            })
        };
        self.0.iter().filter_map(limit).collect()
    }
}

impl GroupSample {
    /// Reads a group. None: it has no limit, or cannot be read.
    fn read(folder: &Path, group: &Path) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let (file, cores) = match read("cpu.max") {
            Some(text) => ("cpu.max", quota(text.split_whitespace())?),
            None => {
                let (quota_us, period_us) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
                ("cpu.cfs_quota_us", quota([quota_us.trim(), period_us.trim()].into_iter())?)
            }
        };
        let stat = read("cpu.stat")?;
        Some(Self {
            group: format!("/{}", group.display()),
            file: folder.join(file),
            cores,
            periods: field(&stat, "nr_periods ")?,
            throttled: field(&stat, "nr_throttled ")?,
            processes: BTreeMap::new(),
        })
    }
}

/// Returns the hierarchies that limit CPU time, each with the group of a process without the leading `/`,
/// from `/proc/PID/cgroup`: `4:cpu,cpuacct:/docker/0a`, in version 2 `0::/system.slice`.
fn hierarchies(text: &str, mount: &Path) -> Vec<(PathBuf, String)> {
    let hierarchy = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, own) = rest.split_once(':')?;
        let own = own.strip_prefix('/')?;
        // The group of a process outside of the container.
        if own.split('/').any(|part| part == "..") {
            return None;
        }
        let root = match controllers {
            "" if mount.join("unified").is_dir() => mount.join("unified"),
            "" => mount.to_owned(),
            _ if controllers.split(',').any(|it| it == "cpu") => mount.join(controllers),
            _ => return None,
        };
        Some((root, own.to_owned()))
    };
    text.lines().filter_map(hierarchy).collect()
}

/// Returns the cores of a quota and its period in microseconds. None: no limit (`max`, `-1`).
fn quota<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<f64> {
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then_some(quota / period).filter(|cores| cores.is_finite())
}

fn field(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes files below a folder.
    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
    }

    fn read(folder: &Path) -> GroupCounters {
        let processes = [(7, "sidekiq".to_owned()), (8, "web".to_owned())];
        GroupCounters::read(&folder.join("proc"), &folder.join("mount"), processes)
    }

    #[test]
    fn limits_of_a_group_and_of_those_above_it_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let stat = "usage_usec 5\nnr_periods 10\nnr_throttled 2\nthrottled_usec 9\n";
        write(
            folder.path(),
            &[
                ("proc/7/cgroup", "0::/app.slice/sidekiq.service\n"),
                ("proc/8/cgroup", "0::/app.slice/puma.service\n"),
                ("mount/app.slice/cpu.max", "150000 100000\n"),
                ("mount/app.slice/cpu.stat", stat),
                ("mount/app.slice/sidekiq.service/cpu.max", "max 100000\n"),
                ("mount/app.slice/sidekiq.service/cpu.stat", stat),
            ],
        );
        let earlier = read(folder.path());
        let stat = "nr_periods 110\nnr_throttled 82\n";
        write(folder.path(), &[("mount/app.slice/cpu.stat", stat)]);
        let limits = read(folder.path()).limits_since(&earlier);
        let expected = CpuLimit {
            group: "/app.slice".to_owned(),
            file: folder.path().join("mount/app.slice/cpu.max").display().to_string(),
            services: vec!["sidekiq".to_owned(), "web".to_owned()],
            pids: vec![7, 8],
            cores: 1.5,
            periods: 100,
            throttled_periods: 80,
        };
        assert_eq!(limits, [expected]);
    }

    #[test]
    fn version_1_and_the_group_of_a_container_are_read() {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &[
                ("proc/7/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/0a\n0::/docker/0a\n"),
                ("mount/cpu,cpuacct/docker/0a/cpu.cfs_quota_us", "20000\n"),
                ("mount/cpu,cpuacct/docker/0a/cpu.cfs_period_us", "100000\n"),
                (
                    "mount/cpu,cpuacct/docker/0a/cpu.stat",
                    "nr_periods 5\nnr_throttled 5\nthrottled_time 9\n",
                ),
                ("mount/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ("mount/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
                ("proc/8/cgroup", "0::/\n"),
                ("mount/cpu.max", "50000 100000\n"),
                ("mount/cpu.stat", "nr_periods 5\nnr_throttled 5\n"),
            ],
        );
        let counters = read(folder.path());
        let limits = counters.limits_since(&counters);
        let shown: Vec<_> =
            limits.iter().map(|it| (it.group.as_str(), it.cores, it.pids.as_slice())).collect();
        assert_eq!(shown, [("/", 0.5, &[7, 8][..]), ("/docker/0a", 0.2, &[7][..])]);
        // Of another container, whose groups are not visible here.
        assert_eq!(hierarchies("0::/../other\nodd\n", Path::new("/mount")), []);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = hierarchies(&format!("0::{text}"), Path::new("/nowhere"));
            let _ = (quota(text.split(' ')), field(&text, "nr_periods "));
        }
    }
}
