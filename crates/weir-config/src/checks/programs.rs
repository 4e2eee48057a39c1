//! Commands whose program is not there now. No mistake: it may be installed after Weir was started.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::super::launch::Launch;
use super::super::{Settings, environment};

pub(super) fn warn(settings: &Settings, warnings: &mut Vec<String>) {
    let apps = settings.front.apps.iter().enumerate();
    let of_apps = apps.filter_map(|(index, app)| {
        Some((format!("front.apps[{index}].command"), &app.processes.as_ref()?.launch))
    });
    let of_jobs = settings.workers.iter();
    let of_jobs = of_jobs.map(|(name, own)| (format!("workers.{name}.command"), &own.launch));
    for (path, launch) in of_apps.chain(of_jobs) {
        warnings.extend(missing(launch).map(|why| format!("{path}: {why}")));
    }
}

/// Why the program can't be started, as far as one can see.
fn missing(launch: &Launch) -> Option<String> {
    let program = launch.command.first().filter(|it| !it.is_empty() && !it.contains('{'))?;
    let folder = launch.folder.as_deref().unwrap_or(Path::new(""));
    if program.contains('/') {
        let path = folder.join(program);
        return (!is_program(&path))
            .then(|| format!("{} is not an executable program", path.display()));
    }
    let own = launch.environment.iter().find(|(name, _)| name == "PATH");
    let folders: Vec<PathBuf> = match own {
        Some((_, path)) => std::env::split_paths(path.expose()).collect(),
        None => environment::search_path().collect(),
    };
    let is_there = folders.iter().any(|path| is_program(&folder.join(path).join(program)));
    (!is_there).then(|| {
        format!("{program} was not found in PATH; write its full path, or set PATH in environment = {{ .. }}")
    })
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
