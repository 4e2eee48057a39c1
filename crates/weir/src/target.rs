//! Which settings file and which running Weir a command is for.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use hyper::Uri;

/// What the address of a socket begins with.
pub(crate) const UNIX: &str = "unix:";

/// Where the settings are.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SettingsArguments {
    /// Settings file [default: the one that WEIR_CONFIG names, else weir.toml here, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder for everything that Weir keeps; wins over the settings file
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Which running Weir is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    /// Talk to the console's port of another machine instead of the socket in data_dir
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
    let Some(authority) = uri.authority() else { bail!("it names no host") };
    // Lists of processes show it, and so would whatever names the address.
    if authority.as_str().contains('@') || uri.query().is_some() {
        bail!("it holds a user or a query; give a token by the environment or a file");
    }
    if uri.scheme_str() != Some("http") {
        bail!("it takes http://HOST:PORT; for https use a tunnel or the proxy's inner side");
    }
    Ok(url.to_owned())
}
