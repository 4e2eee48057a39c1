//! `[gems.postgres]`: where Postgres is, and how much of it is used.

use weir_gems::store::{PostgresSettings, PostgresUrl};
use weir_settings::{Section, TableReader, TextOrSecret};

/// The section.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "gems.postgres", check = Self::parse_url)]
pub struct Postgres {
    /// Where Postgres is: "postgres://USER@HOST/DATABASE", without a password; or { env = "NAME" } or
    /// { file = "PATH" }, with one.
    #[setting(text_or_secret)]
    pub url: Option<TextOrSecret>,
    #[setting(flatten)]
    pub settings: PostgresSettings,
}

impl Postgres {
    fn parse_url(&mut self, table: &mut TableReader<'_>) {
        let Some(url) = &self.url else { return };
        match url.text().parse::<PostgresUrl>() {
            Ok(parsed) if parsed.has_password() && !url.is_secret() => {
                table.error_at("url", "passwords are not allowed in this file; write password = { env = \"NAME\" } or { file = \"PATH\" } beside it");
            }
            Ok(parsed) => self.settings.url = parsed,
            Err(error) => table.error_at("url", &error.to_string()),
        }
    }
}
