//! The settings file and the running Weir that a command applies to.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use weir_net::http_client::{HttpUrl, HttpUrlError, Reach, Server};

/// The prefix of a socket's address.
const UNIX: &str = "unix:";
/// The console's default port.
const CONSOLE_PORT: u16 = 7420;

/// The location of the settings.
#[derive(Clone, Debug, Default, Args)]
pub struct SettingsArguments {
    /// Settings file [default: $WEIR_CONFIG, or weir.toml in the current folder if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory; overrides data_dir of the settings file
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// Which running Weir is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    /// Address of the console of a running Weir, instead of the socket in data_dir
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "data_dir"], value_parser = address)]
    pub(crate) url: Option<String>,
    /// Environment variable that holds console.token. A console without a password needs it only for changes
    #[arg(long, value_name = "NAME", requires = "url")]
    pub(crate) token_env: Option<String>,
}

/// Checks the address of a running Weir: `http://HOST:PORT`, `https://HOST` or `unix:PATH`.
///
/// # Errors
/// It is not an address, or contains a secret.
pub(crate) fn address(url: &str) -> anyhow::Result<String> {
    server(url).map(|_| url.to_owned())
}

/// Parses such an address.
///
/// # Errors
/// As for [`address`].
pub(crate) fn server(url: &str) -> anyhow::Result<Server> {
    if let Some(path) = url.strip_prefix(UNIX).filter(|path| !path.is_empty()) {
        return Ok(Server::Unix(path.into()));
    }
    match url.parse::<HttpUrl>() {
        Ok(url) if url.target().query().is_none() => {
            let url = if url.is_encrypted() { url } else { url.or_port(CONSOLE_PORT) };
            Ok(Server::Web { url, nearest: Reach::Special })
        }
        // It would be visible in process lists and in all messages with the address.
        Ok(_) | Err(HttpUrlError::UserInfo) => bail!(
            "it must not contain a user or a query; give the token in an environment variable or a file"
        ),
        Err(HttpUrlError::Scheme(_)) => {
            bail!("only http://HOST:PORT, https://HOST and unix:PATH are supported")
        }
        Err(error) => Err(error.into()),
    }
}
