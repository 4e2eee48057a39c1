//! Starts a Weir for tests that need a running one: with free ports, and data in a temporary folder.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

/// The settings: the app that the tests use, and another one that only fills the pages.
const SETTINGS: &str = r#"
[jobs]
listen = "127.0.0.1:0"
[console]
listen = "127.0.0.1:0"
[front]
listen = "127.0.0.1:0"
cores = 2
[[realtime.apps]]
id = "tests"
key = "tests-key"
secret = { env = "WEIR_REALTIME_SECRET" }
client_events = true
[[realtime.apps]]
id = "archive"
key = "archive-key"
secret = { env = "WEIR_REALTIME_SECRET" }
origins = ["https://www.example.org", "https://a-long-name-of-a-branch.staging.example.org"]
[[realtime.apps.webhooks]]
url = "https://www.example.org/webhooks/of/an/application/that/has/long/addresses"
[[front.apps]]
name = "sample"
workers = 3
command = ["python3", "app.py", "{socket}"]
evict_after = "2s"
[gems]
listen = "127.0.0.1:0"
[[gems.mirror.upstreams]]
name = "one"
url = "http://127.0.0.1:1"
[[gems.webhooks.endpoints]]
name = "continuous-integration-of-an-application"
url = "http://127.0.0.1:1/hooks"
secret = { env = "WEIR_REALTIME_SECRET" }
"#;

/// The gems in its index.
const GEMS: &str = r#"
{"name":"rack","versions":[{"number":"3.0.0","sha256":"DIGEST"},{"number":"3.1.0","sha256":"DIGEST","ruby":">= 2.4.0"}]}
{"name":"sinatra","versions":[{"number":"4.0.0","sha256":"DIGEST","dependencies":[["rack",">= 3.0.0, < 4"],["mustermann","~> 3.0"]]}]}
{"name":"an-adapter-for-something-with-a-name-that-is-long","versions":[{"number":"1.0.0.alpha.20261122","platform":"x86_64-linux-musl","sha256":"DIGEST","dependencies":[["rack",">= 0"]]}]}
"#;

/// The secret that tests sign with.
const SECRET: (&str, &str) = ("WEIR_REALTIME_SECRET", "a secret for tests and nothing else");

/// Stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    folder: PathBuf,
    ready_line: String,
}

impl Server {
    pub(crate) fn start(root: &Path) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("weir-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let settings = folder.join("weir.toml");
        fs::write(&settings, SETTINGS)?;
        fs::copy(root.join("examples/sample/app.py"), folder.join("app.py"))?;
        import(root, &settings)?;
        let mut process = Command::new(root.join("target/debug/weir"))
            .args(["up", "--log-level", "warn", "--config"])
            .arg(&settings)
            .current_dir(&folder)
            .env(SECRET.0, SECRET.1)
            .stdout(Stdio::piped())
            .spawn()
            .context("target/debug/weir")?;
        let mut ready_line = String::new();
        let stdout = process.stdout.take().context("its output")?;
        BufReader::new(stdout).read_line(&mut ready_line)?;
        let server = Self { process, folder, ready_line };
        if !server.ready_line.starts_with("weir ready ") {
            bail!("target/debug/weir did not become ready");
        }
        Ok(server)
    }

    /// Returns the environment variables by which tests find it.
    pub(crate) fn environment(&self) -> anyhow::Result<[(&'static str, String); 6]> {
        Ok([
            ("WEIR_CONSOLE_URL", format!("http://{}", self.address("console")?)),
            ("WEIR_JOBS_URL", format!("tcp://{}", self.address("jobs")?)),
            ("WEIR_REALTIME_URL", format!("http://{}", self.address("front")?)),
            ("WEIR_REALTIME_APP", "tests".to_owned()),
            ("WEIR_REALTIME_KEY", "tests-key".to_owned()),
            (SECRET.0, SECRET.1.to_owned()),
        ])
    }

    /// Returns the address of a part, from the ready line.
    fn address(&self, part: &str) -> anyhow::Result<&str> {
        let prefix = format!("{part}=");
        let mut fields = self.ready_line.split_whitespace();
        fields.find_map(|field| field.strip_prefix(&prefix)).with_context(|| format!("no {part}"))
    }
}

fn import(root: &Path, settings: &Path) -> anyhow::Result<()> {
    let lines = settings.with_file_name("gems.jsonl");
    fs::write(&lines, GEMS.trim_start().replace("DIGEST", &"ab".repeat(32)))?;
    let status = Command::new(root.join("target/debug/weir"))
        .args(["gems", "import", "--config"])
        .args([settings, &lines])
        .env(SECRET.0, SECRET.1)
        .stdout(Stdio::null())
        .status()
        .context("target/debug/weir")?;
    if !status.success() {
        bail!("target/debug/weir could not import gems");
    }
    Ok(())
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data goes with it, so there is nothing to drain.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
