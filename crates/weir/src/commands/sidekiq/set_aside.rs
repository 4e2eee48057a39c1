//! `weir sidekiq set-aside`: what ends the wait of new jobs behind a backlog, in an unmodified
//! Sidekiq.

use anyhow::bail;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use weir_advisor::wording::count;
use weir_sidekiq::{
    Backlog, Connection, Endpoint, Limits, ProcessLook, Scope, SetAside, Snapshot, backlog_of,
    is_backlog, served_last,
};

use crate::commands::confirm::confirm;
use crate::commands::sources::RedisArguments;
use crate::exit::Exit;
use crate::output;

/// `weir sidekiq set-aside`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The queue: its jobs are renamed to QUEUE_backlog, which a process must serve last
    queue: String,
    #[command(flatten)]
    redis: RedisArguments,
    /// Bring the backlog back into the queue, as older than what came since; goes on where it was
    /// broken off
    #[arg(long)]
    undo: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let queue = &arguments.queue;
    if is_backlog(queue) {
        bail!("{queue} is a backlog itself: name the queue that it belongs to");
    }
    let endpoints = arguments.redis.endpoints()?;
    if endpoints.is_empty() {
        bail!("name Sidekiq's Redis: --redis redis://127.0.0.1:6379/0");
    }
    // All are looked at before anything is written to one.
    let mut shards = Vec::new();
    for endpoint in &endpoints {
        shards.push(Shard::look(endpoint, queue).await?);
    }
    if !arguments.undo {
        for shard in &shards {
            shard.must_be_ready(queue)?;
        }
    }
    let (waiting, set_aside) = shards.iter().fold((0, 0), |sum, shard| {
        (sum.0 + shard.length(queue), sum.1 + shard.length(&backlog_of(queue)))
    });
    let backlog = backlog_of(queue);
    let question = if arguments.undo {
        format!(
            "{} jobs of {backlog} go back into {queue}, as its oldest. Go on?",
            count(set_aside)
        )
    } else {
        let waiting = count(waiting);
        format!(
            "{waiting} jobs of {queue} become {backlog}; new jobs no longer wait for them. Go on?"
        )
    };
    if !confirm(&question, arguments.yes)? {
        output::note("nothing was changed");
        return Ok(Exit::Fine);
    }
    let mut moved = 0;
    for shard in shards {
        moved +=
            if arguments.undo { shard.undo(queue).await? } else { shard.set_aside(queue).await? };
    }
    report(arguments, moved)
}

fn report(arguments: &Arguments, moved: u64) -> anyhow::Result<Exit> {
    let Arguments { queue, undo, json: as_json, .. } = arguments;
    let backlog = backlog_of(queue);
    if *as_json {
        output::json(
            &json!({ "queue": queue, "backlog": backlog, "undone": undo, "jobs": moved }),
        )?;
    } else if *undo {
        output::line(&format!("{} jobs of {backlog} are back in {queue}", count(moved)));
    } else {
        output::line(&format!(
            "{} jobs of {queue} wait in {backlog}; new ones run at once",
            count(moved)
        ));
        output::line(&format!("back: weir sidekiq set-aside {queue} --undo"));
    }
    Ok(Exit::Fine)
}

/// One Redis, and what was seen there.
struct Shard {
    connection: Connection,
    name: String,
    snapshot: Snapshot,
}

impl Shard {
    async fn look(endpoint: &Endpoint, queue: &str) -> anyhow::Result<Self> {
        let limits = Limits::default();
        let mut connection = Connection::open(endpoint, &limits).await?;
        let snapshot = connection.look(Scope::Everything, &limits).await?;
        let name = endpoint.to_string();
        if let Err(refusal) = &snapshot.queues {
            bail!("Redis {name}: the queue {queue} can't be seen: {}", refusal.reason);
        }
        Ok(Self { connection, name, snapshot })
    }

    fn length(&self, queue: &str) -> u64 {
        let queues = self.snapshot.queues.as_deref().unwrap_or_default();
        queues.iter().find(|it| it.name == queue).map_or(0, |queue| queue.length)
    }

    /// Otherwise the backlog would wait for ever, or before everything else.
    fn must_be_ready(&self, queue: &str) -> anyhow::Result<()> {
        let backlog = backlog_of(queue);
        let (name, there) = (&self.name, self.length(&backlog));
        if there > 0 {
            let there = count(there);
            bail!(
                "Redis {name}: {backlog} has {there} jobs from before; wait for its end, or --undo"
            );
        }
        let processes = match &self.snapshot.processes {
            Ok(processes) => processes.as_slice(),
            Err(refusal) => bail!("Redis {name}: processes can't be seen: {}", refusal.reason),
        };
        match served_last(processes, queue) {
            Ok(_) => Ok(()),
            Err(Some(process)) => bail!(
                "{} serves {backlog} before other queues: it would hold them up; make it the last -q of \
                 its command line and restart it",
                process.identity
            ),
            Err(None) => bail!("{}", nobody(processes, queue)),
        }
    }

    async fn set_aside(self, queue: &str) -> anyhow::Result<u64> {
        let mut backlog = Backlog::of(self.connection, queue);
        match backlog.set_aside().await? {
            SetAside::Done(jobs) => Ok(jobs),
            SetAside::Empty => Ok(0),
            SetAside::Exists => {
                bail!("Redis {}: {} has come into being meanwhile", self.name, backlog_of(queue))
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

/// How to get there.
fn nobody(processes: &[ProcessLook], queue: &str) -> String {
    let backlog = backlog_of(queue);
    let serving = processes.iter().find(|it| !it.quiet && it.served().any(|it| it == queue));
    match serving {
        Some(process) => format!(
            "no process serves {backlog}, so it would wait for ever; add `-q {backlog}` as the last queue \
             to the command line of {} and restart it, then say this again",
            process.identity
        ),
        None => format!("no process serves {queue}: `weir doctor` says why"),
    }
}
