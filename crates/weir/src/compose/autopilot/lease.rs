//! Where the lease of the autopilot is: in the first Redis of `[observe]`, or else in its Postgres.

use futures_util::future::BoxFuture;
use weir_autopilot::lease::{LeaseClaim, LeaseReply, holder};
use weir_autopilot::sources::LeaseStore;
use weir_config::Settings;
use weir_observe::{LeaseRow, PostgresLease, PostgresSource};
use weir_redis::lease::RedisLease;

/// The key in Redis, and the name of the row in Postgres.
const NAME: &str = "weir:autopilot:lease";

/// Returns the store of the lease; `None`: nothing is observed that could be one.
pub(super) fn store(
    settings: &Settings,
    database: Option<&PostgresSource>,
) -> Option<Box<dyn LeaseStore>> {
    let within = settings.autopilot.limits.sample_timeout;
    let redis = settings.observe.sources().redis.into_iter().next();
    let redis = redis.map(|endpoint| {
        Box::new(LeaseInRedis(RedisLease::new(endpoint, NAME, within))) as Box<dyn LeaseStore>
    });
    let in_postgres = |source: &PostgresSource| {
        let lease = PostgresLease::new(source.clone(), NAME);
        Box::new(LeaseInPostgres(lease)) as Box<dyn LeaseStore>
    };
    redis.or_else(|| database.map(in_postgres))
}

#[derive(Debug)]
struct LeaseInRedis(RedisLease);

impl LeaseStore for LeaseInRedis {
    fn name(&self) -> String {
        format!("Redis {}", self.0.endpoint())
    }

    fn take<'a>(&'a mut self, claim: &'a LeaseClaim) -> BoxFuture<'a, Result<LeaseReply, String>> {
        Box::pin(async {
            let taken = self.0.take(&value(claim), claim.lifetime).await;
            let in_force = taken.map_err(|error| error.to_string())?;
            let in_force = in_force.ok_or("it has just expired, and is taken again")?;
            // Anyone who may write to Redis may have set the key.
            let (token, name) = in_force.split_once(' ').unwrap_or(("", &in_force));
            Ok(reply(claim, token, name))
        })
    }

    fn release<'a>(&'a mut self, claim: &'a LeaseClaim) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { self.0.release(&value(claim)).await.map_err(|error| error.to_string()) })
    }
}

#[derive(Debug)]
struct LeaseInPostgres(PostgresLease);

impl LeaseStore for LeaseInPostgres {
    fn name(&self) -> String {
        self.0.place()
    }

    fn take<'a>(&'a mut self, claim: &'a LeaseClaim) -> BoxFuture<'a, Result<LeaseReply, String>> {
        Box::pin(async {
            let in_force = self.0.take(&row(claim)).await?;
            Ok(reply(claim, &in_force.token, &in_force.holder))
        })
    }

    fn release<'a>(&'a mut self, claim: &'a LeaseClaim) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { self.0.release(&row(claim)).await })
    }
}

fn value(claim: &LeaseClaim) -> String {
    format!("{} {}", claim.token, claim.holder)
}

fn row(claim: &LeaseClaim) -> LeaseRow<'_> {
    LeaseRow { token: &claim.token, holder: &claim.holder, lifetime: claim.lifetime }
}

fn reply(claim: &LeaseClaim, token: &str, name: &str) -> LeaseReply {
    match token == claim.token {
        true => LeaseReply::Held,
        false => LeaseReply::HeldBy { holder: holder(name) },
    }
}
