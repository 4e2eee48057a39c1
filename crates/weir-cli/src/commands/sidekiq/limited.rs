//! `weir sidekiq limited`: the queues of limited classes, and the way back for their jobs.

use anyhow::bail;
use clap::Args;
use serde_json::json;
use weir_advisor::wording::number;
use weir_sidekiq::{
    BroughtBack, LimitedQueueState, LimitedQueues, RedisConnection, RedisEndpoint, SampleLimits,
};

use crate::commands::confirm::confirm;
use crate::commands::sources::RedisArguments;
use crate::exit::Exit;
use crate::output;

/// `weir sidekiq limited`.
#[derive(Debug, Args)]
pub(crate) struct SidekiqLimitedArgs {
    #[command(flatten)]
    redis: RedisArguments,
    /// Move the jobs back to their queues, ahead of newer jobs; continues an interrupted run
    #[arg(long)]
    end: bool,
    /// With --end: also those that an autopilot limits now. Turn it off first, or it moves them again
    #[arg(long, requires = "end")]
    force: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &SidekiqLimitedArgs) -> anyhow::Result<Exit> {
    let endpoints = arguments.redis.endpoints()?;
    if endpoints.is_empty() {
        bail!("Sidekiq's Redis is missing; give it with --redis redis://127.0.0.1:6379/0");
    }
    let mut shards = Vec::new();
    for endpoint in &endpoints {
        shards.push(Shard::inspect(endpoint).await?);
    }
    if !arguments.end {
        return list(arguments, &shards);
    }
    let is_chosen = |state: &&LimitedQueueState| arguments.force || !state.is_leased;
    let chosen = || shards.iter().flat_map(|shard| &shard.limited).filter(is_chosen);
    let jobs: u64 = chosen().map(|state| state.length).sum();
    let question = format!(
        "{} of {} go back to where they were, as the oldest ones. Continue?",
        number(jobs, "job", "jobs"),
        number(chosen().count() as u64, "limited queue", "limited queues")
    );
    if jobs > 0 && !confirm(&question, arguments.yes)? {
        output::note("nothing changed");
        return Ok(Exit::Fine);
    }
    for shard in shards {
        shard.end(arguments.force).await?;
    }
    if arguments.json {
        output::json(&json!({ "jobs": jobs }))?;
    } else {
        output::line(&format!("{} moved back", number(jobs, "job", "jobs")));
    }
    Ok(Exit::Fine)
}

fn list(arguments: &SidekiqLimitedArgs, shards: &[Shard]) -> anyhow::Result<Exit> {
    let all = shards.iter().flat_map(|shard| &shard.limited);
    if arguments.json {
        let row = |state: &LimitedQueueState| {
            let LimitedQueueState { queue, length, is_leased } = state;
            json!({ "queue": queue.name, "class": queue.class, "from": queue.queue, "jobs": length, "limited": is_leased })
        };
        output::json(&all.map(row).collect::<Vec<_>>())?;
        return Ok(Exit::Fine);
    }
    let mut is_any = false;
    for LimitedQueueState { queue, length, is_leased } in all {
        is_any = true;
        let state = if *is_leased { "limited now" } else { "not limited any more" };
        let jobs = number(*length, "job", "jobs");
        let line =
            format!("{}: {jobs} of {} from {}; {state}", queue.name, queue.class, queue.queue);
        output::line(&output::printable(&line));
    }
    if !is_any {
        output::line("no job type is limited");
    }
    Ok(Exit::Fine)
}

/// One Redis with its limited queues.
struct Shard {
    redis: LimitedQueues,
    name: String,
    limited: Vec<LimitedQueueState>,
}

impl Shard {
    async fn inspect(endpoint: &RedisEndpoint) -> anyhow::Result<Self> {
        let connection = RedisConnection::open(endpoint, &SampleLimits::default()).await?;
        let mut redis = LimitedQueues::new(connection);
        let limited = redis.all().await?;
        Ok(Self { redis, name: endpoint.to_string(), limited })
    }

    async fn end(mut self, is_forced: bool) -> anyhow::Result<()> {
        for state in &self.limited {
            loop {
                match self.redis.bring_back(&state.queue, is_forced).await? {
                    BroughtBack::Moved { left: 1.., .. } => {}
                    BroughtBack::Moved { left: 0, .. } => break,
                    BroughtBack::Leased => {
                        let name = output::printable(&state.queue.name);
                        output::note(&format!(
                            "Redis {}: {name} stays, because an autopilot limits {} now: turn it off (weir autopilot off), or add --force",
                            self.name,
                            output::printable(&state.queue.class)
                        ));
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
