//! What a look costs Redis does not depend on how long a queue is.

use std::collections::BTreeMap;

use weir_sidekiq::{SampleLimits, SampleScope};

use crate::redis_server::RedisServer;

/// Bytes of one job, as Mastodon's are.
const JOB_BYTES: usize = 2_048;
const FILL: &str = "local filler = string.rep('x', 1900) \
    for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do \
      local at = 1763790000 + i / 4 \
      redis.call('LPUSH', 'queue:pull', '{\"class\":\"LinkCrawlWorker\",\"args\":[\"' .. filler .. \
        '\",\"https://h' .. (i % 7) .. '.example/\"],\"enqueued_at\":' .. string.format('%.2f', at) .. '}') \
    end \
    redis.call('SADD', 'queues', 'pull')";

fn push(redis: &RedisServer, from: usize, to: usize) {
    for start in (from..to).step_by(10_000) {
        let (first, last) = ((start + 1).to_string(), (start + 10_000).min(to).to_string());
        redis.run(&[&["EVAL", FILL, "0", &first, &last]]);
    }
}

/// Calls and microseconds by command.
fn statistics(redis: &RedisServer) -> BTreeMap<String, (u64, u64)> {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut redis.client()).unwrap();
    let line = |line: &str| {
        let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let field = |name: &str| {
            let value = fields.split(',').find_map(|field| field.strip_prefix(name))?;
            value.parse().ok()
        };
        Some((name.to_owned(), (field("calls=")?, field("usec=")?)))
    };
    info.lines().filter_map(line).collect()
}

fn output_bytes(redis: &RedisServer) -> usize {
    let info: String = redis::cmd("INFO").arg("stats").query(&mut redis.client()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    line.unwrap().trim().parse().unwrap()
}

/// `WEIR_SIDEKIQ_JOBS=200000 cargo test -p weir-sidekiq cost -- --nocapture` prints the time.
#[tokio::test]
async fn two_looks_at_a_long_queue_read_three_windows_of_it() {
    let Some(redis) = RedisServer::start() else { return };
    #[expect(clippy::disallowed_methods, reason = "a measurement by hand sets the size")]
    let jobs = std::env::var("WEIR_SIDEKIQ_JOBS").map_or(10_000, |jobs| jobs.parse().unwrap());
    let limits = SampleLimits::default();
    push(&redis, 0, 2_000);
    let short = redis.sample(SampleScope::Everything, &limits).await;
    push(&redis, 2_000, jobs);

    let (before, bytes_before) = (statistics(&redis), output_bytes(&redis));
    let first = redis.sample(SampleScope::Everything, &limits).await;
    let second = redis.sample(SampleScope::Changes, &limits).await;
    let (after, bytes) = (statistics(&redis), output_bytes(&redis) - bytes_before);

    assert_eq!(first.commands, short.commands, "the same for 2,000 jobs as for {jobs}");
    let queue = &first.queues.as_ref().unwrap()[0];
    assert_eq!((queue.length, queue.newest.len()), (jobs as u64, limits.arrivals_max));
    assert_eq!(queue.sample.len(), 3 * limits.sample_window);
    let hosts: std::collections::BTreeSet<_> = queue.sample.iter().map(|job| &job.host).collect();
    assert_eq!(hosts.len(), 7);
    assert_eq!(second.queues.unwrap()[0].sample.len(), 0);
    // The newest twice, two windows more, the oldest again; half as much again for everything else.
    let jobs_read = 2 * limits.arrivals_max + 2 * limits.sample_window + 1;
    assert!(bytes < jobs_read * JOB_BYTES * 3 / 2, "{bytes} bytes for {jobs_read} jobs");

    let spent = |name: &str| {
        let (calls, micros) = before.get(name).copied().unwrap_or_default();
        let (calls_after, micros_after) = after.get(name).copied().unwrap_or_default();
        (calls_after - calls, micros_after - micros)
    };
    // Steps of 1, 1, 2, 4, 8, 16 and 20 jobs: ten for 100 jobs, twice; seven for 40, twice; one.
    assert_eq!(spent("lrange").0, 35);
    let micros: u64 = after.keys().map(|name| spent(name).1).sum();
    println!(
        "{jobs} jobs: {} commands, {micros} us of Redis, {bytes} bytes",
        first.commands + second.commands
    );
    for name in after.keys().filter(|name| spent(name).1 > 100) {
        println!("  {name}: {:?} (calls, us)", spent(name));
    }
}
