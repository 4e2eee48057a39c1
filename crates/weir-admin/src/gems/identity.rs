//! Parses the release that a request names.

use weir_base::admin_api::AdminError;
use weir_gems::platform::Platform;
use weir_gems::release::Identity;

use super::errors;

/// Returns the identity of a release; the platform is `ruby` by default.
pub(super) fn identity(number: &str, platform: Option<&str>) -> Result<Identity, AdminError> {
    let platform = platform.map_or_else(|| Ok(Platform::ruby()), str::parse);
    Ok(Identity {
        number: number.parse().map_err(errors::invalid_input)?,
        platform: platform.map_err(errors::invalid_input)?,
    })
}
