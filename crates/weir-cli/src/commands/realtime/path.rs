//! The addresses of the admin API's requests about realtime.

/// Returns `/v1/realtime/REQUEST?name=value&..`, escaped.
pub(super) fn path(request: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    format!("/v1/realtime/{request}?{}", query.finish())
}
