//! `weir sidekiq set-aside`: what ends the wait of new jobs behind a backlog, in an unmodified
//! Sidekiq.

use anyhow::bail;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use weir_advisor::shell;
use weir_advisor::wording::number;
use weir_sidekiq::{
    Backlog, NotReady, ProcessSample, RedisConnection, RedisEndpoint, RedisSnapshot, SampleLimits,
    SampleScope, SetAside, backlog_of, is_backlog, queues_with_backlog, served_last,
};

use crate::commands::confirm::confirm;
use crate::commands::sources::RedisArguments;
use crate::exit::Exit;
use crate::output;

/// `weir sidekiq set-aside`.
#[derive(Debug, Args)]
pub(crate) struct SidekiqSetAsideArgs {
    /// The queue. Its jobs move to QUEUE_backlog, which a process must serve last
    queue: String,
    #[command(flatten)]
    redis: RedisArguments,
    /// Move the backlog back to the queue, ahead of newer jobs; continues an interrupted run
    #[arg(long)]
    undo: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &SidekiqSetAsideArgs) -> anyhow::Result<Exit> {
    let queue = &arguments.queue;
    if is_backlog(queue) {
        bail!("{queue} is itself a backlog; name the queue that it belongs to");
    }
    let endpoints = arguments.redis.endpoints()?;
    if endpoints.is_empty() {
        bail!("Sidekiq's Redis is missing; give it with --redis redis://127.0.0.1:6379/0");
    }
    // All are looked at before anything is written to one.
    let mut shards = Vec::new();
    for endpoint in &endpoints {
        shards.push(Shard::inspect(endpoint, queue).await?);
    }
    if !arguments.undo {
        for shard in &shards {
            shard.check_readiness(arguments)?;
        }
    }
    let (waiting, set_aside) = shards.iter().fold((0, 0), |sum, shard| {
        (sum.0 + shard.length(queue), sum.1 + shard.length(&backlog_of(queue)))
    });
    let backlog = backlog_of(queue);
    if arguments.undo && set_aside == 0 {
        return report(arguments, 0);
    }
    let question = if arguments.undo {
        let jobs = number(set_aside, "job", "jobs");
        let go = if set_aside == 1 { "goes" } else { "go" };
        format!("{jobs} of {backlog} {go} back into {queue}, as its oldest jobs. Continue?")
    } else {
        let jobs = number(waiting, "job", "jobs");
        let (turn, them) = if waiting == 1 { ("turns", "it") } else { ("turn", "them") };
        format!(
            "{jobs} of {queue} {turn} into {backlog}; new jobs no longer wait for {them}. Continue?"
        )
    };
    if !confirm(&question, arguments.yes)? {
        output::note("nothing changed");
        return Ok(Exit::Fine);
    }
    let moved_jobs = change_shards(arguments, shards).await?;
    report(arguments, moved_jobs)
}

/// Changes one shard after another. If one fails, the earlier ones stay changed, and the error says so.
async fn change_shards(arguments: &SidekiqSetAsideArgs, shards: Vec<Shard>) -> anyhow::Result<u64> {
    let queue = &arguments.queue;
    let (mut moved_jobs, mut changed) = (0, Vec::new());
    for shard in shards {
        let name = shard.name.clone();
        let done =
            if arguments.undo { shard.undo(queue).await } else { shard.set_aside(queue).await };
        match done {
            Ok(jobs) => {
                moved_jobs += jobs;
                changed.push(format!("Redis {name} ({})", number(jobs, "job", "jobs")));
            }
            Err(error) if changed.is_empty() => return Err(error),
            Err(error) => bail!("{error}; {}", describe_partial_change(arguments, &changed)),
        }
    }
    Ok(moved_jobs)
}

fn describe_partial_change(arguments: &SidekiqSetAsideArgs, changed: &[String]) -> String {
    let changed = changed.join(" and ");
    if arguments.undo {
        format!("already done: {changed}; run the same command again to continue")
    } else {
        format!("already done: {changed}; undo with: {}", undo_command(arguments))
    }
}

fn undo_command(arguments: &SidekiqSetAsideArgs) -> String {
    let end_of_options = if arguments.queue.starts_with('-') { "-- " } else { "" };
    let queue = shell::word(&arguments.queue);
    format!("weir sidekiq set-aside --undo{} {end_of_options}{queue}", flags(&arguments.redis))
}

/// Returns the Redis options for another command.
fn flags(redis: &RedisArguments) -> String {
    redis.to_arguments().iter().map(|word| format!(" {}", shell::word(word))).collect()
}

fn report(arguments: &SidekiqSetAsideArgs, moved_jobs: u64) -> anyhow::Result<Exit> {
    let SidekiqSetAsideArgs { queue, undo, json: as_json, .. } = arguments;
    let backlog = backlog_of(queue);
    if *as_json {
        output::json(
            &json!({ "queue": queue, "backlog": backlog, "undone": undo, "jobs": moved_jobs }),
        )?;
    } else if *undo && moved_jobs == 0 {
        let line = format!("{backlog} is empty: no jobs to move back");
        output::line(&output::printable(&line));
    } else if *undo {
        let jobs = number(moved_jobs, "job", "jobs");
        let are = if moved_jobs == 1 { "is" } else { "are" };
        output::line(&format!("{jobs} of {backlog} {are} back in {queue}"));
    } else if moved_jobs == 0 {
        output::line(&format!("{queue} is empty: nothing was set aside"));
    } else {
        let jobs = number(moved_jobs, "job", "jobs");
        let wait = if moved_jobs == 1 { "waits" } else { "wait" };
        output::line(&format!("{jobs} of {queue} {wait} in {backlog}; new ones run at once"));
        output::line(&format!("undo with: {}", undo_command(arguments)));
    }
    Ok(Exit::Fine)
}

/// One Redis with its snapshot.
struct Shard {
    connection: RedisConnection,
    name: String,
    snapshot: RedisSnapshot,
}

impl Shard {
    async fn inspect(endpoint: &RedisEndpoint, queue: &str) -> anyhow::Result<Self> {
        let limits = SampleLimits::default();
        let mut connection = RedisConnection::open(endpoint, &limits).await?;
        let snapshot = connection.sample(SampleScope::Everything, &limits).await?;
        let name = endpoint.to_string();
        if let Err(refusal) = &snapshot.queues {
            bail!("Redis {name}: cannot read the queue {queue}: {}", refusal.reason);
        }
        Ok(Self { connection, name, snapshot })
    }

    fn length(&self, queue: &str) -> u64 {
        let queues = self.snapshot.queues.as_deref().unwrap_or_default();
        queues.iter().find(|it| it.name == queue).map_or(0, |queue| queue.length)
    }

    /// Returns an error if the jobs of the backlog would never run, or would delay other queues.
    fn check_readiness(&self, arguments: &SidekiqSetAsideArgs) -> anyhow::Result<()> {
        let queue = &arguments.queue;
        let backlog = backlog_of(queue);
        let (name, there) = (&self.name, self.length(&backlog));
        if there > 0 {
            let jobs = number(there, "job", "jobs");
            bail!(
                "Redis {name}: {backlog} still has {jobs} of an earlier run; wait until it is empty, or move the jobs back with --undo"
            );
        }
        let processes = match &self.snapshot.processes {
            Ok(processes) => processes.as_slice(),
            Err(refusal) => bail!("Redis {name}: cannot read the processes: {}", refusal.reason),
        };
        if self.snapshot.has_more_processes() {
            bail!(
                "Redis {name}: there are more processes than a snapshot holds, so it is unknown which of them serve {backlog}"
            );
        }
        match served_last(processes, queue, self.snapshot.at) {
            Ok(_) => Ok(()),
            Err(NotReady::Before(process)) => bail!(
                "{} serves {backlog} before other queues and would delay them; {}",
                output::printable(&process.identity),
                queue_flag_hint(process, queue)
            ),
            Err(NotReady::OnlyQueue(process)) => bail!(
                "no process serves {backlog}, so its jobs would never run; {}",
                queue_flag_hint(process, queue)
            ),
            Err(NotReady::Nobody) => {
                bail!(
                    "no process serves {queue}, so its new jobs would not run; find the cause with `weir doctor{}`",
                    flags(&arguments.redis)
                )
            }
        }
    }

    async fn set_aside(self, queue: &str) -> anyhow::Result<u64> {
        let mut backlog = Backlog::of(self.connection, queue);
        match backlog.set_aside().await? {
            SetAside::Done(jobs) => Ok(jobs),
            SetAside::Empty => Ok(0),
            SetAside::Exists => {
                bail!(
                    "Redis {}: {} was created by another program in the meantime; run the command again",
                    self.name,
                    backlog_of(queue)
                )
            }
        }
    }

    async fn undo(self, queue: &str) -> anyhow::Result<u64> {
        let all = self.length(&backlog_of(queue));
        let bar = ProgressBar::new(all);
        let mut backlog = Backlog::of(self.connection, queue);
        loop {
            let left = backlog.bring_back().await?;
            bar.set_position(all.saturating_sub(left));
            if left == 0 {
                bar.finish_and_clear();
                return Ok(all);
            }
        }
    }
}

/// Suggests how to serve the backlog last. It lists all queues, since a single `-q` would replace those of the
/// configuration file.
fn queue_flag_hint(process: &ProcessSample, queue: &str) -> String {
    let backlog = backlog_of(queue);
    let flags: Vec<_> = queues_with_backlog(process, queue)
        .iter()
        .map(|flag| format!("-q {}", shell::word(flag)))
        .collect();
    let all = match flags.as_slice() {
        [] => format!("-q {}", shell::word(&backlog)),
        flags => flags.join(" "),
    };
    format!(
        "add it as the last queue of {}: `{all}` on its command line, or {backlog} as the last entry under :queues: in its sidekiq.yml; restart the process, then run this command again",
        output::printable(&process.identity)
    )
}
