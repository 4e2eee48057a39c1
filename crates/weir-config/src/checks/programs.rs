//! Commands whose program does not exist now. This is a warning, because it may be installed after Weir has started.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::super::launch::Launch;
use super::super::{Settings, environment};

pub(super) fn warn(settings: &Settings, warnings: &mut Vec<String>) {
    let apps = settings.front.apps.iter().enumerate();
    let app_commands = apps.filter_map(|(index, app)| {
        Some((format!("front.apps[{index}].command"), &app.processes.as_ref()?.launch))
    });
    let job_commands = settings.workers.iter();
    let job_commands = job_commands
        .map(|(name, path_variable)| (format!("workers.{name}.command"), &path_variable.launch));
    for (path, launch) in app_commands.chain(job_commands) {
        warnings.extend(missing_program(launch).map(|why| format!("{path}: {why}")));
    }
}

/// Returns why the program cannot be started, if that is known in advance.
fn missing_program(launch: &Launch) -> Option<String> {
    let program = launch.command.first().filter(|it| !it.is_empty() && !it.contains('{'))?;
    let folder = launch.folder.as_deref().unwrap_or(Path::new(""));
    if program.contains('/') {
        let path = folder.join(program);
        return (!is_program(&path))
            .then(|| format!("{} is not an executable program", path.display()));
    }
    let path_variable = launch.environment.iter().find(|(name, _)| name == "PATH");
    let folders: Vec<PathBuf> = match path_variable {
        Some((_, path)) => std::env::split_paths(path.expose()).collect(),
        None => environment::search_path().collect(),
    };
    let is_found = folders.iter().any(|path| is_program(&folder.join(path).join(program)));
    (!is_found).then(|| {
        format!("{program} was not found in PATH; write its full path, or set PATH in environment = {{ .. }}")
    })
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
