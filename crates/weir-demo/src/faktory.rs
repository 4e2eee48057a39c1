//! A client of the job server: one connection, one command at a time.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Limit of a reply's line.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Limit of a reply's content: one job, or the errors of a batch.
const BULK_BYTES_MAX: usize = 1 << 20;

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum FaktoryError {
    #[error("the connection to the job server ended: {0}")]
    Connection(#[from] io::Error),
    #[error("the job server rejected a command: {0}")]
    Rejected(String),
    #[error("the job server sent an unexpected reply: {0}")]
    UnexpectedReply(String),
}

/// A connection to the job server.
#[derive(Debug)]
pub(crate) struct FaktoryConnection {
    stream: BufReader<TcpStream>,
}

impl FaktoryConnection {
    /// Connects as a producer.
    pub(crate) async fn producer(address: SocketAddr) -> Result<Self, FaktoryError> {
        Self::open(address, json!({ "v": 2 })).await
    }

    /// Connects as one of the connections of a worker process.
    pub(crate) async fn worker(
        address: SocketAddr,
        wid: &str,
        label: &str,
    ) -> Result<Self, FaktoryError> {
        let pid = std::process::id();
        let hello =
            json!({ "v": 2, "wid": wid, "hostname": "demo", "pid": pid, "labels": [label] });
        Self::open(address, hello).await
    }

    async fn open(address: SocketAddr, hello: Value) -> Result<Self, FaktoryError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream: BufReader::new(stream) };
        connection.reply().await?;
        connection.send(&format!("HELLO {hello}")).await?;
        Ok(connection)
    }

    /// Pushes jobs at once. Returns the jids of those that were rejected.
    pub(crate) async fn push(&mut self, jobs: &[Value]) -> Result<Vec<String>, FaktoryError> {
        let text = serde_json::to_string(jobs).unwrap_or_default();
        let errors = self.send(&format!("PUSHB {text}")).await?.unwrap_or_default();
        let errors: Value = serde_json::from_slice(&errors).map_err(|error| unexpected(&error))?;
        Ok(errors.as_object().into_iter().flat_map(|errors| errors.keys().cloned()).collect())
    }

    /// Fetches the next job. None: there was none for a while.
    pub(crate) async fn fetch(&mut self, queues: &str) -> Result<Option<Value>, FaktoryError> {
        let job = self.send(&format!("FETCH {queues}")).await?;
        let job = job.map(|job| serde_json::from_slice(&job)).transpose();
        job.map_err(|error| unexpected(&error))
    }

    pub(crate) async fn acknowledge(&mut self, jid: &str) -> Result<(), FaktoryError> {
        self.send(&format!("ACK {}", json!({ "jid": jid }))).await.map(drop)
    }

    pub(crate) async fn fail(&mut self, jid: &str, message: &str) -> Result<(), FaktoryError> {
        let report =
            json!({ "jid": jid, "errtype": "DemoError", "message": message, "backtrace": [] });
        self.send(&format!("FAIL {report}")).await.map(drop)
    }

    /// Reports that the worker is alive.
    pub(crate) async fn beat(&mut self, wid: &str) -> Result<(), FaktoryError> {
        self.send(&format!("BEAT {}", json!({ "wid": wid }))).await.map(drop)
    }

    /// Returns what is known of a tracked job: its state, and what its worker said (`desc`).
    pub(crate) async fn track(&mut self, jid: &str) -> Result<Value, FaktoryError> {
        let track = self.send(&format!("TRACK GET {jid}")).await?.unwrap_or_default();
        serde_json::from_slice(&track).map_err(|error| unexpected(&error))
    }

    /// Says something about a tracked job.
    pub(crate) async fn describe(&mut self, jid: &str, text: &str) -> Result<(), FaktoryError> {
        self.send(&format!("TRACK SET {}", json!({ "jid": jid, "desc": text }))).await.map(drop)
    }

    async fn send(&mut self, command: &str) -> Result<Option<Vec<u8>>, FaktoryError> {
        self.stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        self.reply().await
    }

    /// Reads a reply: a simple one's text, a bulk's content, or None for an absent one.
    async fn reply(&mut self) -> Result<Option<Vec<u8>>, FaktoryError> {
        let mut line = Vec::new();
        (&mut self.stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let Some(text) = line.strip_suffix("\r\n") else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        };
        match text.split_at_checked(1) {
            Some(("+", text)) => Ok(Some(text.as_bytes().to_vec())),
            Some(("-", text)) => Err(FaktoryError::Rejected(text.to_owned())),
            Some(("$", "-1")) => Ok(None),
            Some(("$", length)) => self.bulk(length).await.map(Some),
            _ => Err(unexpected(&text)),
        }
    }

    async fn bulk(&mut self, length: &str) -> Result<Vec<u8>, FaktoryError> {
        let length = length.parse().ok().filter(|length| *length <= BULK_BYTES_MAX);
        let length = length.ok_or_else(|| unexpected(&"a bulk of an invalid length"))?;
        let mut content = vec![0; length + 2]; // with the line's end
        self.stream.read_exact(&mut content).await?;
        content.truncate(length);
        Ok(content)
    }
}

fn unexpected(what: &dyn std::fmt::Display) -> FaktoryError {
    FaktoryError::UnexpectedReply(what.to_string())
}
