//! Measurements of a running Weir, for doctor.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_advisor::observation::{Fact, Missing, MissingReason, Observation};
use weir_base::secret::Secret;

use crate::admin_client::{AdminClient, Refused};
use crate::commands::sources;
use crate::exit::WrongUsage;
use crate::target;
use weir_admin::measured::Parts;

/// Timeout of its response.
const PATIENCE: Duration = Duration::from_secs(5);

/// The options to connect to a running Weir.
#[derive(Debug, Args)]
#[command(next_help_heading = "Weir")]
pub(crate) struct WeirArguments {
    /// A running Weir whose measurements are included: http://HOST:PORT of its console, or
    /// unix:PATH of weir.sock in its data_dir
    #[arg(long, value_name = "URL")]
    weir: Option<String>,
    /// Environment variable that holds its console.token
    #[arg(long, value_name = "NAME", requires = "weir")]
    weir_token_env: Option<String>,
    /// File that holds its console.token
    #[arg(long, value_name = "FILE", requires = "weir", conflicts_with = "weir_token_env")]
    weir_token_file: Option<PathBuf>,
}

/// A running Weir to query.
#[derive(Debug)]
pub(super) struct WeirSource {
    url: String,
    token: Option<Secret>,
}

impl WeirArguments {
    pub(super) fn source(&self) -> anyhow::Result<Option<WeirSource>> {
        let Some(url) = self.weir.clone() else { return Ok(None) };
        let checked = target::address(&url);
        checked.map_err(|error| WrongUsage::new(format!("--weir: {error:#}")))?;
        let (name, file) = (self.weir_token_env.as_deref(), self.weir_token_file.as_deref());
        Ok(Some(WeirSource { url, token: sources::read_password(name, file)? }))
    }
}

impl WeirSource {
    /// Adds its measurements; missing ones are unknown.
    pub(super) async fn add_measurements(&self, observation: &mut Observation) {
        let asked = tokio::time::timeout(PATIENCE, self.fetch_parts()).await;
        let late = || {
            anyhow::anyhow!(
                "no response within {PATIENCE:?}; Weir or the network to it is overloaded"
            )
        };
        match asked.unwrap_or_else(|_| Err(late())) {
            Ok(parts) => parts.fill(observation),
            Err(error) => {
                let missing = self.missing_weir(&error);
                observation.requests = Fact::Unknown(missing.clone());
                observation.own_findings = Fact::Unknown(missing.clone());
                observation.goodput = Fact::Unknown(missing);
            }
        }
    }

    async fn fetch_parts(&self) -> anyhow::Result<Parts> {
        AdminClient::connect_to_address(&self.url, self.token.clone())
            .await?
            .get("/v1/measured")
            .await
    }

    fn missing_weir(&self, error: &anyhow::Error) -> Missing {
        let status = error.downcast_ref::<Refused>().map(|refused| refused.status.as_u16());
        let (obstacle, remedy) = match status {
            Some(401 | 403) => (
                MissingReason::NotAllowed,
                Some("console.token in its weir.toml, and --weir-token-env or --weir-token-file"),
            ),
            Some(404) => (
                MissingReason::NotSupported,
                Some("upgrade that Weir to a version with this endpoint"),
            ),
            _ => (
                MissingReason::Unreachable,
                Some("check the address, and that Weir runs there (weir status)"),
            ),
        };
        let reason = match obstacle {
            // The options of doctor have other names than those of other commands.
            MissingReason::NotAllowed if self.token.is_none() => "it requires a token".to_owned(),
            _ => format!("{error:#}"),
        };
        let what = format!("Weir {}", self.url);
        Missing { what, obstacle, reason, remedy: remedy.map(str::to_owned) }
    }
}
