//! `weir jobs export`: writes jobs as JSON lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use weir_jobs::handle::JobQuery;
use weir_jobs::view::{JobListPage, QueueView};

use super::query;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// `weir jobs export`.
#[derive(Debug, Args)]
pub(crate) struct JobsExportArgs {
    #[command(flatten)]
    target: Target,
    /// Queues, or the sets scheduled, retries and dead [default: everything]. Jobs in progress are
    /// not exported
    places: Vec<String>,
    /// Only jobs whose JSON matches this glob; plain text matches anywhere in it
    #[arg(long, value_name = "GLOB")]
    search: Option<String>,
    /// Only jobs of this type
    #[arg(long)]
    jobtype: Option<String>,
    /// File to write; `-` for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

pub(super) async fn run(arguments: &JobsExportArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let places = list_places(&mut client, &arguments.places).await?;
    let mut writer = Writer::create(&arguments.output)?;
    let (mut queries, mut total) = (Vec::new(), 0);
    for place in places {
        let (search, jobtype) = (arguments.search.clone(), arguments.jobtype.clone());
        let query = JobQuery { place, search, jobtype, ..JobQuery::default() };
        let first = JobQuery { limit: Some(1), ..query.clone() };
        let jobs = client.get::<JobListPage>(&query::path("list", &first)).await?.total;
        if jobs == 0 {
            query::reject_unknown(&mut client, &query.place).await?;
        }
        total += jobs;
        queries.push(query);
    }
    let progress = ProgressBar::new(total);
    let mut lines: u64 = 0;
    for query in &queries {
        let write = |piece: &[u8]| {
            let count = piece.iter().filter(|&&byte| byte == b'\n').count();
            lines += u64::try_from(count).unwrap_or_default();
            progress.set_position(lines);
            writer.write(piece)
        };
        client.stream(&query::path("export", query), write).await?;
    }
    writer.finish()?;
    progress.finish_and_clear();
    output::note(&format!("{} exported", output::count(lines, "job")));
    Ok(Exit::Fine)
}

async fn list_places(client: &mut AdminClient, named: &[String]) -> anyhow::Result<Vec<String>> {
    if !named.is_empty() {
        return Ok(named.iter().map(|name| query::place_name(name)).collect());
    }
    let queues: Vec<QueueView> = client.get("/v1/jobs/queues").await?;
    let queues = queues.into_iter().map(|queue| format!("queue:{}", queue.name));
    Ok(queues.chain(["scheduled", "retries", "dead"].map(str::to_owned)).collect())
}

/// The destination of the lines.
struct Writer {
    file: BufWriter<Box<dyn Write>>,
    name: String,
}

impl Writer {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file: Box<dyn Write> = if path == Path::new("-") {
            Box::new(std::io::stdout())
        } else {
            Box::new(File::create(path).with_context(|| format!("cannot write {name}"))?)
        };
        Ok(Self { file: BufWriter::new(file), name })
    }

    fn write(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(piece).with_context(|| format!("cannot write {}", self.name))
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.file.flush().with_context(|| format!("cannot write {}", self.name))
    }
}
