//! Parsing the query of a request to the HTTP API, and the form in which it is signed.

use std::borrow::Cow;

use crate::pusher::excerpt::Excerpt;
use crate::pusher::limits::PusherLimits;

/// The signature's parameter, which is the only one that is not signed.
const SIGNATURE: &str = "auth_signature";

/// A request's decoded parameters, in the order in which they are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedQuery<'a>(Vec<Parameter<'a>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parameter<'a> {
    name: Cow<'a, str>,
    value: Cow<'a, str>,
}

/// Why a query was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// There are more parameters than the limit.
    #[error("the query has more than {max} parameters")]
    TooMany { max: usize },
    /// A parameter occurs twice, so its value is ambiguous.
    #[error("the query has '{}' twice; only arrays, named like channels[], repeat", Excerpt(.name))]
    Duplicate { name: String },
    /// A parameter would make the signed text, which is unescaped, ambiguous.
    #[error("parameter '{}' holds an escaped '&', '=' or control character: it can't be signed", Excerpt(.name))]
    Ambiguous { name: String },
}

impl<'a> SignedQuery<'a> {
    /// Parses the query after the question mark.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(query: &'a str, limits: &PusherLimits) -> Result<Self, QueryError> {
        let max = limits.api_query_parameters_max;
        let mut parameters: Vec<_> = form_urlencoded::parse(query.as_bytes())
            .take(max.saturating_add(1))
            .map(|(name, value)| Parameter { name: lowercase(name), value })
            .collect();
        if parameters.len() > max {
            return Err(QueryError::TooMany { max });
        }
        // A stable sort keeps the order of an array's values.
        parameters.sort_by(|one, other| one.sort_key().cmp(other.sort_key()));
        check_duplicates(&parameters)?;
        parameters.iter().try_for_each(check_ambiguity)?;
        Ok(Self(parameters))
    }

    /// Returns the value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|parameter| parameter.name == name).map(|parameter| &*parameter.value)
    }

    /// Returns the parameters as they are signed: sorted by lower-case name, unescaped, without the
    /// signature.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        for parameter in self.0.iter().filter(|parameter| parameter.name != SIGNATURE) {
            let separator = if text.is_empty() { "" } else { "&" };
            text.extend([separator, &parameter.name, "=", &parameter.value]);
        }
        text
    }
}

impl Parameter<'_> {
    /// Returns the name without brackets, by which Pusher sorts arrays.
    fn sort_key(&self) -> &str {
        self.name.strip_suffix("[]").unwrap_or(&self.name)
    }

    fn is_array(&self) -> bool {
        self.name.ends_with("[]")
    }
}

fn lowercase(name: Cow<'_, str>) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => name,
    }
}

/// Rejects duplicate parameters, which are neighbors once sorted. An array and a plain parameter
/// with the same name are rejected too: they would have no defined order.
fn check_duplicates(parameters: &[Parameter<'_>]) -> Result<(), QueryError> {
    let duplicate = parameters.windows(2).find(|pair| {
        pair[0].sort_key() == pair[1].sort_key() && !(pair[0].is_array() && pair[1].is_array())
    });
    match duplicate {
        Some(pair) => Err(QueryError::Duplicate { name: pair[0].name.clone().into_owned() }),
        None => Ok(()),
    }
}

/// Rejects parameters that make the canonical text ambiguous. It joins unescaped names and values,
/// so `a=1%26b=2` would have the same signature as `a=1&b=2`.
fn check_ambiguity(parameter: &Parameter<'_>) -> Result<(), QueryError> {
    let splits = |character: char| character == '&' || character.is_control();
    let is_ambiguous = parameter.value.contains(splits)
        || parameter.name.contains(|character| character == '=' || splits(character));
    match is_ambiguous {
        true => Err(QueryError::Ambiguous { name: parameter.name.clone().into_owned() }),
        false => Ok(()),
    }
}
