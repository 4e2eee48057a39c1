//! Light or dark: the system's, unless the visitor chose one. The choice is a cookie, so that the
//! first response has the right colours and no script is needed.

/// The colours of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    System,
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];
    pub(crate) const COOKIE_NAME: &str = "weir_theme";

    /// Parses the theme of a word; unknown words mean the system's.
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::System,
        }
    }

    /// Returns the label of its button.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::System => "Auto",
            Self::Light => "Light",
            Self::Dark => "Dark",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}
