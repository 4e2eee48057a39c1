//! Tasks: actions on all matching jobs that the server runs in the background, in steps.
//!
//! A task never changes a job that came after it began. Each step is saved before it acts: the keys of the jobs that it
//! is about to change. After `kill -9`, the task goes on where it was, and counts those that are gone as changed. A
//! store that can't be reached makes it wait.

mod record;
mod requests;
mod run;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::{Mutex, Notify};
use weir_base::clock::Timestamp;
use weir_base::kept;

use self::record::{LiveTask, TaskFile, TaskRecord};
pub(super) use self::requests::process;
pub(super) use self::run::supervise;
use crate::handle::HandleError;
use crate::metrics::{JobServerLimit, JobsMetrics};
use crate::settings::JobServerSettings;
use crate::view::{TaskState, TaskView};

/// All tasks of a server.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    kept: RefCell<TaskFile>,
    /// Those that run in this process.
    live: RefCell<BTreeMap<u64, LiveTask>>,
    path: Option<PathBuf>,
    /// When the file was last written.
    saved_at: Cell<Timestamp>,
    /// Held while the file is written, so that the newest state is written last.
    saving: Mutex<()>,
    /// Held during a step and the pause after it: all tasks together use at most half of the time.
    steps: Mutex<()>,
    /// Notified when a task begins, is to stop, or has ended.
    changed: Notify,
}

impl Tasks {
    /// Reads the tasks of the last process. Blocks on the disk. A file that can't be read is set aside.
    pub(crate) fn open(settings: &JobServerSettings, now: Timestamp) -> Self {
        let path = settings.tasks_file.clone();
        let mut kept = path.as_deref().map(read).unwrap_or_default();
        let store = store_text(settings);
        kept.tasks.iter_mut().for_each(|task| task.reopen(&store, now));
        Self { kept: RefCell::new(kept), path, ..Self::default() }
    }

    /// Returns the number of tasks that run.
    pub(crate) fn running(&self) -> usize {
        let is_running = |task: &&TaskRecord| task.state == TaskState::Running;
        self.kept.borrow().tasks.iter().filter(is_running).count()
    }

    /// Returns all tasks, by their numbers.
    fn views(&self, now: Timestamp) -> Vec<TaskView> {
        let (kept, live) = (self.kept.borrow(), self.live.borrow());
        kept.tasks.iter().map(|task| task.view(live.get(&task.id), now)).collect()
    }

    fn view(&self, id: u64, now: Timestamp) -> Result<TaskView, HandleError> {
        let view = self.read(id, |task| task.view(self.live.borrow().get(&id), now));
        view.ok_or(HandleError::NoSuchTask(id))
    }

    fn read<T>(&self, id: u64, read: impl FnOnce(&TaskRecord) -> T) -> Option<T> {
        self.kept.borrow().tasks.iter().find(|task| task.id == id).map(read)
    }

    fn change<T>(&self, id: u64, change: impl FnOnce(&mut TaskRecord) -> T) -> Option<T> {
        self.kept.borrow_mut().tasks.iter_mut().find(|task| task.id == id).map(change)
    }

    /// Sets what a task waits for.
    fn set_waiting(&self, id: u64, reason: Option<String>) {
        if let Some(live) = self.live.borrow_mut().get_mut(&id) {
            live.waits_for = reason;
        }
    }

    /// Ends a task. Forgets the first ones that ended if there are more than `ended_max`.
    fn end(&self, id: u64, state: TaskState, reason: Option<String>, now: Timestamp) {
        self.change(id, |task| {
            (task.state, task.is_stopping, task.reason) = (state, false, reason);
            task.ended_at_us = Some(now.as_micros());
        });
    }

    fn forget_ended(&self, ended_max: usize, metrics: &JobsMetrics) {
        let tasks = &mut self.kept.borrow_mut().tasks;
        loop {
            let ended = tasks.iter().filter(|task| task.state != TaskState::Running);
            let first = ended.clone().min_by_key(|task| (task.ended_at_us, task.id));
            let first = first.map(|task| task.id);
            if ended.count() <= ended_max {
                return;
            }
            metrics.limit_hit(JobServerLimit::EndedTasksMax);
            tasks.retain(|task| Some(task.id) != first);
        }
    }

    /// Writes the file.
    async fn save(&self, now: Timestamp) -> Result<(), HandleError> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        let _one = self.saving.lock().await;
        let kept = self.kept.borrow().clone();
        let writing = tokio::task::spawn_blocking(move || (kept::write(&path, &kept), path));
        let (written, path) =
            writing.await.map_err(|error| HandleError::TaskNotSaved(error.to_string()))?;
        written.map_err(|error| {
            HandleError::TaskNotSaved(format!("cannot write {}: {error}", path.display()))
        })?;
        self.saved_at.set(now);
        Ok(())
    }
}

/// Describes whose jobs the tasks act on. Another server is another store.
fn store_text(settings: &JobServerSettings) -> String {
    let (kind, servers) = (settings.store.name(), &settings.store_servers);
    if servers.is_empty() { kind.to_owned() } else { format!("{kind} ({servers})") }
}

fn read(path: &Path) -> TaskFile {
    let error = match kept::read::<TaskFile>(path) {
        Ok(file) if file.version <= record::VERSION => return file,
        Ok(file) => io::Error::other(format!("it has version {}", file.version)),
        Err(error) => error,
    };
    let aside = path.with_extension("unreadable");
    let moved = std::fs::rename(path, &aside);
    tracing::error!(
        path = %path.display(), %error, ?moved,
        "the file of the tasks can't be read, so those that ran do not continue; it is set aside as job-tasks.unreadable"
    );
    TaskFile::default()
}
