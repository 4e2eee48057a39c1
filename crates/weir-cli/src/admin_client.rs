//! How commands talk to a running Weir: HTTP/JSON over the socket in `data_dir`, or over the
//! console's port with a token. One connection, one request at a time.

use std::future::Future;
use std::path::Path;

use anyhow::{Context, anyhow};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::{TcpStream, UnixStream};
use weir_base::secret::Secret;
use weir_net::unix_path::ShortPath;

use crate::data_dir;
use crate::target::{self, Target, UNIX};
use weir_config::{Settings, environment};

/// Bytes of one whole answer; streams are not held.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Weir has answered that it won't.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    message: String,
}

/// A connection to a running Weir.
#[derive(Debug)]
pub(crate) struct AdminClient {
    connection: SendRequest<Full<Bytes>>,
    host: String,
    token: Option<Secret>,
}

/// Runs a command's future to its end.
pub(crate) fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command)
}

impl AdminClient {
    /// Connects to the Weir that `target` names.
    pub(crate) async fn connect(target: &Target) -> anyhow::Result<Self> {
        match &target.url {
            Some(url) => Self::connect_to_url(url, target.token_env.as_deref()).await,
            None => Self::connect_to_socket(target).await,
        }
    }

    async fn connect_to_socket(target: &Target) -> anyhow::Result<Self> {
        let path = Settings::in_data_dir(&data_dir::find(&target.settings)?).admin_socket();
        Self::at_socket(&path).await
    }

    async fn at_socket(path: &Path) -> anyhow::Result<Self> {
        let short = ShortPath::to(path)
            .and_then(|short| std::os::unix::net::UnixStream::connect(short.as_path()));
        let stream = short.map_err(|error| not_running(path, &error))?;
        stream.set_nonblocking(true)?;
        let stream = TokioIo::new(UnixStream::from_std(stream)?);
        let (connection, driver) = http1::handshake(stream).await?;
        drive(driver);
        Ok(Self { connection, host: "weir".to_owned(), token: None })
    }

    async fn connect_to_url(url: &str, token_env: Option<&str>) -> anyhow::Result<Self> {
        let context = || format!("--url {url}");
        target::address(url).with_context(context)?;
        let variable = token_env.unwrap_or_default();
        let token = environment::variable(variable).with_context(|| {
            format!("--token-env: the environment variable {variable} is not set")
        })?;
        Self::at(url, Some(Secret::new(token))).await
    }

    /// At an address that was checked.
    pub(crate) async fn at(url: &str, token: Option<Secret>) -> anyhow::Result<Self> {
        if let Some(path) = url.strip_prefix(UNIX) {
            return Self::at_socket(Path::new(path)).await;
        }
        let uri: Uri = url.parse()?;
        let authority = uri.authority().ok_or_else(|| anyhow!("{url} names no host"))?;
        let address = (authority.host(), authority.port_u16().unwrap_or(7420));
        let stream = TcpStream::connect(address).await.with_context(|| {
            format!("cannot connect to Weir at {url}; check that it is running there")
        })?;
        let (connection, driver) = http1::handshake(TokioIo::new(stream)).await?;
        drive(driver);
        Ok(Self { connection, host: authority.to_string(), token })
    }

    /// Reads an answer.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> anyhow::Result<T> {
        let response = self.send(Method::GET, path, None).await?;
        read_json(response).await
    }

    /// Asks for something to be done.
    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        let body = serde_json::to_vec(body)?;
        self.post_bytes(path, "application/json", body).await
    }

    /// The same, with JSON lines.
    pub(crate) async fn post_lines<T: DeserializeOwned>(
        &mut self,
        path: &str,
        lines: Vec<u8>,
    ) -> anyhow::Result<T> {
        self.post_bytes(path, "application/x-ndjson", lines).await
    }

    async fn post_bytes<T: DeserializeOwned>(
        &mut self,
        path: &str,
        kind: &'static str,
        body: Vec<u8>,
    ) -> anyhow::Result<T> {
        let response = self.send(Method::POST, path, Some((kind, body))).await?;
        read_json(response).await
    }

    /// Hands every piece of a streamed answer to `each`.
    pub(crate) async fn stream(
        &mut self,
        path: &str,
        mut each: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut body = self.send(Method::GET, path, None).await?.into_body();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.context("the response ended early; the output above is incomplete")?;
            if let Some(data) = frame.data_ref() {
                each(data)?;
            }
        }
        Ok(())
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let body = match body {
            Some((kind, body)) => {
                request = request.header(header::CONTENT_TYPE, kind);
                Full::from(body)
            }
            None => Full::default(),
        };
        self.connection.ready().await.context("Weir closed the connection")?;
        let response = self.connection.send_request(request.body(body)?).await;
        let response = response.context("Weir sent no response")?;
        if response.status().is_success() { Ok(response) } else { Err(refused(response).await) }
    }
}

/// The connection ends with the runtime, which lives as long as the command.
#[expect(clippy::disallowed_methods, reason = "a command has no service and no tracker")]
fn drive<F>(driver: F)
where
    F: Future<Output = hyper::Result<()>> + Send + 'static,
{
    drop(tokio::spawn(driver));
}

fn not_running(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let shown = path.display();
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => anyhow!(
            "Weir is not running with this data_dir (nothing accepts connections at {shown}); start it with `weir up`, or name another directory with --data-dir or --config"
        ),
        std::io::ErrorKind::PermissionDenied => {
            anyhow!(
                "permission denied for {shown}; run the command as the user that runs Weir, or as root"
            )
        }
        _ => anyhow!("cannot connect to {shown}: {error}"),
    }
}

async fn read_json<T: DeserializeOwned>(response: Response<Incoming>) -> anyhow::Result<T> {
    let body = read(response).await?;
    serde_json::from_slice(&body).context("Weir's response has an unexpected format; use the `weir` program of the same version as the running Weir")
}

async fn read(response: Response<Incoming>) -> anyhow::Result<Bytes> {
    let limited = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let body =
        limited.collect().await.map_err(|error| anyhow!("the response ended early: {error}"))?;
    Ok(body.to_bytes())
}

/// `{"error":"..","hint":".."}`, or whatever text came.
async fn refused(response: Response<Incoming>) -> anyhow::Error {
    let status = response.status();
    let body = read(response).await.unwrap_or_default();
    let text = match serde_json::from_slice::<serde_json::Value>(&body) {
        Ok(json) => {
            let field = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
            match (field("error"), field("hint")) {
                (error, hint) if hint.is_empty() => error,
                (error, hint) => format!("{error} ({hint})"),
            }
        }
        Err(_) => String::from_utf8_lossy(&body).trim().to_owned(),
    };
    let message = match (status, text) {
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
            "Weir rejected the token; it must be the value of console.token".to_owned()
        }
        (status, text) if text.is_empty() => format!("Weir responded with {status}"),
        (_, text) => text,
    };
    Refused { status, message }.into()
}
