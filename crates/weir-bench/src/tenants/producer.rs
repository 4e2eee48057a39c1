//! Pushes the jobs of the quiet tenants at their times, and those of the hog at once.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::{Result, ensure};

use super::load::Load;
use super::worker::Run;
use crate::jobs::connect::Control;

/// Jobs per PUSHB of the hog. Few, so that the server has time for others in between.
const BATCH_JOBS: u64 = 100;

pub(super) fn start_quiet(
    mut server: Control,
    load: Arc<Load>,
    run: Run,
    failures: Sender<anyhow::Error>,
) -> Result<()> {
    let push = move || -> Result<()> {
        for (number, job) in (0..).zip(&load.quiet) {
            run.sleep_until(job.at);
            let mut command = "PUSH ".to_owned();
            load.append(number, &mut command);
            let reply = server.command(&command)?;
            ensure!(reply == b"OK", "PUSH: {}", String::from_utf8_lossy(&reply));
        }
        Ok(())
    };
    start(push, failures)
}

pub(super) fn start_hog(
    mut server: Control,
    load: Arc<Load>,
    run: Run,
    failures: Sender<anyhow::Error>,
) -> Result<()> {
    let push = move || -> Result<()> {
        run.sleep_until(load.hog_at);
        let first = load.quiet.len() as u64;
        let mut next = 0;
        while next < load.hog_jobs {
            let end = load.hog_jobs.min(next + BATCH_JOBS);
            let mut command = "PUSHB [".to_owned();
            for number in next..end {
                if number > next {
                    command.push(',');
                }
                load.append(first + number, &mut command);
            }
            command.push(']');
            let reply = server.command(&command)?;
            ensure!(reply == b"{}", "PUSHB: {}", String::from_utf8_lossy(&reply));
            next = end;
        }
        Ok(())
    };
    start(push, failures)
}

fn start(
    push: impl FnOnce() -> Result<()> + Send + 'static,
    failures: Sender<anyhow::Error>,
) -> Result<()> {
    std::thread::Builder::new().spawn(move || {
        if let Err(error) = push() {
            // The run may be over.
            let _ = failures.send(error);
        }
    })?;
    Ok(())
}
