//! A plan as files that are ready to use.

use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use weir_advisor::observation::Ordering;
use weir_advisor::plan::{Plan, Setting, Wanted, WorkerLayout, queue_words, redis_script};

use super::arguments::PlanArguments;
use crate::commands::confirm::confirm;
use crate::output;

/// The first words of each unit, by which those of earlier plans are known again.
const UNIT_BEGINS: &str = "# systemctl enable --now ";

/// A file of a plan.
pub(super) struct Planned {
    name: String,
    text: String,
}

/// All of them.
pub(super) fn files(
    arguments: &PlanArguments,
    wanted: &Wanted,
    plan: &Plan,
) -> anyhow::Result<Vec<Planned>> {
    // Names come from Redis, where anybody who pushes makes them: in a unit a newline is a command.
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let is_odd = |name: &&str| !name.chars().all(plain) || name.starts_with(['-', '.']);
    if let Some(name) = wanted.queues.iter().map(|queue| queue.name.as_str()).find(is_odd) {
        bail!("the queue {name:?} can't stand in files: only letters, digits, _ . and - can");
    }
    for (option, text) in [("--folder", &arguments.folder), ("--user", &arguments.user)] {
        if text.contains(|letter: char| letter.is_control() || letter.is_whitespace()) {
            bail!("{option} {text:?} can't stand in files: it has white space in it");
        }
    }
    let file = |name: &str, text: String| Planned { name: name.to_owned(), text };
    let mut files = vec![
        file("layout.toml", layout(wanted, plan)),
        file("weir.toml", weir(arguments, plan)),
        file("docker-compose.override.yml", compose(plan)),
    ];
    for worker in &plan.layout.workers {
        // A unit with @ is one for several processes: its instances are numbers.
        let many = if worker.processes > 1 { "@" } else { "" };
        files.push(file(&format!("{}{many}.service", worker.name), unit(arguments, worker)));
    }
    if !plan.postgres.is_empty() {
        files.push(file("postgresql-weir.conf", conf(&plan.postgres)));
    }
    if !plan.redis.is_empty() {
        files.push(file("redis-weir.sh", redis_script(&plan.redis)));
    }
    Ok(files)
}

/// Writes what differs; of what is there already somebody is asked first, all at once.
pub(super) fn write(folder: &Path, files: &[Planned], yes: bool) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let present = |file: &Planned| fs::read_to_string(folder.join(&file.name));
    let differs = |file: &&Planned| present(file).is_ok_and(|text| text != file.text);
    let others: Vec<&str> = files.iter().filter(differs).map(|file| file.name.as_str()).collect();
    if !others.is_empty() {
        let question =
            format!("{} in {} would be replaced. Go on?", others.join(", "), folder.display());
        if !confirm(&question, yes)? {
            output::note("nothing was written");
            return Ok(());
        }
    }
    for file in files {
        let path = folder.join(&file.name);
        fs::write(&path, &file.text).with_context(|| format!("cannot write {}", path.display()))?;
        output::note(&format!("wrote {}", path.display()));
    }
    let left: Vec<String> = units_of_earlier_plans(folder, files)?;
    if !left.is_empty() {
        output::note(&format!(
            "of an earlier plan, and not of this one: {}; where it runs, `systemctl disable --now` it, then remove it",
            left.join(", ")
        ));
    }
    Ok(())
}

/// Units that a plan has written here and that this one does not have: started, they would serve twice.
fn units_of_earlier_plans(folder: &Path, files: &[Planned]) -> anyhow::Result<Vec<String>> {
    let read = || format!("cannot read {}", folder.display());
    let mut left = Vec::new();
    for entry in fs::read_dir(folder).with_context(read)? {
        let entry = entry.with_context(read)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_planned = files.iter().any(|file| file.name == name);
        if !is_planned && name.ends_with(".service") && begins_as_a_unit(&entry.path()) {
            left.push(name);
        }
    }
    left.sort_unstable();
    Ok(left)
}

/// Others' files are not our business, and may be of any size.
fn begins_as_a_unit(path: &Path) -> bool {
    let mut begin = [0; UNIT_BEGINS.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *UNIT_BEGINS.as_bytes()
}

fn conf(settings: &[Setting]) -> String {
    let mut text = "# The last line of postgresql.conf: include 'postgresql-weir.conf'\n\
        # What ALTER SYSTEM has set, or the command line, wins over any such file. What that is:\n\
        #   SELECT name, setting, source, sourcefile FROM pg_settings\n\
        #   WHERE sourcefile LIKE '%postgresql.auto.conf' OR source = 'command line';\n\
        # and what ends it: ALTER SYSTEM RESET name;\n"
        .to_owned();
    for Setting { name, value, reason, restart } in settings {
        let restart = if *restart { "; takes a restart" } else { "" };
        let _ = write!(text, "# {reason}{restart}\n{name} = {value}\n");
    }
    text
}

fn unit(arguments: &PlanArguments, worker: &WorkerLayout) -> String {
    let PlanArguments { folder, user, .. } = arguments;
    let WorkerLayout { name, concurrency, pool, processes, .. } = worker;
    let queues: Vec<String> =
        queue_words(worker).iter().map(|queue| format!(" -q {queue}")).collect();
    let queues = queues.concat();
    let enable = match processes {
        1 => name.clone(),
        many => (1..=*many).map(|at| format!("{name}@{at}")).collect::<Vec<_>>().join(" "),
    };
    format!(
        "{UNIT_BEGINS}{enable}\n\
         [Unit]\nDescription={name}\nAfter=network.target\n\n\
         [Service]\nUser={user}\nWorkingDirectory={folder}\n\
         Environment=RAILS_ENV=production DB_POOL={pool} MALLOC_ARENA_MAX=2\n\
         ExecStart=/usr/bin/env bundle exec sidekiq -c {concurrency}{queues}\n\
         # Sidekiq gives its jobs 25 s.\nTimeoutStopSec=35s\nRestart=always\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

fn weir(arguments: &PlanArguments, plan: &Plan) -> String {
    let mut text =
        "# Processes of Sidekiq that Weir runs: `weir up --only workers`, instead of units.\n"
            .to_owned();
    for worker in &plan.layout.workers {
        let WorkerLayout { name, concurrency, pool, processes, .. } = worker;
        let queues: Vec<String> =
            queue_words(worker).iter().map(|queue| format!("{queue:?}")).collect();
        let _ = write!(
            text,
            "\n[workers.{name}]\n\
             command = [\"bundle\", \"exec\", \"sidekiq\", \"-c\", \"{{concurrency}}\", \"{{queues}}\"]\n\
             folder = {:?}\nprocesses = {processes}\nconcurrency = {concurrency}\n\
             queues = [{}]\nqueue_flag = \"-q\"\nstop_deadline = \"35s\"\n\
             environment = {{ RAILS_ENV = \"production\", DB_POOL = \"{pool}\", MALLOC_ARENA_MAX = \"2\" }}\n",
            arguments.folder,
            queues.join(", ")
        );
    }
    text
}

/// Each process as the service `sidekiq` of the application's own file is, but for its command.
fn compose(plan: &Plan) -> String {
    let mut text = "# Beside the application's docker-compose.yml, whose service `sidekiq` these take after.\n\
        services:\n  sidekiq:\n    deploy:\n      replicas: 0\n"
        .to_owned();
    for worker in &plan.layout.workers {
        let WorkerLayout { name, concurrency, pool, processes, .. } = worker;
        let queues: Vec<String> =
            queue_words(worker).iter().map(|queue| format!(" -q {queue}")).collect();
        let _ = write!(
            text,
            "  {name}:\n    extends:\n      file: docker-compose.yml\n      service: sidekiq\n    \
             command: bundle exec sidekiq -c {concurrency}{}\n    \
             environment:\n      DB_POOL: \"{pool}\"\n    \
             deploy:\n      replicas: {processes}\n",
            queues.concat()
        );
    }
    text
}

/// What `weir plan --check` reads.
fn layout(wanted: &Wanted, plan: &Plan) -> String {
    let words = |words: &mut dyn Iterator<Item = &str>| {
        words.map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "# For `weir plan --check`.\nmax_connections = {}\nreserve = {}\n\
         superuser_reserved_connections = {}\n",
        plan.layout.max_connections, plan.layout.reserve, plan.layout.reserved_connections
    );
    let pooler = plan.layout.pooler_connections;
    text.extend(pooler.map(|connections| format!("pgbouncer = {connections}\n")));
    let memory =
        plan.layout.memory_bytes_max.map(|bytes| format!("memory = \"{}KiB\"\n", bytes / 1024));
    text.extend(memory);
    let _ = writeln!(
        text,
        "queues = [{}]",
        words(&mut wanted.queues.iter().map(|queue| queue.name.as_str()))
    );
    for service in &plan.layout.services {
        let _ = write!(
            text,
            "\n[[services]]\nname = {:?}\nprocesses = {}\nthreads = {}\npool = {}\nmemory = \"{}KiB\"\n",
            service.name,
            service.processes,
            service.threads,
            service.pool,
            service.memory_bytes / 1024
        );
    }
    for worker in &plan.layout.workers {
        let order = match worker.ordering {
            Ordering::Random => "random",
            Ordering::Weighted => "weighted",
            Ordering::Strict | Ordering::Unknown => "strict",
        };
        let _ = write!(
            text,
            "\n[[workers]]\nname = {:?}\nprocesses = {}\nconcurrency = {}\npool = {}\norder = {order:?}\n\
             memory = \"{}KiB\"\nqueues = [{}]\n",
            worker.name,
            worker.processes,
            worker.concurrency,
            worker.pool,
            worker.memory_bytes / 1024,
            words(&mut worker.queues.iter().map(String::as_str))
        );
    }
    text
}
