//! The client of a running Weir: HTTP/JSON over the socket in `data_dir`, or over the console's
//! port with a token. It uses one connection for one request at a time.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_admin::audit::SUDO_USER_HEADER;
use weir_base::secret::Secret;
use weir_net::http_client::{
    ClientSettings, HttpClient, HttpError, HttpRequest, HttpResponse, Server,
};

use crate::data_dir;
use crate::target::{self, Target};
use weir_config::{Settings, environment};

/// Limit of a whole response; streamed responses are not buffered.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A request without a token was rejected.
const NO_TOKEN: &str = "Weir does this only with a token: set console.token in its weir.toml, and name the environment variable that holds the token with --token-env; or run the command on its machine with --data-dir";

/// An error response of Weir.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    message: String,
}

/// A connection to a running Weir.
#[derive(Debug)]
pub(crate) struct AdminClient {
    client: HttpClient,
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
        Self::open(Server::Unix(path), None).await
    }

    async fn connect_to_url(url: &str, token_env: Option<&str>) -> anyhow::Result<Self> {
        target::address(url).with_context(|| format!("--url {url}"))?;
        let token = token_env.map(|variable| {
            environment::variable(variable).map(Secret::new).with_context(|| {
                format!("--token-env: the environment variable {variable} is not set")
            })
        });
        Self::connect_to_address(url, token.transpose()?).await
    }

    /// Connects to a validated address.
    pub(crate) async fn connect_to_address(
        url: &str,
        token: Option<Secret>,
    ) -> anyhow::Result<Self> {
        Self::open(target::server(url)?, token).await
    }

    async fn open(server: Server, token: Option<Secret>) -> anyhow::Result<Self> {
        let client = HttpClient::new(server.clone(), Arc::new(ClientSettings::default()));
        client.connect().await.map_err(|error| unreachable(server, error))?;
        Ok(Self { client, token })
    }

    /// Sends a GET request and parses the response.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> anyhow::Result<T> {
        let response = self.send(Method::GET, path, None).await?;
        read_json(response).await
    }

    /// Sends a POST request with a JSON body and parses the response.
    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        let body = serde_json::to_vec(body)?;
        self.post_bytes(path, "application/json", body).await
    }

    /// Sends a POST request with JSON lines and parses the response.
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

    /// Passes each chunk of a streamed response to `on_chunk`.
    pub(crate) async fn stream(
        &mut self,
        path: &str,
        mut on_chunk: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut response = self.send(Method::GET, path, None).await?;
        while let Some(chunk) = response
            .chunk()
            .await
            .context("the response ended early; the output above is incomplete")?
        {
            on_chunk(&chunk)?;
        }
        Ok(())
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> anyhow::Result<HttpResponse> {
        let (kind, body) = body.unzip();
        let is_repeatable = method == Method::GET;
        let body = body.unwrap_or_default().into();
        let mut request =
            HttpRequest { is_repeatable, ..HttpRequest::new(method, path.parse()?, body) };
        let headers = &mut request.headers;
        let agent = concat!("weir/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        if let Some(user) = environment::variable("SUDO_USER")
            && let Ok(user) = HeaderValue::from_str(&user)
        {
            headers.insert(SUDO_USER_HEADER, user);
        }
        if let Some(token) = &self.token {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        if let Some(kind) = kind {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        let response = self.client.send(request).await.context("Weir sent no response")?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status if is_access_error(status) && self.token.is_none() => {
                Err(Refused { status, message: NO_TOKEN.to_owned() }.into())
            }
            _ => Err(read_error(response).await),
        }
    }
}

fn is_access_error(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

fn unreachable(server: Server, error: HttpError) -> anyhow::Error {
    let (url, cause) = match (server, error) {
        (Server::Unix(path), HttpError::Connect(error)) => return not_running(&path, &error),
        (Server::Unix(path), error) => {
            return anyhow!("cannot connect to {}: {error}", path.display());
        }
        (Server::Web { url, .. }, HttpError::Dns(error) | HttpError::Connect(error)) => {
            (url, anyhow::Error::new(error))
        }
        (Server::Web { url, .. }, error) => (url, error.into()),
    };
    cause.context(format!("cannot connect to Weir at {url}; check that it is running there"))
}

fn not_running(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let shown = path.display();
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => anyhow!(
            "Weir is not running with this data_dir (nothing accepts connections at {shown}); start it with `weir up`, or name the running one with --data-dir, --config or --url (`weir up` and `weir demo` print their addresses and directory)"
        ),
        std::io::ErrorKind::PermissionDenied => {
            anyhow!(
                "permission denied for {shown}; run the command as the user that runs Weir, or as root"
            )
        }
        _ => anyhow!("cannot connect to {shown}: {error}"),
    }
}

async fn read_json<T: DeserializeOwned>(response: HttpResponse) -> anyhow::Result<T> {
    let body = read(response).await?;
    serde_json::from_slice(&body).context("Weir's response has an unexpected format; use the `weir` program of the same version as the running Weir")
}

async fn read(mut response: HttpResponse) -> anyhow::Result<Vec<u8>> {
    let body = response.read_to_end(ANSWER_BYTES_MAX).await;
    body.map_err(|error| anyhow!("the response ended early: {error}"))
}

/// Returns the error of a response, or its text.
async fn read_error(response: HttpResponse) -> anyhow::Error {
    let status = response.status();
    let body = read(response).await.unwrap_or_default();
    let message = match (status, json_error(&body)) {
        // A token without the role that a request needs gets an error in JSON.
        (StatusCode::UNAUTHORIZED, _) | (StatusCode::FORBIDDEN, None) => {
            "Weir rejected the token; it must be the value of console.token, or of a token in console.tokens".to_owned()
        }
        (_, Some(error)) if !error.is_empty() => error,
        _ if body.is_empty() => format!("Weir responded with {status}"),
        _ => String::from_utf8_lossy(&body).trim().to_owned(),
    };
    Refused { status, message }.into()
}

/// Reads `{"error":"..","hint":".."}`. None: it is not JSON.
fn json_error(body: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(body).ok()?;
    let field = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    Some(match (field("error"), field("hint")) {
        (error, hint) if hint.is_empty() => error,
        (error, hint) => format!("{error} ({hint})"),
    })
}
