//! The console over a job server in memory: for work on the pages.
//!
//! `cargo run -p weir-console --example console -- 7420 7419`

#![expect(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use weir_access::AuditLog;
use weir_access::metrics::AuditMetrics;
use weir_base::clock::Clock;
use weir_base::history;
use weir_base::shutdown::ShutdownToken;
use weir_console::live::Live;
use weir_console::sampler::Sampler;
use weir_console::settings::ConsoleSettings;
use weir_console::{Accounts, DemoControl, Deps, Histories, JobsSource, Routes, router};
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::server::{JobServerOptions, JobServerStop, RunningJobServer};
use weir_jobs::settings::{JobServerLimits, StoreKind};

fn main() -> Result<(), Box<dyn Error>> {
    let mut ports = std::env::args().skip(1).map(|port| port.parse::<u16>());
    let console_port = ports.next().transpose()?.unwrap_or(7420);
    let jobs_port = ports.next().transpose()?.unwrap_or(7419);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(console_port, jobs_port))
}

async fn serve(console_port: u16, jobs_port: u16) -> Result<(), Box<dyn Error>> {
    let stop = JobServerStop {
        graceful: CancellationToken::new(),
        at_once: CancellationToken::new(),
        deadline: Duration::from_secs(5),
    };
    let running = job_server(jobs_port, &stop)?;
    let folder = tempfile::tempdir()?;
    let history = history::HistorySettings {
        directory: folder.path().to_owned(),
        ..history::HistorySettings::default()
    };
    let settings = ConsoleSettings::default();
    let live = Live::new(&settings.limits);
    let histories = Histories {
        settings: history.clone(),
        queues_max: settings.limits.chart_queues_max,
        metrics: live.metrics(),
    };
    let jobs_url = format!("tcp://127.0.0.1:{jobs_port}");
    let jobs = JobsSource::new(running.handle(), JobServerLimits::default(), &jobs_url, histories);
    let audit_folder = folder.path().join("audit");
    let clock = Clock::system();
    let deps = Deps {
        accounts: Accounts::new(&settings),
        audit: AuditLog::open(&audit_folder, 1 << 20, clock.clone(), AuditMetrics::default())?,
        jobs: Some(jobs),
        live,
        clock,
        settings,
        realtime: None,
        front: None,
        gems: None,
        observed: None,
        autopilot: None,
        demo: DemoControl { worker_label: "weir-demo", flood_job: Vec::new },
        routes: Routes { api: weir_admin::jobs::router(running.handle()), ..Routes::default() },
    };
    let shutdown = ShutdownToken::new();
    shutdown.spawn(Sampler::new(&deps).run(shutdown.clone()));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", console_port)).await?;
    println!("console http://{} jobs {}", listener.local_addr()?, jobs_url);
    let service = router(deps).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

fn job_server(port: u16, stop: &JobServerStop) -> Result<RunningJobServer, Box<dyn Error>> {
    let settings =
        weir_jobs::settings::JobServerSettings { store: StoreKind::Memory, ..Default::default() };
    Ok(weir_jobs::server::start(JobServerOptions {
        console: String::new(),
        external: None,
        listeners: vec![TcpListener::bind(("127.0.0.1", port))?],
        tracer: Default::default(),
        metrics: JobsMetrics::register(&mut Registry::default(), &settings.limits),
        settings,
        clock: Clock::system(),
        tls: None,
        stop: stop.clone(),
    })?)
}
