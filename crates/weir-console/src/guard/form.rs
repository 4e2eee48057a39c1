//! A form that was sent from one of the console's own pages. Handlers that change something take
//! this type, which exists only with the right CSRF token.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};

use super::token;
use super::visitor::Visitor;
use crate::page_error::PageError;

/// The fields of a checked form, in order, with repeated names as sent.
#[derive(Debug)]
pub(crate) struct CheckedForm(Vec<(String, String)>);

/// The field that carries the token.
const CSRF: &str = "csrf";

impl CheckedForm {
    /// Returns the first value of a field; an empty value counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(field, _)| field == name);
        value.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns all values of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(field, _)| field == name).map(|(_, value)| value.clone()).collect()
    }

    fn parse(body: &[u8], csrf: &str) -> Result<Self, PageError> {
        let form = Self(form_urlencoded::parse(body).into_owned().collect());
        match form.get(CSRF) {
            Some(sent) if token::constant_time_eq(sent, csrf) => Ok(form),
            _ => Err(PageError::StaleForm),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for CheckedForm {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Self, PageError> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, state).await?;
        let request = Request::from_parts(parts, body);
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|rejection| PageError::FormRejected(rejection.body_text()))?;
        Self::parse(&body, &visitor.csrf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_needs_its_csrf_token() {
        assert!(CheckedForm::parse(b"csrf=right&a=1", "right").is_ok());
        for body in ["a=1", "csrf=wrong", "csrf=", "csrf=wrong&csrf=right", ""] {
            let refused = CheckedForm::parse(body.as_bytes(), "right");
            assert!(matches!(refused, Err(PageError::StaleForm)), "{body}");
        }
    }

    #[test]
    fn repeated_fields_keep_their_order() {
        let form = CheckedForm::parse(b"key=1%7Ca&csrf=t&key=2%7Cb&empty=", "t").unwrap();
        assert_eq!(form.all("key"), ["1|a", "2|b"]);
        assert_eq!((form.get("empty"), form.get("key")), (None, Some("1|a")));
    }
}
