//! Which settings file and which running Weir a command is for.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use hyper::Uri;

/// What the address of a socket begins with.
pub(crate) const UNIX: &str = "unix:";

/// Where the settings are.
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
    #[arg(long, value_name = "URL", requires = "token_env", conflicts_with_all = ["config", "data_dir"], value_parser = address)]
    pub(crate) url: Option<String>,
    /// Environment variable that holds console.token
    #[arg(long, value_name = "NAME", requires = "url")]
    pub(crate) token_env: Option<String>,
}

/// The address of a running Weir: `http://HOST:PORT`, or `unix:PATH`.
///
/// # Errors
/// It is none, or it holds a secret.
pub(crate) fn address(url: &str) -> anyhow::Result<String> {
    if url.strip_prefix(UNIX).is_some_and(|path| !path.is_empty()) {
        return Ok(url.to_owned());
    }
    let uri: Uri = url.parse()?;
    let Some(authority) = uri.authority() else { bail!("it has no host") };
    // Lists of processes show it, and so would whatever names the address.
    if authority.as_str().contains('@') || uri.query().is_some() {
        bail!(
            "it must not contain a user or a query; give the token in an environment variable or a file"
        );
    }
    if uri.scheme_str() != Some("http") {
        bail!(
            "only http://HOST:PORT is supported; for https use a tunnel, or the address behind the proxy"
        );
    }
    Ok(url.to_owned())
}
